package sim

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/tier"
)

func testModel(t testing.TB, name string) *servicetime.Model {
	t.Helper()
	m, err := servicetime.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Virtual time changes no decision, whatever the policy, the trace and the number
// in flight; a stream takes the time of the trace in memory; and no run beats the
// closed form of its own moves.
func TestTimedEqualsUntimed(t *testing.T) {
	names := []string{"mqsim_tpcc", "lirs_multi3"} // writes; reads alone
	if testing.Short() {
		names = names[:1]
	}
	for _, name := range names {
		for _, path := range []string{"bam", "spdk"} {
			t.Run(name+" "+path, func(t *testing.T) {
				t.Parallel()
				tr := loadTest(t, name)
				var jobs []Job
				for _, p := range everyPolicy(t) {
					jobs = append(jobs, Job{Policy: p, GPUFrames: max(4, tr.Info.Pages/20), HostFrames: tr.Info.Pages / 5, Seed: 42})
				}
				plain, err := Replay(t.Context(), tr, jobs, Options{})
				if err != nil {
					t.Fatal(err)
				}
				o := Options{Model: testModel(t, "v100-4x980pro"), Timed: &Timing{Path: path, InFlight: 64, Seed: 5}}
				timed, err := Replay(t.Context(), tr, jobs, o)
				if err != nil {
					t.Fatal(err)
				}
				for i := range timed {
					checkTimed(t, &plain[i], &timed[i], path)
				}
				checkTimedStream(t, name, jobs, timed, o)
			})
		}
	}
}

func checkTimed(t *testing.T, plain, timed *Result, path string) {
	t.Helper()
	if d := cmp.Diff(plain.Counters, timed.Counters); d != "" || !timed.Complete {
		t.Errorf("%s: time changes counters (-without +with):\n%s", plain.Policy, d)
	}
	v := timed.Timed
	// Ten standard errors of the drives' latencies are about 2 %.
	if v == nil || v.Seconds < 0.98*v.BoundSeconds || v.Path != path || v.InFlight != 64 || v.Seed != 5 || v.Label != "modelled" {
		t.Fatalf("%s: %+v", plain.Policy, v)
	}
	if (v.FlushSeconds > 0) != (plain.FinalDirty > 0) || v.FlushSeconds >= v.Seconds {
		t.Errorf("%s: a flush of %d pages takes %v of %v s", plain.Policy, plain.FinalDirty, v.FlushSeconds, v.Seconds)
	}
	n := uint64(0)
	for _, l := range v.Accesses {
		if l.Name != "prefetch" {
			n += l.Count
		}
	}
	if n != plain.Accesses {
		t.Errorf("%s: %d accesses were timed, want %d", plain.Policy, n, plain.Accesses)
	}
}

func checkTimedStream(t *testing.T, name string, jobs []Job, want []Result, o Options) {
	t.Helper()
	var online []Job
	var expect []Result
	for i, j := range jobs {
		if !j.Policy.NeedsFuture() {
			online, expect = append(online, j), append(expect, want[i])
		}
	}
	got, err := ReplayStream(t.Context(), openTest(t, name), online, o)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(expect, got, ignorePositions); d != "" {
		t.Errorf("streamed results differ (-memory +stream):\n%s", d)
	}
}

// A run that is cut short has the time of what it did, and no flush.
func TestTimedInterrupted(t *testing.T) {
	o := Options{Model: testModel(t, "h200-4xgen5"), Timed: &Timing{InFlight: 8}}
	for _, stream := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		o.Progress = func(done, _ uint64) {
			if done > streamBlocks*(streamBlock+1<<13) {
				cancel()
			}
		}
		jobs := []Job{{Policy: spec(t, "lru"), GPUFrames: 1000}}
		var results []Result
		var err error
		if stream {
			results, err = ReplayStream(ctx, openTest(t, "arc_OLTP"), jobs, o)
		} else {
			results, err = Replay(ctx, loadTest(t, "arc_OLTP"), jobs, o)
		}
		if !errors.Is(err, context.Canceled) || len(results) != 1 || results[0].Timed == nil {
			t.Fatalf("stream %v: %v, %+v", stream, err, results)
		}
		if v := results[0].Timed; v.Seconds <= 0 || v.FlushSeconds != 0 || results[0].Complete {
			t.Errorf("stream %v: %+v", stream, v)
		}
	}
}

func TestTimedRefuses(t *testing.T) {
	tr := traceOf([]tier.Access{tier.MakeAccess(0, tier.Read)})
	tr.Info.PageSize = 4096
	job := []Job{{Policy: spec(t, "lru"), GPUFrames: 1}}
	m := testModel(t, "h200-4xgen5")
	for _, o := range []Options{
		{Timed: &Timing{InFlight: 1}},
		{Model: m, Timed: &Timing{}},
		{Model: m, Timed: &Timing{InFlight: 1, Path: "bam"}},
	} {
		if _, err := Replay(t.Context(), tr, job, o); err == nil {
			t.Errorf("%+v was run", o.Timed)
		}
	}
}
