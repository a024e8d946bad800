package host

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

const testPage = 64

var policies = []string{"bypass", "tier-order", "random", "gmt-reuse{vtd-direct=8,k=1,fit-every=64}",
	"gmt-reuse{t2copy=keep,vtd-direct=8}", "tier-order{t1=lru,t2=lru,t2copy=keep}", "adaptive{vtd-direct=8,k=1,fit-every=64}", "adaptive{t2copy=keep}"}

var sizes = [][3]int{{1, 0, 2}, {1, 1, 2}, {2, 1, 3}, {4, 3, 4}, {5, 1, 32}, {16, 32, 64}}

type world struct {
	*Memory
	ram  *ram
	disk *disk
}

func newWorld(t *testing.T, spec string, size [3]int, seed uint64) *world {
	t.Helper()
	s, err := placement.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	r := newRAM(testPage, size[0], size[1]+size[2])
	d := newDisk(r, seed)
	m, err := New(r, d, Options{PageSize: testPage, T1: size[0], T2: size[1], Spares: size[2], Policy: s, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if m.broken == nil {
			if err := m.Check(); err != nil {
				t.Error(err)
			}
		}
	})
	return &world{m, r, d}
}

func (w *world) array(t *testing.T, id int, pages uint64) placement.Page {
	t.Helper()
	base, err := w.NewArray(id, fmt.Sprintf("a%d", id), pages)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

const perPage = testPage / 8

// batchOf makes a batch of random elements and the buffer for it.
func batchOf(rng *rand.Rand, base placement.Page, elements int, op tier.Op) (*Batch, []int) {
	n := 1 + rng.IntN(40)
	b := &Batch{Op: op, Lanes: 1 + rng.IntN(MaxLanes)}
	seen := map[int]bool{}
	var which []int
	for range n {
		e := min(rng.IntN(elements), rng.IntN(elements))
		if op == tier.Write && seen[e] {
			continue
		}
		seen[e] = true
		b.Spans = append(b.Spans, Span{Page: base + placement.Page(e/perPage), Offset: int32(e % perPage * 8), Length: 8, At: int64(len(which) * 8)})
		which = append(which, e)
	}
	b.Buffer.Bytes = make([]byte, 8*len(which))
	return b, which
}

// TestMemory: random batches, with faults and without, against a model in memory.
func TestMemory(t *testing.T) {
	for _, spec := range policies {
		for _, size := range sizes {
			for _, failing := range []float64{0, 0.03} {
				t.Run(fmt.Sprintf("%s/%v/%v", spec, size, failing), func(t *testing.T) { history(t, spec, size, failing) })
			}
		}
	}
}

func history(t *testing.T, spec string, size [3]int, failing float64) {
	const pages = 48
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newWorld(t, spec, size, seed)
	w.disk.failing, w.disk.timeouts = failing, 0.3
	base := w.array(t, 3, pages)
	rng := rand.New(rand.NewPCG(seed, 1))
	want := make([]uint64, pages*perPage)
	steps := 400
	if testing.Short() {
		steps = 100
	}
	for step := range steps {
		switch op := []tier.Op{tier.Read, tier.Read, tier.Write, tier.Prefetch, tier.Overwrite}[rng.IntN(5)]; op {
		case tier.Overwrite:
			overwrite(t, w, rng, base, want)
		default:
			step1(t, w, rng, base, want, op, uint64(step))
		}
		if rng.IntN(40) == 0 {
			if err := w.Flush(t.Context()); err != nil && failing == 0 {
				t.Fatal(err)
			}
		}
	}
	w.disk.failing = 0
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkDisk(t, w, 3, want)
	if c := w.Stats().Counters; failing > 0 && size[0] < 16 && steps > 100 && c.Errors == 0 {
		t.Error("no access failed")
	}
}

// step1 runs one batch and compares. Elements of accesses that failed keep their
// value: the error names the pages, as far as it can.
func step1(t *testing.T, w *world, rng *rand.Rand, base placement.Page, want []uint64, op tier.Op, version uint64) {
	t.Helper()
	b, which := batchOf(rng, base, len(want), op)
	for i := range which {
		binary.LittleEndian.PutUint64(b.Buffer.Bytes[i*8:], version<<32|uint64(which[i]))
	}
	sent := bytes.Clone(b.Buffer.Bytes)
	err := w.Run(t.Context(), b)
	failed := failedPages(t, err)
	for i, e := range which {
		got := binary.LittleEndian.Uint64(b.Buffer.Bytes[i*8:])
		switch {
		case failed[uint64(e/perPage)] && op == tier.Write:
			// One access of the page may have failed and another not: look.
			want[e] = reread(t, w, base, e, want[e], version<<32|uint64(e))
		case failed[uint64(e/perPage)]:
			if got != want[e] && got != binary.LittleEndian.Uint64(sent[i*8:]) {
				t.Fatalf("element %d of a failed read became %#x", e, got)
			}
		case op == tier.Write:
			want[e] = version<<32 | uint64(e)
		case op == tier.Read && got != want[e]:
			t.Fatalf("element %d is %#x, want %#x", e, got, want[e])
		}
	}
}

// reread reads an element without faults: it is one of two values.
func reread(t *testing.T, w *world, base placement.Page, e int, old, new uint64) uint64 {
	t.Helper()
	defer func(f float64) { w.disk.failing = f }(w.disk.failing)
	w.disk.failing = 0
	b := &Batch{Op: tier.Read, Buffer: Buffer{Bytes: make([]byte, 8)},
		Spans: []Span{{Page: base + placement.Page(e/perPage), Offset: int32(e % perPage * 8), Length: 8}}}
	if err := w.Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	got := binary.LittleEndian.Uint64(b.Buffer.Bytes)
	if got != old && got != new {
		t.Fatalf("element %d of a failed write is %#x, want %#x or %#x", e, got, old, new)
	}
	return got
}

func failedPages(t *testing.T, err error) map[uint64]bool {
	t.Helper()
	failed := map[uint64]bool{}
	var be *BatchError
	switch {
	case err == nil:
	case errors.As(err, &be):
		if be.Failed > MaxNamed {
			for p := range uint64(1000) {
				failed[p] = true
			}
		}
		for _, p := range be.Pages {
			failed[p.Page] = true
			if !errors.Is(p, errInjected) {
				t.Fatalf("an error that does not say why: %v", p)
			}
		}
	default:
		t.Fatal(err)
	}
	return failed
}

// overwrite writes a whole page, which needs no fetch.
func overwrite(t *testing.T, w *world, rng *rand.Rand, base placement.Page, want []uint64) {
	t.Helper()
	p := rng.IntN(len(want) / perPage)
	buf := make([]byte, testPage)
	for i := range perPage {
		binary.LittleEndian.PutUint64(buf[i*8:], rng.Uint64())
	}
	b := &Batch{Op: tier.Write, Buffer: Buffer{Bytes: buf}, Spans: []Span{{Page: base + placement.Page(p), Length: testPage}}}
	if len(failedPages(t, w.Run(t.Context(), b))) > 0 {
		return
	}
	for i := range perPage {
		want[p*perPage+i] = binary.LittleEndian.Uint64(buf[i*8:])
	}
}

func checkDisk(t *testing.T, w *world, id int, want []uint64) {
	t.Helper()
	for e, v := range want {
		b := w.disk.durable[pageKey{id, uint64(e / perPage)}]
		var got uint64
		if b != nil {
			got = binary.LittleEndian.Uint64(b[e%perPage*8:])
		}
		if got != v {
			t.Fatalf("after Close, T3 has %#x for element %d, want %#x", got, e, v)
		}
	}
}

// TestCounts: a batch of one span each counts what the simulator counts, and a
// batch of lanes counts one access per page among them.
func TestCounts(t *testing.T) {
	for _, spec := range policies {
		for _, size := range sizes {
			countLike(t, spec, size)
		}
	}
	w := newWorld(t, "tier-order", [3]int{2, 2, 2}, 1)
	base := w.array(t, 0, 9)
	b := &Batch{Op: tier.Read, Lanes: 4, Buffer: Buffer{Bytes: make([]byte, 8)}}
	for _, p := range []placement.Page{1, 2, 1, 2, 1, 1, 1, 1, 3} {
		b.Spans = append(b.Spans, Span{Page: base + p, Length: 8})
	}
	if err := w.Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if c := w.Stats().Counters; c.Accesses != 4 || c.T3Fetches != 3 || c.T1Hits != 1 {
		t.Errorf("%+v", c)
	}
}

func countLike(t *testing.T, spec string, size [3]int) {
	t.Helper()
	const pages = 48
	w := newWorld(t, spec, size, 9)
	base := w.array(t, 0, pages)
	pol, err := w.o.Policy.Build(placement.Env{T1Frames: size[0], T2Frames: size[1], Pages: pages, Seed: 9})
	if err != nil {
		t.Fatal(err)
	}
	sim, err := tier.New(tier.Config{Pages: pages, T1: pol.T1, T2: pol.T2, Placer: pol.Placer, KeepT2Copy: pol.KeepT2Copy})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(4, 4))
	for range 300 {
		op := []tier.Op{tier.Read, tier.Write, tier.Prefetch}[rng.IntN(3)]
		b, _ := batchOf(rng, base, pages*perPage, op)
		b.Lanes = 1
		if err := w.Run(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		for _, s := range b.Spans {
			sim.Run([]tier.Access{tier.MakeAccess(s.Page, op)})
		}
	}
	if d := cmp.Diff(sim.Counters(), w.Stats().Counters); d != "" {
		t.Errorf("%s %v (-simulator +live):\n%s", spec, size, d)
	}
}

// TestTogether: goroutines share a memory; each owns some elements, so that what
// it reads is what it wrote, whatever the others do to the same pages.
func TestTogether(t *testing.T) {
	w := newWorld(t, "gmt-reuse{vtd-direct=8}", [3]int{3, 4, 8}, 2)
	base := w.array(t, 0, 20)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			mine := make([]uint64, 20*perPage)
			for range 300 {
				e := rng.IntN(20*perPage/4)*4 + g
				buf := make([]byte, 8)
				binary.LittleEndian.PutUint64(buf, rng.Uint64())
				b := &Batch{Op: tier.Write, Buffer: Buffer{Bytes: buf}, Spans: []Span{{Page: base + placement.Page(e/perPage), Offset: int32(e % perPage * 8), Length: 8}}}
				if rng.IntN(2) == 0 {
					b.Op = tier.Read
				}
				if err := w.Run(t.Context(), b); err != nil {
					t.Error(err)
					return
				}
				if got := binary.LittleEndian.Uint64(buf); b.Op == tier.Write {
					mine[e] = got
				} else if got != mine[e] {
					t.Errorf("element %d is %#x, want %#x", e, got, mine[e])
					return
				}
				if rng.IntN(30) == 0 {
					if err := w.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}
