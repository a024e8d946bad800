package pinned

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// bitmap is the allocator's model: a slab may lie wherever all its units are free.
type bitmap struct {
	used           []bool
	base, boundary uint64
}

// first returns the first place that the rules allow.
func (b *bitmap) first(size, align uint64) (uint64, bool) {
	for off := uint64(0); off+size <= uint64(len(b.used)); off++ {
		crosses := b.boundary > 0 && size <= b.boundary && off/b.boundary != (off+size-1)/b.boundary
		if (b.base+off)%align == 0 && !crosses && b.free(off, size) {
			return off, true
		}
	}
	return 0, false
}

func (b *bitmap) free(off, size uint64) bool {
	for _, u := range b.used[off : off+size] {
		if u {
			return false
		}
	}
	return true
}

func (b *bitmap) set(off, size uint64, used bool) {
	for i := off; i < off+size; i++ {
		b.used[i] = used
	}
}

// extents lays every slab where the model does, whatever was taken and given before, and its free list stays ordered and joined.
func TestExtentsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Uint64Range(1, 120).Draw(t, "size")
		x := extents{
			free: []extent{{0, size}}, base: rapid.Uint64Range(0, 70).Draw(t, "base"),
			boundary: rapid.SampledFrom([]uint64{0, 8, 12, 32, 64}).Draw(t, "boundary"),
		}
		model := &bitmap{used: make([]bool, size), base: x.base, boundary: x.boundary}
		var live []extent
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := rapid.Uint64Range(1, 40).Draw(t, "n")
				align := uint64(1) << rapid.IntRange(0, 6).Draw(t, "align")
				want, ok := model.first(n, align)
				got, gotOK := x.take(n, align)
				if got != want || gotOK != ok {
					t.Fatalf("take(%d, %d) = %d, %v; the model has %d, %v", n, align, got, gotOK, want, ok)
				}
				if ok {
					model.set(got, n, true)
					live = append(live, extent{got, n})
				}
			},
			"give": func(t *rapid.T) {
				if len(live) == 0 {
					t.Skip("nothing is taken")
				}
				i := rapid.IntRange(0, len(live)-1).Draw(t, "i")
				e := live[i]
				live = append(live[:i], live[i+1:]...)
				x.give(e.off, e.size)
				model.set(e.off, e.size, false)
			},
			"": func(t *rapid.T) { checkExtents(t, &x, model) },
		})
	})
}

func checkExtents(t *rapid.T, x *extents, model *bitmap) {
	var sum uint64
	for i, e := range x.free {
		if e.size == 0 || !model.free(e.off, e.size) || i > 0 && x.free[i-1].end() >= e.off {
			t.Fatalf("free list %v: extent %d is empty, taken, out of order or not joined", x.free, i)
		}
		sum += e.size
	}
	var want uint64
	for _, u := range model.used {
		if !u {
			want++
		}
	}
	if free, _ := x.sum(); sum != want || free != want {
		t.Fatalf("%d free in the list, sum says %d, the model has %d", sum, free, want)
	}
}

func TestExtentsAlignmentWraps(t *testing.T) {
	x := extents{free: []extent{{0, 100}}, base: 1<<64 - 4096}
	if off, ok := x.take(10, 1<<63); ok {
		t.Errorf("an alignment beyond the address space gave %d", off)
	}
	if off, ok := x.take(100, 4096); !ok || off != 0 {
		t.Errorf("after that: %d, %v", off, ok)
	}
}

func TestAlloc(t *testing.T) {
	cfg, _, _ := small(6 * mib)
	p := mustOpen(t, cfg)
	for _, bad := range [][2]uint64{{0, 0}, {1, 12345}} {
		if _, err := p.Alloc(bad[0], bad[1]); err == nil {
			t.Errorf("Alloc(%d, %d) passed", bad[0], bad[1])
		}
	}
	a, err := p.Alloc(100, 0)
	if err != nil || a.Offset() != 0 || a.Size() != 100 || len(a.Bytes()) != 100 || cap(a.Bytes()) != 100 {
		t.Fatalf("%+v, %v", a, err)
	}
	b, err := p.Alloc(2*mib, 64*kib) // not right behind a: it would cross into the second chunk
	if err != nil || b.Offset() != 2*mib {
		t.Fatalf("%+v, %v", b, err)
	}
	var full *FullError
	if _, err := p.Alloc(3*mib, 0); !errors.As(err, &full) || full.Largest != 2*mib || full.Free != 4*mib-4*kib {
		t.Errorf("too large: %v", err)
	}
	if _, err := p.Alloc(1<<63, 0); !errors.As(err, &full) {
		t.Errorf("far too large: %v", err)
	}
	if s := p.Stats(); s.Slabs != 2 || s.Allocated != 2*mib+4*kib || s.Free != full.Free {
		t.Errorf("%+v", s)
	}
	if err := a.Free(); err != nil {
		t.Error(err)
	}
	c, err := p.Alloc(4*kib, 0) // takes a's place, which a's second Free must not give away
	if err != nil || c.Offset() != 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	var twice *FreeError
	if err := a.Free(); !errors.As(err, &twice) || twice.Offset != 0 || twice.Size != 100 {
		t.Errorf("second Free: %v", err)
	}
	if d, err := p.Alloc(4*kib, 0); err != nil || d.Offset() == 0 {
		t.Errorf("a slab was given away twice: %+v, %v", d, err)
	}
}

// A slab larger than a chunk may cross boundaries, and so may any slab where nothing is registered.
func TestAllocAcrossChunks(t *testing.T) {
	cfg, _, _ := small(6 * mib)
	p := mustOpen(t, cfg)
	if s, err := p.Alloc(6*mib, 2*mib); err != nil || s.Offset() != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	cfg, _, _ = small(6 * mib)
	cfg.Register = nil
	p = mustOpen(t, cfg)
	for i := range uint64(2) {
		if s, err := p.Alloc(3*mib, 0); err != nil || s.Offset() != i*3*mib {
			t.Errorf("%+v, %v", s, err)
		}
	}
}

// Goroutines fill slabs with a mark of their own: a slab that two hold at once shows. In the end all is joined again.
func TestAllocConcurrent(t *testing.T) {
	cfg, _, _ := small(8 * mib)
	p := mustOpen(t, cfg)
	const seed = 7
	t.Logf("seed %d", seed)
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, g))
			for i := range uint64(300) {
				s, err := p.Alloc(1+rng.Uint64N(2*mib), 4096<<rng.IntN(6))
				if err != nil {
					var full *FullError
					if !errors.As(err, &full) {
						t.Error(err)
					}
					continue
				}
				mark(t, s, g<<32|i)
				if err := s.Free(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if s, err := p.Alloc(p.Size(), 0); err != nil {
		t.Errorf("not joined: %+v, %v", s, err)
	}
}

func mark(t *testing.T, s *Slab, v uint64) {
	b := s.Bytes()
	for off := 0; off+8 <= len(b); off += 4096 {
		binary.LittleEndian.PutUint64(b[off:], v)
	}
	for off := 0; off+8 <= len(b); off += 4096 {
		if got := binary.LittleEndian.Uint64(b[off:]); got != v {
			t.Errorf("slab %x at %d holds %x", v, s.Offset()+uint64(off), got)
			return
		}
	}
}
