package tune

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tritier/tritier/placement"
)

// finals replays the finalists in full, ranks them and describes the winner.
func (s *search) finals(ctx context.Context, r *Report) error {
	at := len(s.ladder) - 1
	ranked := s.distinct(at)
	list := s.finalists(ranked)
	for _, d := range s.p.placerDefaults(ranked[0].Size) {
		if !slices.ContainsFunc(list, func(c Candidate) bool { return c.key() == d.key() }) {
			list = append(list, d)
		}
	}
	runs, err := s.replayFinalists(ctx, list)
	if err != nil {
		return err
	}
	if err := s.miniatures(ctx, list); err != nil {
		return err
	}
	var out []Ranked
	for i, c := range list {
		out = append(out, s.describe(c, runs[i]))
	}
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(out[a].Train.Score.compare(out[b].Train.Score, &s.p.Objective),
			cmp.Compare(list[a].complexity(), list[b].complexity()), cmp.Compare(list[a].key(), list[b].key()))
	})
	for _, i := range order {
		r.Ranking = append(r.Ranking, out[i])
	}
	regret := s.regret(r.Ranking)
	r.Regret = &regret
	s.meter.next()
	return s.examine(ctx, r, list[order[0]])
}

// alike is how many finalists may share the placer, T1's evictor and the size:
// a ranking of one policy with eight values of a parameter tells nobody much.
const alike = 2

func (s *search) finalists(ranked []Candidate) []Candidate {
	var out []Candidate
	count := map[string]int{}
	for _, c := range ranked {
		kind := fmt.Sprint(c.Policy.Placer(), " ", evictorName(c.Policy, placement.KeyT1), " ", c.Size)
		if count[kind]++; count[kind] <= alike && len(out) < s.p.Finalists {
			out = append(out, c)
		}
	}
	return out
}

// regret is by how much the first of a ranking is worse on the held-out part
// than the best one there that keeps the constraints as well.
func (s *search) regret(ranking []Ranked) float64 {
	best := ranking[0].HeldOut.Score
	for i := range ranking {
		if score := ranking[i].HeldOut.Score; score.over(&s.p.Objective) < best.over(&s.p.Objective) && ranking[i].Train.Score.Excess <= ranking[0].Train.Score.Excess {
			best = score
		}
	}
	if b := best.over(&s.p.Objective); b > 0 {
		return max(0, ranking[0].HeldOut.Score.over(&s.p.Objective)/b-1)
	}
	return 0
}

// whole is the task of a finalist's run over a whole trace.
func (s *search) whole(c Candidate, i int, run int) Task {
	in := &s.p.Traces[i]
	gpu, host := s.p.Sizes[c.Size].frames(i)
	return Task{Trace: in.hash, Cuts: []int{in.Train, len(in.Trace.Accesses)}, Rate: 1, GPUFrames: gpu, HostFrames: host,
		Policy: c.Policy.String(), Seed: s.p.Seed + uint64(run)}
}

// wholeReference is the reference's, which makes no random choices: one run
// serves all.
func (s *search) wholeReference(i int) Task { return s.whole(s.reference(), i, 0) }

// boundTask is Belady's bound at a candidate's size.
func (s *search) boundTask(c Candidate, i int) Task {
	t := s.whole(c, i, 0)
	// The bound depends on the sum of the frames alone: one task for all splits.
	t.GPUFrames, t.HostFrames = t.GPUFrames+t.HostFrames, 0
	t.Policy, t.Seed, t.Bound = "", 0, true
	return t
}

// replayFinalists runs every candidate twice, and as often as asked for when
// that shows that it makes random choices. It returns the number of runs of
// each.
func (s *search) replayFinalists(ctx context.Context, list []Candidate) ([]int, error) {
	var tasks []Task
	for i := range s.p.Traces {
		tasks = append(tasks, s.wholeReference(i))
		for _, c := range list {
			tasks = append(tasks, s.whole(c, i, 0), s.boundTask(c, i))
			if s.p.Seeds > 1 {
				tasks = append(tasks, s.whole(c, i, 1))
			}
		}
	}
	if err := s.do(ctx, tasks); err != nil {
		return nil, err
	}
	runs := make([]int, len(list))
	tasks = nil
	for k, c := range list {
		runs[k] = 1
		for i := range s.p.Traces {
			if s.p.Seeds > 1 && s.differs(s.whole(c, i, 0), s.whole(c, i, 1)) {
				runs[k] = s.p.Seeds
			}
		}
		for i := range s.p.Traces {
			for run := 2; run < runs[k]; run++ {
				tasks = append(tasks, s.whole(c, i, run))
			}
		}
	}
	return runs, s.do(ctx, tasks)
}

// differs says whether two tasks came out differently.
func (s *search) differs(a, b Task) bool {
	return !slices.Equal(s.known[a.Key()].Windows, s.known[b.Key()].Windows)
}

// miniatures evaluates the finalists, and the reference, on the largest
// miniatures with as many sampling seeds as there are runs.
func (s *search) miniatures(ctx context.Context, list []Candidate) error {
	if len(s.ladder) < 2 {
		return nil
	}
	for seed := range s.p.Seeds {
		var tasks []Task // of one seed: all miniatures at a time may be more than a trace
		for i := range s.p.Traces {
			for _, c := range append([]Candidate{s.reference()}, list...) {
				tasks = append(tasks, s.miniature(c, i, seed))
			}
		}
		if err := s.do(ctx, tasks); err != nil {
			return err
		}
	}
	return nil
}

// miniature is a candidate's training on the largest miniature with another
// sampling seed.
func (s *search) miniature(c Candidate, i, seed int) Task {
	t := s.training(c, i, len(s.ladder)-2)
	if t.Rate < 1 {
		t.SampleSeed = s.p.Seed + uint64(seed)
	}
	return t
}

// describe gathers what is known of a finalist.
func (s *search) describe(c Candidate, runs int) Ranked {
	r := Ranked{Policy: c.Policy.String(), Size: c.Size, Rung: len(s.ladder) - 1, Runs: runs, Default: s.isDefault(c)}
	r.Train, r.HeldOut = s.part(c, runs, 0), s.part(c, runs, 1)
	if len(s.ladder) < 2 {
		return r
	}
	r.Miniature = new(Range)
	for seed := range s.p.Seeds {
		score, _ := s.scoreOf(0, func(i int) Task { return s.miniature(c, i, seed) },
			func(i int) Task { return s.miniature(s.reference(), i, seed) })
		r.Miniature.add(score.over(&s.p.Objective), seed == 0)
	}
	return r
}

// part is the mean over runs of a window of the whole traces.
func (s *search) part(c Candidate, runs, window int) Part {
	p := Part{Traces: make([]TracePart, len(s.p.Traces))}
	for run := range runs {
		score, _ := s.scoreOf(window, func(i int) Task { return s.whole(c, i, run) }, s.wholeReference)
		p.Spread.add(score.over(&s.p.Objective), run == 0)
		n := float64(runs)
		p.Score.Mean += score.Mean / n
		p.Score.Worst += score.Worst / n
		p.Score.traffic += score.traffic / n
		p.Score.Excess = max(p.Score.Excess, score.Excess)
		for i := range p.Traces {
			t := s.whole(c, i, run)
			m, _ := s.metrics(&t, i, window)
			p.Traces[i].Metrics.mean(m, n)
		}
	}
	var bound sums
	for i := range p.Traces {
		t, ref, b := &p.Traces[i], s.wholeReference(i), s.boundTask(c, i)
		m, _ := s.metrics(&ref, i, window)
		t.Score, t.WritesPerDay = s.p.Objective.score(t.Metrics, m), s.p.writesPerDay(i, t.Metrics)
		o := s.known[b.Key()]
		least := o.Windows[window]
		t.BoundSSDReads = float64(least.SSDReads)
		least.Accesses = uint64(t.Accesses)
		bound.add(s.p, i, metrics(s.p.Model, least, &o, s.p.Traces[i].Trace.Info.PageSize), m)
	}
	p.Bound = bound.score().over(&s.p.Objective)
	return p
}

func (m *Metrics) mean(v Metrics, n float64) {
	m.Accesses += v.Accesses / n
	m.Seconds += v.Seconds / n
	m.SSDReads += v.SSDReads / n
	m.SSDWrites += v.SSDWrites / n
}
