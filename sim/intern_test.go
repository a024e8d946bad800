package sim

import (
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/tritier/tritier/sim/trace"
)

type key struct {
	array uint32
	page  uint64
}

// The dense numbering is a bijection in order of first appearance, whatever
// mixture of small, large, clustered and colliding pages comes.
func TestInternerEqualsMap(t *testing.T) {
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, 2))
	draws := []func() uint64{
		func() uint64 { return rng.Uint64N(1 << 10) },
		func() uint64 { return rng.Uint64N(1 << 19) },
		func() uint64 { return directSpare - 3 + rng.Uint64N(6) },
		func() uint64 { return rng.Uint64() },
		func() uint64 { return ^uint64(0) - rng.Uint64N(4) },
		func() uint64 { return rng.Uint64N(64) << 58 },
	}
	in, want := newInterner(), map[key]uint32{}
	for range 600_000 {
		k := key{uint32(rng.IntN(3)) * 0x7fffffff, draws[rng.IntN(len(draws))]()}
		id, ok := want[k]
		if !ok {
			id = uint32(len(want))
			want[k] = id
		}
		got, fits := in.index(k.array, k.page)
		if !fits || uint32(got) != id {
			t.Fatalf("seed %d: %+v is %d (%v), want %d", seed, k, got, fits, id)
		}
	}
	if int(in.next) != len(want) {
		t.Errorf("%d pages numbered, want %d", in.next, len(want))
	}
}

// list is a Reader over records in memory.
type list struct{ recs []trace.Record }

func (l *list) Next(out []trace.Record) (int, error) {
	if len(l.recs) == 0 {
		return 0, io.EOF
	}
	n := copy(out, l.recs)
	l.recs = l.recs[n:]
	return n, nil
}
func (l *list) Close() error { return nil }

// pages makes records of whole pages; every tenth starts a request.
func pages(numbers ...uint64) *list {
	l := &list{}
	for i, n := range numbers {
		r := trace.Record{Addr: n, Flags: trace.PageAddressed}
		if i%10 == 0 {
			r.Flags |= trace.RequestStart
		}
		l.recs = append(l.recs, r)
	}
	return l
}

func TestTooManyPages(t *testing.T) {
	s := NewStream(pages(1, 2, 3, 4), "t", 4096)
	s.in.limit = 3
	var b Block
	if err := s.Next(&b, 100); err != nil || len(b.Accesses) != 3 {
		t.Fatalf("%d accesses, %v", len(b.Accesses), err)
	}
	var tooMany *TooManyPagesError
	if err := s.Next(&b, 100); !errors.As(err, &tooMany) || tooMany.Limit != 3 {
		t.Errorf("error %v, want a TooManyPagesError", err)
	}
}

// Memory for the numbering stays below 40 bytes a page for sparse pages.
func TestInternerMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	in := newInterner()
	for range 1 << 20 {
		in.index(0, rng.Uint64())
	}
	bytes := 0
	for _, p := range in.tables {
		bytes += 4*len(p.direct) + 12*len(p.ids)
	}
	if per := float64(bytes) / float64(in.next); per > 40 {
		t.Errorf("%.1f bytes a page", per)
	}
}

func BenchmarkStream(b *testing.B) {
	for name, top := range map[string]uint64{"direct": 1 << 16, "hash": 1 << 63} {
		b.Run(name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			set := make([]uint64, 60_000)
			for i := range set {
				set[i] = rng.Uint64N(top)
			}
			numbers := make([]uint64, 1<<20)
			for i := range numbers {
				numbers[i] = set[rng.IntN(len(set))]
			}
			recs := pages(numbers...).recs
			var blk Block
			for b.Loop() {
				s := NewStream(&list{recs: recs}, "bench", 4096)
				for s.Next(&blk, block) == nil {
				}
			}
			b.ReportMetric(float64(len(recs))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Maccess/s")
		})
	}
}
