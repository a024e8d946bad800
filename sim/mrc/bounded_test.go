package mrc

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/tritier/tritier/sim/trace"
)

func openBounded(t *testing.T, name string) trace.Reader {
	t.Helper()
	r, err := trace.Open("../trace/testdata/"+testTraces[name], trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// With room for every page a bounded measurement is exact; with less it keeps to
// its limit, in memory too, and is right on average where enough is sampled.
func TestBoundedLRU(t *testing.T) {
	for _, name := range []string{"mooncake_synthetic", "mqsim_tpcc", "lackey_sort"} {
		tr := loadTest(t, name)
		exact := exactly(tr)
		p, err := MeasureBounded(t.Context(), openBounded(t, name), 65536, Method{MaxPages: 1 << 20, Seed: 1}, nil)
		if err != nil || p.Accesses != exact.Accesses || p.Prefetches != exact.Prefetches || p.Pages != exact.Pages || p.SampledPages != exact.Pages {
			t.Fatalf("%s: %v %+v, exact %+v", name, err, p, exact)
		}
		if c := p.Curve(tr.Info, "lru", []Pair{{GPU: 9}}); !c.Whole() || c.ExpectedError != 0 || p.Prefetches == 0 && c.Warnings != nil {
			t.Errorf("%s: a sample of all pages expects an error: %+v", name, c)
		}
		for n := 1; n < exactDepths; n += 1 + n/9 {
			if a, b := exact.At(n, n/3), p.At(n, n/3); math.Abs(a.Fetches-b.Fetches)+math.Abs(a.T1Hits-b.T1Hits)+math.Abs(a.Overwrites-b.Overwrites) > 1e-3 {
				t.Fatalf("%s, %d frames: %+v, exactly %+v", name, n, b, a)
			}
		}
	}
	tr := loadTest(t, "mooncake_synthetic")
	exact := exactly(tr)
	var errs []float64
	for seed := range uint64(9) {
		p, err := MeasureBounded(t.Context(), openBounded(t, "mooncake_synthetic"), 65536, Method{MaxPages: MinSampled, Seed: seed}, nil)
		if err != nil || p.SampledPages > MinSampled || p.SampledPages < MinSampled-1 {
			t.Fatalf("%v, %d pages", err, p.SampledPages)
		}
		if off := math.Abs(float64(p.Pages)/float64(exact.Pages) - 1); off > 0.1 {
			t.Errorf("seed %d: %d pages estimated of %d", seed, p.Pages, exact.Pages)
		}
		errs = append(errs, meanError(exact, p, logSizes(tr.Info.Pages)))
	}
	slices.Sort(errs)
	if errs[4] > 0.015 {
		t.Errorf("median error %.4f", errs[4])
	}
}

func TestBoundedLRUForgets(t *testing.T) {
	b := NewBoundedLRU(Method{MaxPages: 100, Seed: 1})
	for i := range uint64(300_000) {
		b.Run([]trace.Access{{Page: i, Array: uint32(i % 3)}})
	}
	if len(b.entry) > 100 || len(b.keys) > 101 || len(b.heap.list) > 100 || len(b.stack.last) > 200 {
		t.Errorf("%d entries, %d keys, %d in the heap, room for %d", len(b.entry), len(b.keys), len(b.heap.list), len(b.stack.last))
	}
	if p := b.Profile(); math.Abs(float64(p.Pages)/300_000-1) > 0.5 || p.At(1000, 0).T1Hits > 0.3*300_000 {
		t.Errorf("%d pages estimated of 300000, %+v", p.Pages, p.At(1000, 0))
	}
}

func TestBoundedLRUInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := MeasureBounded(ctx, openBounded(t, "arc_OLTP"), 65536, Method{MaxPages: 1000}, func(done uint64) {
		if done > 50_000 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || p.Accesses < 50_000 || p.Accesses > 900_000 {
		t.Errorf("%v after %d accesses", err, p.Accesses)
	}
}
