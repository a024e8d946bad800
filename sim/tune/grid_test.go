package tune

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
)

// gridEnv makes the grid exhaustive: evictors with the steps of their
// parameters too, eight traces, both goals. It takes half an hour on two cores.
const gridEnv = "TRITIER_TUNE_GRID"

// nearGrid is how much worse than the grid's winner the tuner's choice may be in
// training.
const nearGrid = 0.02

// The chosen policy is within 2 % of the winner of an exhaustive grid on the
// training part, on traces of different kinds.
func TestChoiceIsNearTheGridWinner(t *testing.T) {
	names := []string{"mqsim_tpcc", "lirs_multi3", smallMix}
	goals := map[string]Objective{"ssd-reads": {SSDReads: 1}}
	if testing.Short() {
		names = names[:1]
	}
	full := os.Getenv(gridEnv) != ""
	if full {
		names = []string{"mooncake_conversation", "mooncake_synthetic", "arc_OLTP", "bfs_gnutella31", "mqsim_tpcc", "lirs_multi3", "lirs_sprite", scanMix}
		goals["time"] = Objective{Time: 1}
	}
	for _, name := range names {
		for goal, o := range goals {
			t.Run(goal+" "+name, func(t *testing.T) {
				p := problem(t, name)
				p.Objective = o
				checkGrid(t, p, full)
			})
		}
	}
}

func checkGrid(t *testing.T, p *Problem, full bool) {
	begin := time.Now()
	ev := NewLocal(p.ByHash(), 0)
	r, _ := reportOf(t, p, ev)
	took := time.Since(begin)
	best := r.Winner()
	own := grid(t, p, ev, []placement.Spec{parse(t, best.Policy)})[0]
	all := grid(t, p, ev, gridSpecs(t, full))
	winner := slices.MinFunc(all, func(a, b gridPoint) int { return compareFloats(a.train, b.train) })
	onHeld := slices.MinFunc(append(all, own), func(a, b gridPoint) int { return compareFloats(a.held, b.held) })
	t.Logf("%s: %d in the grid; %d candidates in %.1f s; training: grid %.4f, tuner %.4f (%+.2f %%); held-out regret: grid's winner %.2f %%, tuner's choice %.2f %%",
		p.Traces[0].Trace.Info.Name, len(all), r.Candidates, took.Seconds(), winner.train, own.train, 100*(own.train/winner.train-1),
		100*(winner.held/onHeld.held-1), 100*(own.held/onHeld.held-1))
	t.Logf("  grid's winner %s", winner.policy)
	t.Logf("  tuner's choice %s", own.policy)
	if own.train > winner.train*(1+nearGrid) {
		t.Errorf("%s scores %.4f in training, %.2f %% worse than %s with %.4f",
			best.Policy, own.train, 100*(own.train/winner.train-1), winner.policy, winner.train)
	}
}

func compareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// gridPoint is a policy of the grid with its scores on both parts.
type gridPoint struct {
	policy      string
	train, held float64
}

// grid evaluates policies on the whole of p's first trace, with one seed.
func grid(t *testing.T, p *Problem, ev Evaluator, specs []placement.Spec) []gridPoint {
	t.Helper()
	in := &p.Traces[0]
	gpu, host := p.Sizes[0].frames(0)
	tasks := []Task{}
	for _, s := range append([]placement.Spec{lru()}, specs...) {
		tasks = append(tasks, Task{Trace: in.hash, Cuts: []int{in.Train, len(in.Trace.Accesses)}, Rate: 1,
			GPUFrames: gpu, HostFrames: host, Policy: s.String(), Seed: p.Seed})
	}
	found := make([]Outcome, len(tasks))
	if err := ev.Evaluate(t.Context(), tasks, func(i int, o Outcome) { found[i] = o }); err != nil {
		t.Fatal(err)
	}
	of := func(i, window int) Metrics {
		return metrics(p.Model, found[i].Windows[window], &found[i], in.Trace.Info.PageSize)
	}
	var out []gridPoint
	for i := 1; i < len(tasks); i++ {
		out = append(out, gridPoint{tasks[i].Policy, p.Objective.score(of(i, 0), of(0, 0)), p.Objective.score(of(i, 1), of(0, 1))})
	}
	return out
}

// gridSpecs are the policies of the grid: every placer with every pair of
// evictors, and, of the full grid, evictors of T1 and, under tier-order, of T2,
// with steps of their parameters, and placers with some of theirs.
func gridSpecs(t *testing.T, full bool) []placement.Spec {
	var s Space
	if err := s.Fill(); err != nil {
		t.Fatal(err)
	}
	t1 := s.T1
	if full {
		t1 = gridEvictors(t)
	}
	var out []placement.Spec
	add := func(format string, args ...any) { out = append(out, parse(t, fmt.Sprintf(format, args...))) }
	for _, a := range t1 {
		add("bypass{t1=%s}", a)
		for _, pl := range s.Placers {
			if pl == "bypass" {
				continue
			}
			t2 := s.T2
			if full && pl == "tier-order" {
				t2 = t1
			}
			for _, b := range t2 {
				add("%s{t1=%s,t2=%s}", pl, a, b)
				switch {
				case full && pl == "gmt-reuse":
					add("gmt-reuse{t1=%s,t2=%s,starve=0.25}", a, b)
					add("gmt-reuse{t1=%s,t2=%s,starve=1,window=1024}", a, b)
				case full && pl == "random":
					add("random{t1=%s,t2=%s,p=0.25}", a, b)
					add("random{t1=%s,t2=%s,p=0.75}", a, b)
				}
			}
		}
	}
	return out
}

// gridEvictors are all evictors with every pair of three values of their
// shares.
func gridEvictors(t *testing.T) []string {
	var out []string
	for _, i := range placement.Evictors() {
		if needsFuture(i.Name) {
			continue
		}
		variants := []placement.Spec{parse(t, "tier-order{t1="+i.Name+"}")}
		for _, set := range variants[0].Settings() {
			if set.Key[:min(3, len(set.Key))] != "t1." || set.Integer {
				continue
			}
			list := steps(set.Domain)
			at := slices.Index(list, set.Default)
			var more []placement.Spec
			for _, v := range variants {
				for _, value := range []string{list[max(0, at-2)], set.Default, list[min(len(list)-1, at+2)]} {
					if got, err := v.With(set.Key, value); err == nil {
						more = append(more, got)
					}
				}
			}
			variants = more
		}
		for _, v := range variants {
			if !slices.Contains(out, v.T1()) {
				out = append(out, v.T1())
			}
		}
	}
	return out
}

// Whatever the search finds is at least as good as what is tried in any case.
func TestWinnerBeatsEveryDefault(t *testing.T) {
	p := problem(t, "lirs_multi3", "mqsim_tpcc")
	r, _ := reportOf(t, p, NewLocal(p.ByHash(), 0))
	for i := range r.Ranking {
		if x := &r.Ranking[i]; x.Default && x.Train.Score.Mean < r.Winner().Train.Score.Mean*0.999 {
			t.Errorf("%s is better than the winner", x.Policy)
		}
	}
	if len(r.Ranking) < p.Finalists || r.Candidates < p.Candidates {
		t.Errorf("%d finalists of %d candidates", len(r.Ranking), r.Candidates)
	}
}

// BenchmarkTune is a whole search for the conversation trace.
func BenchmarkTune(b *testing.B) {
	for b.Loop() {
		p := problem(b, "mooncake_conversation")
		p.Objective = Objective{Time: 1}
		if _, err := Run(b.Context(), p, NewLocal(map[string]*sim.Trace{p.Hashes()[0]: p.Traces[0].Trace}, 0), nil); err != nil {
			b.Fatal(err)
		}
	}
}
