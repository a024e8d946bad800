package mrc

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/tier"
)

func casesOf(t testing.TB, policies ...string) (list []Case) {
	for _, p := range policies {
		if p == "bound" {
			list = append(list, Case{Bound: true})
			continue
		}
		list = append(list, Case{Policy: spec(t, p)})
	}
	return list
}

// At rate 1 every point of every curve is what package sim counts at that size,
// bounds included, however many workers there are.
func TestCurvesAreSimulations(t *testing.T) {
	tr := loadTest(t, "mqsim_tpcc")
	r := Request{Cases: casesOf(t, "lru", "clock", "gmt-reuse", "tier-order{t1=lru,t2=lru,t2copy=keep}", "bound"),
		Pairs: append(Pairs(Grid(10, tr.Info.Pages/2, 5), 4), Pair{GPU: 100}), PolicySeed: 7}
	curves, err := Run(t.Context(), tr, r)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range r.Cases {
		if c.Bound {
			c.Policy = spec(t, "lru")
		}
		for k, p := range r.Pairs {
			results, err := sim.Replay(t.Context(), tr, []sim.Job{{Policy: c.Policy, GPUFrames: p.GPU, HostFrames: p.Host, Seed: 7}}, sim.Options{Bound: true})
			if err != nil {
				t.Fatal(err)
			}
			got, want := curves[i].Points[k], results[0]
			switch {
			case c.Bound && (got.SSDReads != *want.BoundReads || got.T1Hits != nil):
				t.Errorf("bound at %+v: %d, want %d", p, got.SSDReads, *want.BoundReads)
			case !c.Bound && (got.SSDReads != want.SSDReads || *got.T1Hits != want.T1Hits || *got.T2Hits != want.T2Hits || *got.Overwrites != want.Overwrites):
				t.Errorf("%s at %+v: %+v, want %+v", curves[i].Policy, p, got, want.Counters)
			}
			if got.Pair != p || got.Bytes != uint64(p.Frames())*tr.Info.PageSize || got.MissRatio != float64(got.SSDReads)/float64(tr.Info.Accesses) {
				t.Errorf("point %+v at %+v", got, p)
			}
		}
		if kind := curves[i].Kind; kind != map[bool]string{true: Exact, false: Simulated}[i == 0] || !curves[i].Complete || curves[i].ExpectedError != 0 || curves[i].Warnings != nil {
			t.Errorf("curve %+v", curves[i])
		}
	}
	r.Workers = 1
	again, err := Run(t.Context(), tr, r)
	if d := cmp.Diff(curves, again); d != "" || err != nil {
		t.Errorf("one worker: %v\n%s", err, d)
	}
}

// Sampled or not, no policy's curve lies below the bound's, and a stream gives
// what a trace in memory gives.
func TestNoCurveBelowTheBound(t *testing.T) {
	for _, name := range []string{"lirs_multi3", "mqsim_tpcc"} {
		tr := loadTest(t, name)
		for _, m := range []Method{{}, {Rate: 0.3, Seed: 2}, {Rate: 0.02, Seed: 3}, {MaxPages: 300, Seed: 4}, {MaxPages: 1 << 20, Seed: 4},
			{MaxPages: 100, Seed: 5, Correction: CorrectAdj}, {Rate: 0.03, Seed: 6, Correction: CorrectNone}} {
			r := Request{Cases: casesOf(t, "bound", "lru", "clock", "s3-fifo", "random{}", "bypass"), Method: m,
				PairsOf: func(info sim.TraceInfo) ([]Pair, error) { return Pairs(Grid(info.Pages/50, info.Pages, 6), 3), nil }}
			curves, err := Run(t.Context(), tr, r)
			if err != nil {
				t.Fatal(err)
			}
			bound := map[Pair]uint64{}
			for i, p := range curves[0].Points {
				bound[p.Pair] = p.SSDReads
				if i > 0 && p.SSDReads > curves[0].Points[i-1].SSDReads {
					t.Errorf("%s, %+v: the bound rises to %d at %+v", name, m, p.SSDReads, p.Pair)
				}
			}
			for _, c := range curves[1:] {
				if m.MaxPages > 0 && c.SampledPages > m.MaxPages {
					t.Errorf("%s, %+v: %s has %d sampled pages", name, m, c.Policy, c.SampledPages)
				}
				for _, p := range c.Points {
					if p.SSDReads < bound[p.Pair] {
						t.Errorf("%s, %+v: %s reads %d at %+v, bound %d", name, m, c.Policy, p.SSDReads, p.Pair, bound[p.Pair])
					}
				}
			}
			streamed, err := RunStream(t.Context(), openTest(t, name), r)
			if d := cmp.Diff(curves, streamed); d != "" || err != nil {
				t.Errorf("%s, %+v: streamed: %v\n%s", name, m, err, d)
			}
		}
	}
}

// Prefetches make LRU's curve depend on the size in a way that no stack has, so
// that it is simulated; a stream counts them as uses and says so.
func TestPrefetches(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		accs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) tier.Access {
			return tier.MakeAccess(placement.Page(rapid.IntRange(0, 9).Draw(t, "page")), tier.Op(rapid.IntRange(0, 3).Draw(t, "op")))
		}), 1, 100).Draw(rt, "accesses")
		tr := traceOf(accs)
		r := Request{Cases: casesOf(t, "lru"), Pairs: []Pair{{GPU: 1}, {GPU: 2, Host: 1}, {GPU: 5}, {GPU: 12}}}
		curves, err := Run(ctx, tr, r)
		if err != nil {
			rt.Fatal(err)
		}
		for i, p := range r.Pairs {
			results, err := sim.Replay(ctx, tr, []sim.Job{{Policy: r.Cases[0].Policy, GPUFrames: p.GPU, HostFrames: p.Host}}, sim.Options{})
			if err != nil {
				rt.Fatal(err)
			}
			if got := curves[0].Points[i]; got.SSDReads != results[0].SSDReads || *got.T1Hits != results[0].T1Hits {
				rt.Errorf("%+v: %+v, want %+v", p, got, results[0].Counters)
			}
		}
	})
}

// A policy's sizes that make no sense are left out and named; when none is left
// that is an error.
func TestSizesTooSmall(t *testing.T) {
	tr := loadTest(t, "lirs_multi3")
	r := Request{Cases: casesOf(t, "s3-fifo"), Pairs: []Pair{{GPU: 1}, {GPU: 2000}}}
	curves, err := Run(t.Context(), tr, r)
	if err != nil || len(curves[0].Points) != 1 || len(curves[0].Warnings) != 1 || !strings.Contains(curves[0].Warnings[0], "sizes too small: 1 of 2, up to 1 GPU and 0 host frames") {
		t.Errorf("%v %+v", err, curves)
	}
	r.Pairs = r.Pairs[:1]
	var small *placement.SizeError
	if _, err := Run(t.Context(), tr, r); !errors.As(err, &small) || strings.Contains(err.Error(), "miniature") {
		t.Errorf("no size is left: %v", err)
	}
	r.Cases = append(r.Cases, casesOf(t, "lru")...)
	r.Cases[0].Optional = true
	curves, err = Run(t.Context(), tr, r)
	if err != nil || len(curves[0].Points) != 0 || len(curves[0].Warnings) != 1 || !curves[0].Complete || len(curves[1].Points) != 1 {
		t.Errorf("a policy that may be left out: %v %+v", err, curves)
	}
	if text, err := json.Marshal(curves[0].Only(r.Pairs)); err != nil || !strings.Contains(string(text), `"points":[]`) {
		t.Errorf("%v: %s", err, text)
	}
	r = Request{Cases: casesOf(t, "w-tinylfu"), Pairs: []Pair{{GPU: 100}}, Method: Method{Rate: 0.001}}
	if _, err := Run(t.Context(), tr, r); !errors.As(err, &small) || !strings.Contains(err.Error(), "in a miniature of") {
		t.Errorf("too small in miniature: %v", err)
	}
}

// A context that ends leaves what is known, marked incomplete.
func TestInterrupted(t *testing.T) {
	tr := loadTest(t, "arc_OLTP")
	for _, stream := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		r := Request{Cases: casesOf(t, "lru", "arc", "bound"), Pairs: []Pair{{GPU: 1000}}, Workers: 1,
			Progress: func(done, _ uint64) {
				if done > 3*passBlock {
					cancel()
				}
			}}
		var curves []Curve
		var err error
		if stream {
			curves, err = RunStream(ctx, openTest(t, "arc_OLTP"), r)
		} else {
			curves, err = Run(ctx, tr, r)
		}
		if err != context.Canceled || len(curves) != 3 {
			t.Fatalf("stream %v: %d curves, %v", stream, len(curves), err)
		}
		for _, c := range curves {
			if c.Complete {
				t.Errorf("stream %v: %s is complete", stream, c.Policy)
			}
		}
		lru := curves[0]
		if len(lru.Points) != 1 || lru.Trace.Accesses == 0 || lru.Trace.Accesses >= tr.Info.Accesses {
			t.Errorf("stream %v: of LRU's curve %+v is known", stream, lru)
		}
	}
}

func TestRefuses(t *testing.T) {
	tr := loadTest(t, "lirs_multi3")
	lru := casesOf(t, "lru")
	for _, r := range []Request{
		{Pairs: []Pair{{GPU: 1}}}, {Cases: lru}, {Cases: lru, Pairs: []Pair{{GPU: 0}}}, {Cases: lru, Pairs: []Pair{{GPU: 1, Host: -1}}},
		{Cases: lru, Pairs: []Pair{{GPU: placement.MaxPages + 1}}},
		{Cases: lru, Pairs: []Pair{{GPU: 1}}, Method: Method{Rate: 1.5}}, {Cases: lru, Pairs: []Pair{{GPU: 1}}, Method: Method{Rate: -1}},
		{Cases: lru, Pairs: []Pair{{GPU: 1}}, Method: Method{MaxPages: -1}}, {Cases: lru, Pairs: []Pair{{GPU: 1}}, Method: Method{Rate: 0.5, MaxPages: 5}},
		{Cases: lru, Pairs: []Pair{{GPU: 1}}, Method: Method{Correction: "best"}},
		{Cases: lru, PairsOf: func(sim.TraceInfo) ([]Pair, error) { return nil, nil }},
	} {
		if _, err := Run(t.Context(), tr, r); err == nil {
			t.Errorf("%+v was run", r)
		}
	}
}

// The JSON names that programs rely on; few sampled pages give a warning.
func TestCurveJSON(t *testing.T) {
	tr := loadTest(t, "mooncake_synthetic")
	curves, err := Run(t.Context(), tr, Request{Cases: casesOf(t, "lru", "clock"), Pairs: []Pair{{GPU: 1000, Host: 4000}}, Method: Method{Rate: 0.05, Seed: 3}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range curves {
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		for _, k := range []string{"trace", "policy", "bound", "kind", "complete", "rate", "seed", "policy_seed", "sampled_pages", "expected_error", "warnings", "points"} {
			if _, ok := got[k]; !ok {
				t.Errorf("no %q in %s", k, text)
			}
		}
		point := got["points"].([]any)[0].(map[string]any)
		for _, k := range []string{"gpu_frames", "host_frames", "bytes", "miss_ratio", "ssd_reads", "t1_hits", "t2_hits", "overwrites"} {
			if _, ok := point[k]; !ok {
				t.Errorf("no %q in %s", k, text)
			}
		}
		if c.SampledPages >= MinSampled || c.ExpectedError == 0 || !strings.Contains(strings.Join(c.Warnings, ""), "pages were sampled: below 5,000") {
			t.Errorf("%d sampled pages, warnings %q", c.SampledPages, c.Warnings)
		}
	}
}

func TestGrid(t *testing.T) {
	for _, c := range []struct{ low, high, n, want int }{{1, 1000, 10, 10}, {1, 5, 100, 5}, {7, 7, 5, 1}, {9, 3, 5, 1}, {0, 0, 4, 1}, {10, 1 << 30, 2, 2}} {
		g := Grid(c.low, c.high, c.n)
		if len(g) != c.want || g[len(g)-1] != max(c.low, c.high, 1) {
			t.Errorf("%+v: %v", c, g)
		}
		for i := 1; i < len(g); i++ {
			if g[i] <= g[i-1] {
				t.Errorf("%+v: %v", c, g)
			}
		}
	}
}

// MIN falls with the size, whatever a sample makes of it.
func TestFall(t *testing.T) {
	pts := []Point{{Pair: Pair{GPU: 9}, SSDReads: 7, MissRatio: 0.7}, {Pair: Pair{GPU: 1, Host: 1}, SSDReads: 9, MissRatio: 0.9}, {Pair: Pair{GPU: 5}, SSDReads: 6, MissRatio: 0.6}}
	fall(pts)
	if pts[0].SSDReads != 6 || pts[0].MissRatio != 0.6 || pts[1].SSDReads != 9 || pts[2].SSDReads != 6 {
		t.Errorf("%+v", pts)
	}
}

// A miniature runs the policy with its parameters scaled to its size.
func TestMiniaturePolicyIsScaled(t *testing.T) {
	s := loadTest(t, "lirs_multi3").Sample(0.2, 1)
	gmt := spec(t, "gmt-reuse")
	r, err := newCaseRuns(Case{Policy: gmt}, []Pair{{GPU: 500, Host: 500}}, s, false)
	if want := gmt.Scaled(s.Share).String(); err != nil || r.scaled.String() != want || want == gmt.String() {
		t.Errorf("%v: %s, want %s", err, r.scaled, want)
	}
}

// A keeper drops the accesses of pages that are not sampled any more.
func TestKeeperForgets(t *testing.T) {
	k := newKeeper(Method{MaxPages: 10, Seed: 1})
	k.filterAt, k.least = 2000, 2000
	accs := make([]tier.Access, 1000)
	for round := range 5000 {
		for i := range accs {
			accs[i] = tier.MakeAccess(placement.Page(round*10+i%10), tier.Read)
		}
		k.run(accs, round*10+10)
		if len(k.accs) > 2000+len(accs) {
			t.Fatalf("round %d: %d accesses kept", round, len(k.accs))
		}
	}
	if k.filter(); len(k.heap.list) > 10 || len(k.accs) > 10*100 {
		t.Errorf("%d accesses of %d pages kept", len(k.accs), len(k.heap.list))
	}
}
