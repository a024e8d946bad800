package tune

import (
	"cmp"
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
	goals := []goal{{"SSD reads", Objective{SSDReads: 1}}}
	if testing.Short() {
		names = names[:1]
	}
	full := os.Getenv(gridEnv) != ""
	if full {
		names = []string{"mqsim_tpcc", "lirs_multi3", "mooncake_synthetic", "mooncake_conversation", "lirs_sprite", scanMix, "arc_OLTP", "bfs_gnutella31"}
		goals = append(goals, goal{"modelled time", Objective{Time: 1}})
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			p := problem(t, name)
			ev := NewLocal(p.ByHash(), 0)
			points := replayGrid(t, p, ev, gridSpecs(t, full))
			for _, g := range goals {
				p := problem(t, name)
				p.Objective = g.Objective
				checkGrid(t, p, ev, g.name, points)
			}
		})
	}
}

type goal struct {
	name string
	Objective
}

// checkGrid compares the tuner's choice with a grid, whose first point is the
// reference.
func checkGrid(t *testing.T, p *Problem, ev Evaluator, goal string, points []gridPoint) {
	begin := time.Now()
	r, _ := reportOf(t, p, ev)
	took := time.Since(begin)
	train := func(x gridPoint) float64 { return p.Objective.score(x.train, points[0].train) }
	held := func(x gridPoint) float64 { return p.Objective.score(x.held, points[0].held) }
	own := replayGrid(t, p, ev, []placement.Spec{parse(t, r.Winner().Policy)})[1]
	winner := slices.MinFunc(points, func(a, b gridPoint) int { return cmp.Compare(train(a), train(b)) })
	onHeld := held(slices.MinFunc(append(points, own), func(a, b gridPoint) int { return cmp.Compare(held(a), held(b)) }))
	t.Logf("%s, %s: %d in the grid; %d candidates in %.1f s; training: grid %.4f, tuner %.4f (%+.2f %%); held-out regret: grid's winner %.2f %%, tuner's choice %.2f %%",
		p.Traces[0].Trace.Info.Name, goal, len(points), r.Candidates, took.Seconds(), train(winner), train(own), 100*(train(own)/train(winner)-1),
		100*(held(winner)/onHeld-1), 100*(held(own)/onHeld-1))
	t.Logf("  grid's winner %s\n  tuner's choice %s", winner.policy, own.policy)
	if train(own) > train(winner)*(1+nearGrid) {
		t.Errorf("%s: %s scores %.4f in training, %.2f %% worse than %s with %.4f",
			goal, own.policy, train(own), 100*(train(own)/train(winner)-1), winner.policy, train(winner))
	}
}

// gridPoint is a policy of the grid with what it does on both parts.
type gridPoint struct {
	policy      string
	train, held Metrics
}

// replayGrid replays the reference and policies on the whole of p's first
// trace, with one seed.
func replayGrid(t *testing.T, p *Problem, ev Evaluator, specs []placement.Spec) []gridPoint {
	t.Helper()
	if err := p.fill(); err != nil {
		t.Fatal(err)
	}
	in := &p.Traces[0]
	gpu, host := p.Sizes[0].frames(0)
	var tasks []Task
	for _, s := range append([]placement.Spec{lru()}, specs...) {
		tasks = append(tasks, Task{Trace: in.hash, Cuts: []int{in.Train, len(in.Trace.Accesses)}, Rate: 1,
			GPUFrames: gpu, HostFrames: host, Policy: s.String(), Seed: p.Seed})
	}
	out := make([]gridPoint, len(tasks))
	err := ev.Evaluate(t.Context(), tasks, func(i int, o Outcome) {
		of := func(window int) Metrics { return metrics(p.Model, o.Windows[window], &o, in.Trace.Info.PageSize) }
		out[i] = gridPoint{tasks[i].Policy, of(0), of(1)}
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// gridSpecs are the policies of the grid: every placer with every pair of
// evictors, and, of the full grid, the evictors of each tier with steps of
// their parameters, and placers with some of theirs.
func gridSpecs(t *testing.T, full bool) []placement.Spec {
	var s Space
	if err := s.Fill(); err != nil {
		t.Fatal(err)
	}
	var out []placement.Spec
	add := func(placer, t1, t2, more string) {
		out = append(out, parse(t, fmt.Sprintf("%s{t1=%s,t2=%s%s}", placer, t1, t2, more)))
	}
	more := map[string][]string{}
	if full {
		more = map[string][]string{"gmt-reuse": {",starve=0.25", ",starve=1,window=1024"}, "random": {",p=0.25", ",p=0.75"}, "tier-order": {",t2copy=keep"}}
	}
	for _, placer := range s.Placers {
		for _, a := range s.T1 {
			if placer == "bypass" {
				add(placer, a, "fifo", "")
				continue
			}
			for _, b := range s.T2 {
				add(placer, a, b, "")
				for _, m := range more[placer] {
					add(placer, a, b, m)
				}
			}
		}
	}
	if !full {
		return out
	}
	for _, v := range gridEvictors(t) {
		add("bypass", v, "fifo", "")
		for _, e := range s.T2 {
			add("tier-order", v, e, "")
			add("tier-order", e, v, "")
			add("gmt-reuse", v, e, "")
			add("random", v, e, "")
		}
	}
	return out
}

// gridEvictors are the evictors that have shares for parameters, with every
// combination of three values of each but the defaults.
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
			if v.T1() != parse(t, i.Name).T1() && !slices.Contains(out, v.T1()) {
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
