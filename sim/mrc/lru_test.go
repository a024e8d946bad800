package mrc

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/tier"
)

// measure feeds a trace to an LRU in pieces of odd sizes.
func measure(l measurer, tr *sim.Trace) *Profile {
	pages := 0
	for accs, n := tr.Accesses, 1; len(accs) > 0; n = n*3 + 1 {
		part := accs[:min(n, len(accs))]
		accs = accs[len(part):]
		for _, a := range part {
			pages = max(pages, int(a.Page())+1)
		}
		l.Run(part, pages)
	}
	return l.Profile()
}

// Every lru count of golden.tsv comes out exactly.
func TestGoldenLRU(t *testing.T) {
	rows, profiles := goldenCounts(t, "lru"), map[string]*Profile{}
	if len(rows) != 14 {
		t.Fatalf("%d golden counts for lru, want 14", len(rows))
	}
	for _, g := range rows {
		p := profiles[g.trace]
		if p == nil {
			tr := loadTest(t, g.trace)
			l := NewLRU(0)
			l.Run(tr.Accesses, tr.Info.Pages)
			p = l.Profile()
			profiles[g.trace] = p
		}
		if got := p.At(g.frames, 0); got.Fetches != float64(g.misses) || p.Accesses != g.accesses {
			t.Errorf("%s %d: %v of %d miss, want %d of %d", g.trace, g.frames, got.Fetches, p.Accesses, g.misses, g.accesses)
		}
	}
}

// checkExact compares a profile with simulations of each pair of sizes.
func checkExact(t interface {
	Fatalf(string, ...any)
	Errorf(string, ...any)
}, tr *sim.Trace, p *Profile, policy placement.Spec, pairs []Pair) {
	var jobs []sim.Job
	for _, s := range pairs {
		jobs = append(jobs, sim.Job{Policy: policy, GPUFrames: s.GPU, HostFrames: s.Host})
	}
	results, err := sim.Replay(ctx, tr, jobs, sim.Options{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	for i, r := range results {
		got := p.At(pairs[i].GPU, pairs[i].Host)
		want := Tally{T1Hits: float64(r.T1Hits), T2Hits: float64(r.T2Hits), Fetches: float64(r.T3Fetches),
			Overwrites: float64(r.Overwrites), PrefetchReads: float64(r.PrefetchReads)}
		if got != want {
			t.Errorf("%s, %+v frames: curve %+v, simulated %+v", tr.Info.Name, pairs[i], got, want)
		}
	}
}

// The curve equals a simulation at every size, reads, writes and whole-page
// writes mixed, one tier and two, for traces of any length.
func TestExactCurveEqualsEverySimulation(t *testing.T) {
	lru := spec(t, "tier-order{t1=lru,t2=lru}")
	rapid.Check(t, func(t *rapid.T) {
		pages := rapid.IntRange(1, 40).Draw(t, "pages")
		accs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) tier.Access {
			return tier.MakeAccess(placement.Page(rapid.IntRange(0, pages-1).Draw(t, "page")), tier.Op(rapid.IntRange(0, 2).Draw(t, "op")))
		}), 1, 400).Draw(t, "accesses")
		tr := traceOf(accs)
		var pairs []Pair
		for n := 1; n <= pages+1; n++ {
			pairs = append(pairs, Pair{GPU: n}, Pair{GPU: (n + 2) / 3, Host: n - (n+2)/3})
		}
		checkExact(t, tr, measure(NewLRU(0), tr), lru, pairs)
	})
}

func TestExactCurveOfRealTraces(t *testing.T) {
	lru := spec(t, "tier-order{t1=lru,t2=lru}")
	for _, name := range []string{"lirs_multi3", "mooncake_synthetic", "lackey_sort", "mqsim_tpcc"} {
		tr := loadTest(t, name)
		var pairs []Pair
		for _, n := range Grid(1, tr.Info.Pages, 12) {
			pairs = append(pairs, Pair{GPU: n}, Pair{GPU: n, Host: 4 * n})
		}
		checkExact(t, tr, measure(NewLRU(0), tr), lru, pairs)
	}
}

// One page, one access, and nothing at all.
func TestSmallestTraces(t *testing.T) {
	read, over := tier.MakeAccess(0, tier.Read), tier.MakeAccess(0, tier.Overwrite)
	for _, c := range []struct {
		accs []tier.Access
		want Tally
	}{
		{nil, Tally{}},
		{[]tier.Access{read}, Tally{Fetches: 1}},
		{[]tier.Access{over}, Tally{Overwrites: 1}},
		{[]tier.Access{over, read, over, over}, Tally{T1Hits: 3, Overwrites: 1}},
	} {
		for name, p := range map[string]*Profile{
			"exact": measure(NewLRU(0), traceOf(c.accs)), "fixed size": measure(NewSampledLRU(Method{MaxPages: 1, Seed: 3}), traceOf(c.accs)),
			"rate": measure(NewSampledLRU(Method{Rate: 0.9999, Seed: 1}), traceOf(c.accs)),
		} {
			if got := p.At(1, 5); got != c.want {
				t.Errorf("%s: %v: %+v, want %+v", name, c.accs, got, c.want)
			}
		}
	}
}

// methods are a sample of each sort.
var methods = map[string]Method{
	"rate": {Rate: 0.2, Seed: 9}, "rate, adj": {Rate: 0.2, Seed: 9, Correction: CorrectAdj},
	"size": {MaxPages: 500, Seed: 9}, "size, none": {MaxPages: 500, Seed: 9, Correction: CorrectNone},
}

// What a stream gives block by block is what a trace in memory gives at once.
func TestProfileDoesNotDependOnBlocks(t *testing.T) {
	for _, name := range []string{"mqsim_tpcc", "mooncake_synthetic"} {
		tr := loadTest(t, name)
		for label, m := range methods {
			whole, single, blocks := NewSampledLRU(m), NewSampledLRU(m), NewSampledLRU(m)
			whole.Run(tr.Accesses, tr.Info.Pages)
			for i := range tr.Accesses {
				single.Run(tr.Accesses[i:i+1], tr.Info.Pages)
			}
			compareProfiles(t, label, tr, whole.Profile(), single.Profile())
			compareProfiles(t, label, tr, whole.Profile(), measure(blocks, tr))
		}
	}
}

func compareProfiles(t *testing.T, label string, tr *sim.Trace, a, b *Profile) {
	t.Helper()
	if a.SampledPages != b.SampledPages || a.SampledAccesses != b.SampledAccesses || a.Pages != b.Pages {
		t.Errorf("%s: %d and %d pages sampled", label, a.SampledPages, b.SampledPages)
	}
	for n := 1; n <= tr.Info.Pages; n = n*5/4 + 1 {
		if x, y := a.At(n, n), b.At(n, n); x != y {
			t.Fatalf("%s, %d frames: %+v and %+v", label, n, x, y)
		}
	}
}

// A sample is what the miniature of the trace is: the same pages, and at sizes
// that the miniature has, the same misses.
func TestSampledProfileEqualsMiniature(t *testing.T) {
	tr := loadTest(t, "arc_OLTP")
	const rate, seed = 0.05, 4
	s := tr.Sample(rate, seed)
	p := measure(NewSampledLRU(Method{Rate: rate, Seed: seed, Correction: CorrectAdj}), tr)
	if p.SampledPages != s.Trace.Info.Pages || p.SampledAccesses != uint64(len(s.Trace.Accesses)) {
		t.Fatalf("%d pages and %d accesses sampled, the miniature has %d and %d", p.SampledPages, p.SampledAccesses,
			s.Trace.Info.Pages, len(s.Trace.Accesses))
	}
	mini := measure(NewLRU(0), s.Trace)
	for _, k := range []int{1, 10, 500, 3000} {
		want := s.Count(uint64(mini.At(k, 0).Fetches))
		frames := float64(k) / s.Share
		lo, hi := p.At(int(frames)+1, 0).Fetches, p.At(int(frames), 0).Fetches
		if want < lo-1e-6 || want > hi+1e-6 {
			t.Errorf("%d frames of the miniature: %v misses, curve from %v to %v", k, want, lo, hi)
		}
	}
}

// A fixed-size sample keeps to its limit, and until it is full it is exact.
func TestFixedSizeLimit(t *testing.T) {
	tr := loadTest(t, "mooncake_synthetic")
	for _, limit := range []int{1, 2, 100, 5000} {
		p := measure(NewSampledLRU(Method{MaxPages: limit, Seed: 1}), tr)
		if p.SampledPages > limit || p.SampledPages < limit-1 || p.Method.Rate >= 1 {
			t.Errorf("limit %d: %d pages at rate %v", limit, p.SampledPages, p.Method.Rate)
		}
	}
	exact := measure(NewLRU(0), tr)
	for _, c := range []Correction{CorrectHot, CorrectAdj, CorrectNone} {
		full := measure(NewSampledLRU(Method{MaxPages: tr.Info.Pages, Seed: 1, Correction: c}), tr)
		for n := 1; n < exactDepths; n += 77 {
			if a, b := exact.At(n, 0).Fetches, full.At(n, 0).Fetches; math.Abs(a-b) > 1e-6*a {
				t.Fatalf("%s, %d frames: %v, exact %v", c, n, b, a)
			}
		}
		for n := exactDepths; n < tr.Info.Pages; n = n * 9 / 8 {
			lo, hi, got := exact.At(n*1003/1000, 0).Fetches, exact.At(n*999/1000, 0).Fetches, full.At(n, 0).Fetches
			if got > hi+1e-6 || got < lo-1e-6 {
				t.Fatalf("%s, %d frames: %v fetches, exactly from %v to %v", c, n, got, lo, hi)
			}
		}
	}
}

// Between two sizes of the sample the curve goes on falling: every page of a
// uniform trace is hit in proportion to the size.
func TestSampledCurveInterpolates(t *testing.T) {
	tr := loadTest(t, "uniform{pages=20000,accesses=200000}")
	for _, m := range []Method{{Rate: 0.02, Seed: 1}, {MaxPages: 400, Seed: 1}} {
		p := measure(NewSampledLRU(m), tr)
		for c := 120; c < 1000; c += 20 {
			got := p.At(c+20, 0).T1Hits - p.At(c, 0).T1Hits
			if want := float64(20) / 20000 * 200_000; got < want/10 || got > want*10 {
				t.Errorf("%+v: from %d frames on, 20 more have %v more hits, about %v are right", m, c, got, want)
			}
		}
	}
}

// Buckets are contiguous, rise, and hold what lies up to their end.
func TestBuckets(t *testing.T) {
	last := 0
	for d := uint64(1); d < 100_000; d++ {
		i := bucketOf(d)
		if i != last && i != last+1 {
			t.Fatalf("depth %d is in bucket %d after %d", d, i, last)
		}
		if uint64(bucketEnd(i)) < d || i > 1 && uint64(bucketEnd(i-1)) >= d {
			t.Fatalf("depth %d in bucket %d, which ends at %d after %d", d, i, bucketEnd(i), bucketEnd(i-1))
		}
		if at := bucketPlace(int(d)); at > float64(i) || at <= float64(i-1) || (bucketEnd(i) == int(d)) != (at == float64(i)) {
			t.Fatalf("%d frames hold %v buckets, bucket %d ends at %d", d, at, i, bucketEnd(i))
		}
		last = i
	}
	if w := bucketEnd(bucketOf(1 << 40)); w < 1<<40 || w > 1<<40+1<<31 {
		t.Errorf("2^40 is in a bucket up to %d", w)
	}
}
