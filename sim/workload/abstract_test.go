package workload

import (
	"errors"
	"fmt"
	"io"
	"math"
	"testing"

	"go.uber.org/goleak"

	"github.com/tritier/tritier/sim/trace"
)

// script writes records as text: a page or byte range each, * for a request
// and + for a range that belongs to the access before it.
func script(recs []trace.Record) string {
	s := ""
	for _, r := range recs {
		if s != "" {
			s += " "
		}
		if r.Flags&trace.SameGroup != 0 {
			s += "+"
		}
		if r.Flags&trace.RequestStart != 0 {
			s += "*"
		}
		op := r.Op.String()
		if r.Flags&trace.Update != 0 {
			op = "U"
		}
		s += fmt.Sprintf("%s%c%d", op, 'a'+rune(r.Array), r.Addr)
		if r.Flags&trace.PageAddressed == 0 {
			s += fmt.Sprintf(":%d", r.Bytes)
		}
	}
	return s
}

func TestExactSequences(t *testing.T) {
	for _, c := range []struct{ spec, want string }{
		{"scan{pages=4}", "*Ra0 Ra1 Ra2 Ra3"},
		{"scan{bytes=129KiB}", "*Ra0 Ra1 Ra2"},
		{"scan{pages=3,writes=1}", "*Wa0 Wa1 Wa2"},
		{"loop{pages=3,accesses=7}", "*Ra0 Ra1 Ra2 *Ra0 Ra1 Ra2 *Ra0"},
		{"loop{pages=1,accesses=2}", "*Ra0 *Ra0"},
		{"mix{pages=1,scan-pages=3,scan=1,accesses=4}", "*Rb0 Rb1 Rb2 *Rb0"},
		{"mix{pages=1,scan=0,accesses=3}", "*Ra0 Ra0 Ra0"},
		{"shift{from=loop,to=loop,pages=2,accesses=5,at=0.6}", "*Ra0 Ra1 *Ra0 *Ra0 Ra1"},
		{"zipf{pages=1,accesses=2}", "*Ra0 Ra0"},
		{"zipf{pages=4,theta=20,accesses=4}", "*Ra0 Ra0 Ra0 Ra0"},
	} {
		if got := script(records(t, c.spec)); got != c.want {
			t.Errorf("%s: %s, want %s", c.spec, got, c.want)
		}
	}
}

func TestLengthsAreAsAnnounced(t *testing.T) {
	for _, spec := range []string{
		"zipf{pages=50,accesses=2500}", "uniform{pages=50,accesses=999}", "scan{pages=1000}", "scan{pages=1001}",
		"loop{pages=7,accesses=1000}", "mix{accesses=1234,pages=9}", "shift{accesses=1111,pages=9,at=0.333}",
	} {
		s, err := Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := s.Accesses(); !ok || n != uint64(len(records(t, spec))) {
			t.Errorf("%s: announced %d, %v, got %d", spec, n, ok, len(records(t, spec)))
		}
	}
}

func TestShares(t *testing.T) {
	const n = 200_000
	for _, share := range []float64{0, 0.01, 0.3, 1} {
		within := func(name string, got float64) {
			if d := math.Abs(got - n*share); d > 5*math.Sqrt(n*share*(1-share)) {
				t.Errorf("%s %v: %v of %v", name, share, got, n)
			}
		}
		for _, shape := range Names()[:6] {
			writes := 0.0
			spec := fmt.Sprintf("%s{pages=%d,writes=%v,seed=5}", shape, n, share)
			if shape != "scan" {
				spec = fmt.Sprintf("%s{pages=1000,accesses=%d,writes=%v,seed=5}", shape, n, share)
			}
			each(t, spec, func(r trace.Record) { writes += float64(r.Op) })
			within(shape+" writes", writes)
		}
		scanned := 0.0
		each(t, fmt.Sprintf("mix{pages=1000,accesses=%d,scan=%v,seed=5}", n, share), func(r trace.Record) { scanned += float64(r.Array) })
		within("mix scan", scanned)
	}
}

// TestWritesLeavePagesAlone: the write share and the scan share draw from
// their own streams.
func TestWritesLeavePagesAlone(t *testing.T) {
	plain := records(t, "zipf{pages=1000,accesses=5000}")
	for i, r := range records(t, "zipf{pages=1000,accesses=5000,writes=0.5}") {
		if r.Addr != plain[i].Addr {
			t.Fatalf("access %d: page %d with writes, %d without", i, r.Addr, plain[i].Addr)
		}
	}
}

func TestScrambleKeepsPopularity(t *testing.T) {
	plain, scrambled := map[uint64]uint64{}, map[uint64]uint64{}
	each(t, "zipf{pages=1000,accesses=50000}", func(r trace.Record) { plain[r.Addr]++ })
	each(t, "zipf{pages=1000,accesses=50000,scramble=true}", func(r trace.Record) { scrambled[r.Addr]++ })
	order := newPermutation(1000, 1)
	moved := 0
	for page, n := range plain {
		if scrambled[order.at(page)] != n {
			t.Errorf("page %d: %d accesses, its image %d", page, n, scrambled[order.at(page)])
		}
		if order.at(page) != page {
			moved++
		}
	}
	if moved < 900 {
		t.Errorf("only %d of %d pages moved", moved, len(plain))
	}
}

func TestShiftMovesTheHotSet(t *testing.T) {
	var halves [2]map[uint64]int
	halves[0], halves[1] = map[uint64]int{}, map[uint64]int{}
	i, starts := 0, []int{}
	each(t, "shift{pages=1000,accesses=40000,theta=1.2}", func(r trace.Record) {
		halves[i/20000][r.Addr]++
		if r.Flags&trace.RequestStart != 0 {
			starts = append(starts, i)
		}
		i++
	})
	hottest := func(m map[uint64]int) (page uint64) {
		for p, n := range m {
			if n > m[page] || n == m[page] && p < page {
				page = p
			}
		}
		return page
	}
	if hottest(halves[0]) == hottest(halves[1]) {
		t.Errorf("page %d is the hottest in both halves", hottest(halves[0]))
	}
	if fmt.Sprint(starts) != "[0 20000]" {
		t.Errorf("requests start at %v", starts)
	}
}

func TestReaderContract(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, err := Parse("zipf{pages=10,accesses=5}")
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := r.Next(nil); n != 0 || err != nil {
		t.Errorf("Next(nil) = %d, %v", n, err)
	}
	batch := make([]trace.Record, 5)
	for _, want := range []int{5, 0, 0} {
		n, err := r.Next(batch)
		if n != want || (n == 0) != errors.Is(err, io.EOF) {
			t.Errorf("Next = %d, %v; want %d", n, err, want)
		}
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	var fault *trace.Error
	if _, err := r.Next(batch); !errors.As(err, &fault) {
		t.Errorf("Next after Close: %v", err)
	}
	if _, err := (Spec{}).Open(t.Context()); err == nil {
		t.Error("a zero Spec opened")
	}
}

// TestCloseEndsEveryShape closes each generator before, amid and after its run:
// a loop that ignores the end would not return.
func TestCloseEndsEveryShape(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, name := range Names() {
		for _, batches := range []int{0, 1, 3} {
			s := mustParse(t, name)
			if s.values.has("scale") {
				s = mustParse(t, name+"{scale=6}")
			}
			r, err := s.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			batch := make([]trace.Record, 10)
			for range batches {
				if n, err := r.Next(batch); n == 0 || err != nil {
					t.Fatalf("%s: Next = %d, %v", s, n, err)
				}
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func BenchmarkShapes(b *testing.B) {
	for _, spec := range []string{"zipf{accesses=1G}", "zipf{accesses=1G,scramble=true}", "uniform{accesses=1G}", "loop{accesses=1G}",
		"hotspot{iterations=1000000}", "bfs{sources=1000000}", "pagerank{iterations=1000000}"} {
		b.Run(spec, func(b *testing.B) {
			r := open(b, spec)
			batch := make([]trace.Record, 4096)
			n := 0
			for b.Loop() {
				k, err := r.Next(batch)
				if err != nil {
					b.Fatal(err)
				}
				n += k
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Maccesses/s")
		})
	}
}
