package sim

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// exactly makes adaptive's shadows see every page.
const exactly = "shadow-frames=1073741824"

// shadowsEqual replays adaptive with exact shadows and the three placers alone:
// the shadows have counted what these did.
func shadowsEqual(t testing.TB, tr *Trace, gpu, host int, inside string, seed uint64) {
	t.Helper()
	var jobs []Job
	for _, name := range []string{"adaptive{" + exactly + ",", "bypass{", "tier-order{", "gmt-reuse{"} {
		own := inside
		if !strings.HasPrefix(name, "adaptive") && !strings.HasPrefix(name, "gmt") {
			own, _, _ = strings.Cut(inside, ",k=") // parameters of gmt-reuse come last
		}
		jobs = append(jobs, Job{Policy: spec(t, name+own+"}"), GPUFrames: gpu, HostFrames: host, Seed: seed})
	}
	r, err := Replay(t.Context(), tr, jobs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := r[0].Placer.(placement.AdaptiveReport).Shadows
	want := placement.ShadowReport{
		Sample: 1, Pages: got.Pages, T1Frames: gpu, T2Frames: host, Accesses: r[0].Accesses,
		Fetches: placement.ShadowFetches{Bypass: r[1].T3Fetches, TierOrder: r[2].T3Fetches, GMTReuse: r[3].T3Fetches},
	}
	if got != want {
		t.Fatalf("%d+%d frames, %s, seed %d: shadows %+v, want %+v", gpu, host, inside, seed, got, want)
	}
	if want.Fetches.TierOrder > want.Fetches.Bypass {
		t.Fatalf("tier-order fetches more than bypass: %+v", want.Fetches)
	}
	if err := r[0].Check(); err != nil {
		t.Fatal(err)
	}
}

// TestShadowsAreExactOnRealTraces: on every trace at hand, with several evictors.
func TestShadowsAreExactOnRealTraces(t *testing.T) {
	for name := range testTraces {
		if testing.Short() && name != "lirs_multi3" && name != "mqsim_tpcc" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := loadTest(t, name)
			for i, inside := range []string{"t1=clock,t2=fifo", "t1=lru,t2=lru,t2copy=keep", "t1=arc,t2=random", "t1=lru,t2=belady,t2copy=keep"} {
				if i > 0 && len(tr.Accesses) > 300_000 {
					break
				}
				gpu := max(1, tr.Info.Pages/(10+20*i))
				shadowsEqual(t, tr, gpu, 4*gpu, inside, uint64(i))
			}
		})
	}
}

// TestShadowsAreExact draws traces of all operations, sizes down to one frame
// and no T2, evictors and parameters.
func TestShadowsAreExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tr := drawPhases(rt)
		evictors := rapid.SampledFrom([]string{"clock", "fifo", "lru", "random", "lfu", "arc", "sieve", "belady"})
		inside := fmt.Sprintf("t1=%s,t2=%s,t2copy=%s,k=%d,window=%d,vtd-direct=%d,fit-every=64,starve=%g,first=%g", evictors.Draw(rt, "t1"), evictors.Draw(rt, "t2"),
			rapid.SampledFrom([]string{"keep", "drop"}).Draw(rt, "t2copy"), rapid.IntRange(1, 4).Draw(rt, "k"), rapid.IntRange(1, 50).Draw(rt, "window"),
			rapid.IntRange(0, 100).Draw(rt, "vtd-direct"), rapid.Float64Range(0, 1).Draw(rt, "starve"), rapid.Float64Range(0, 1).Draw(rt, "first"))
		shadowsEqual(t, tr, rapid.IntRange(1, 30).Draw(rt, "gpu"), rapid.IntRange(0, 60).Draw(rt, "host"), inside, rapid.Uint64Range(0, 9).Draw(rt, "seed"))
	})
}

// drawPhases draws a trace in phases, each over pages of its own range, in loops
// or at random, with reads, writes, overwrites and prefetches.
func drawPhases(rt *rapid.T) *Trace {
	tr := &Trace{}
	for range rapid.IntRange(1, 4).Draw(rt, "phases") {
		first, n := rapid.IntRange(0, 50).Draw(rt, "first page"), rapid.IntRange(1, 100).Draw(rt, "pages")
		loop, seed := rapid.Bool().Draw(rt, "loop"), rapid.Uint64().Draw(rt, "trace seed")
		for i := range uint64(rapid.IntRange(1, 1500).Draw(rt, "accesses")) {
			h := placement.Hash(seed, i, 0)
			p := h % uint64(n)
			if loop {
				p = i % uint64(n)
			}
			op := tier.Read
			if h>>32%4 == 0 {
				op = tier.Op(h >> 40 % 4)
			}
			tr.Accesses = append(tr.Accesses, tier.MakeAccess(placement.Page(uint64(first)+p), op))
			if op != tier.Prefetch {
				tr.Info.Accesses++
			}
		}
		tr.Info.Pages = max(tr.Info.Pages, first+n)
	}
	return tr
}
