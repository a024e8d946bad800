package tune

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tritier/tritier/placement"
)

// search is one Run in progress.
type search struct {
	p        *Problem
	ev       Evaluator
	known    map[string]Outcome
	ladder   []rung
	meter    meter
	tried    []Candidate    // every candidate, in the order of its appearance
	reached  map[string]int // candidate -> the last rung that it was evaluated on
	expanded map[string]bool
	evals    int // policies evaluated, each trace counted
}

// The effort of single changes: how many of the best are improved at a time,
// and how often.
const (
	beam           = 2
	refineRounds   = 8
	keepAtLeast    = 16 // candidates that go on to the next rung
	keepShare      = 3  // one in so many goes on
	usualNeighbour = 60 // about how many a candidate has
)

// Run tunes. progress, if not nil, is told how much of the work is done, in
// accesses to replay, as far as that can be known, and what is going on. When
// ctx ends Run returns what is known so far and ctx's error; other errors come
// without a report.
func Run(ctx context.Context, p *Problem, ev Evaluator, progress func(stage string, done, total float64)) (*Report, error) {
	if err := p.fill(); err != nil {
		return nil, err
	}
	s := &search{p: p, ev: ev, known: map[string]Outcome{}, ladder: p.ladder(), reached: map[string]int{}, expanded: map[string]bool{}}
	s.meter = meter{tell: progress, rest: s.plan()}
	r := newReport(p, s.ladder)
	err := s.run(ctx, r)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	r.Interrupted = err != nil
	r.Candidates, r.Evaluations = len(s.tried), s.evals
	if err != nil && len(r.Ranking) == 0 {
		s.rankSoFar(r)
	}
	return r, err
}

func (s *search) run(ctx context.Context, r *Report) error {
	list := s.p.candidates(ctx, s.p.Candidates)
	if len(list) == 0 {
		return errNoCandidates
	}
	last := len(s.ladder) - 1
	for i := range s.ladder {
		if err := s.evaluate(ctx, list, i); err != nil {
			return err
		}
		ranked := s.distinct(i)
		r.Rungs[i].Candidates = len(list)
		if i >= last-1 {
			if err := s.refine(ctx, i); err != nil {
				return err
			}
			r.Rungs[i].Candidates = len(s.ranked(i))
			ranked = s.distinct(i)
		}
		s.meter.next()
		list = s.keep(ranked)
	}
	return s.finals(ctx, r)
}

// keep chooses who goes on to the next rung: the best third, 16 at least, and
// the best of each placer, since miniatures are worst at comparing placers.
func (s *search) keep(ranked []Candidate) []Candidate {
	n := min(len(ranked), max(keepAtLeast, (len(ranked)+keepShare-1)/keepShare))
	out := slices.Clone(ranked[:n])
	seen := map[string]bool{}
	for i, c := range ranked {
		if !seen[c.Policy.Placer()] && i >= n {
			out = append(out, c)
		}
		seen[c.Policy.Placer()] = true
	}
	return out
}

// refine evaluates the neighbours of the best candidates of a rung until these
// have no better ones, or as many were evaluated as candidates were drawn.
func (s *search) refine(ctx context.Context, at int) error {
	budget := s.p.Candidates
	for range refineRounds {
		var more []Candidate
		ranked := s.distinct(at)
		for _, c := range ranked[:min(beam, len(ranked))] {
			if s.expanded[expandedKey(at, c)] {
				continue
			}
			s.expanded[expandedKey(at, c)] = true
			for _, n := range s.p.neighbours(c) {
				if _, ok := s.score(n.Candidate, at); !ok {
					more = append(more, n.Candidate)
				}
			}
		}
		more = more[:min(budget, len(more))]
		budget -= len(more)
		if len(more) == 0 {
			return nil
		}
		if err := s.evaluate(ctx, more, at); err != nil {
			return err
		}
	}
	return nil
}

func expandedKey(rungAt int, c Candidate) string { return string(rune('0'+rungAt)) + c.key() }

// evaluate evaluates candidates, and the reference, on every trace's training
// part at a rung.
func (s *search) evaluate(ctx context.Context, list []Candidate, at int) error {
	var tasks []Task
	for i := range s.p.Traces {
		tasks = append(tasks, s.training(s.reference(), i, at))
		for _, c := range list {
			tasks = append(tasks, s.training(c, i, at))
		}
	}
	err := s.do(ctx, tasks)
	for _, c := range list {
		if _, ok := s.score(c, at); ok {
			s.note(c, at)
		}
	}
	return err
}

func (s *search) note(c Candidate, at int) {
	was, seen := s.reached[c.key()]
	if !seen {
		s.tried = append(s.tried, c)
	}
	s.reached[c.key()] = max(was, at)
}

// do evaluates the tasks that are not known yet.
func (s *search) do(ctx context.Context, tasks []Task) error {
	var unknown []Task
	asked := map[string]bool{}
	for _, t := range tasks {
		key := t.Key()
		if _, ok := s.known[key]; !ok && !asked[key] {
			asked[key] = true
			unknown = append(unknown, t)
		}
	}
	if len(unknown) == 0 {
		return ctx.Err()
	}
	var wrong error
	err := s.ev.Evaluate(ctx, unknown, func(i int, o Outcome) {
		if err := o.check(&unknown[i]); err != nil {
			wrong = err
			return
		}
		s.known[unknown[i].Key()] = o
		s.evals++
		s.meter.add(unknown[i].cost())
	})
	return cmp.Or(wrong, err)
}

// reference is what scores are relative to: LRU in both tiers at the first size.
func (s *search) reference() Candidate { return Candidate{lru(), 0} }

func lru() placement.Spec { return compose("tier-order", "lru", "lru") }

// training is the task of a candidate's training on a trace at a rung.
func (s *search) training(c Candidate, i, at int) Task {
	in := &s.p.Traces[i]
	gpu, host := s.p.Sizes[c.Size].frames(i)
	t := Task{Trace: in.hash, Cuts: []int{in.Train}, Rate: s.ladder[at][i], GPUFrames: gpu, HostFrames: host,
		Policy: c.Policy.String(), Seed: s.p.Seed}
	if t.Rate < 1 {
		t.SampleSeed = s.p.Seed
	}
	return t
}

// metrics are those of a task's window; ok says whether it was evaluated.
func (s *search) metrics(t *Task, i, window int) (m Metrics, ok bool) {
	o, ok := s.known[t.Key()]
	if !ok || window >= len(o.Windows) {
		return m, false
	}
	return metrics(s.p.Model, o.Windows[window], &o, s.p.Traces[i].Trace.Info.PageSize), true
}

// score is a candidate's score in training at a rung.
func (s *search) score(c Candidate, at int) (Score, bool) {
	return s.scoreOf(0, func(i int) Task { return s.training(c, i, at) }, func(i int) Task { return s.training(s.reference(), i, at) })
}

// scoreOf is the score of a window of tasks, one for each trace, over that of
// the reference's.
func (s *search) scoreOf(window int, task, ref func(i int) Task) (Score, bool) {
	var sum sums
	for i := range s.p.Traces {
		t, u := task(i), ref(i)
		m, ok := s.metrics(&t, i, window)
		r, known := s.metrics(&u, i, window)
		if !ok || !known {
			return Score{}, false
		}
		sum.add(s.p, i, m, r)
	}
	return sum.score(), true
}

// sums gathers a score over traces.
type sums struct {
	n                           int
	sum, worst, excess, traffic float64
}

func (u *sums) add(p *Problem, i int, m, ref Metrics) {
	v := p.Objective.score(m, ref)
	u.n++
	u.sum += v
	u.worst = max(u.worst, v)
	u.traffic += ratio(m.SSDReads, ref.SSDReads) + ratio(m.SSDWrites, ref.SSDWrites)
	if limit := p.MaxWriteBytesPerDay; limit > 0 {
		u.excess = max(u.excess, p.writesPerDay(i, m)/limit-1)
	}
}

func (u *sums) score() Score {
	n := float64(max(u.n, 1))
	return Score{Mean: u.sum / n, Worst: u.worst, Excess: u.excess, traffic: u.traffic / n}
}

// ranked lists the candidates that were evaluated at a rung, the best first; of
// equal ones the simplest.
func (s *search) ranked(at int) []Candidate {
	type entry struct {
		Candidate
		score Score
		extra int // complexity
		key   string
	}
	var list []entry
	for _, c := range s.tried {
		if score, ok := s.score(c, at); ok {
			list = append(list, entry{c, score, c.complexity(), c.key()})
		}
	}
	slices.SortFunc(list, func(a, b entry) int {
		return cmp.Or(a.score.compare(b.score, &s.p.Objective), cmp.Compare(a.extra, b.extra), cmp.Compare(a.key, b.key))
	})
	out := make([]Candidate, len(list))
	for i, e := range list {
		out[i] = e.Candidate
	}
	return out
}

// distinct is ranked without those that did the very same as a better one:
// mostly a parameter that does not matter.
func (s *search) distinct(at int) []Candidate {
	seen := map[string]bool{}
	return slices.DeleteFunc(s.ranked(at), func(c Candidate) bool {
		did := fmt.Sprint(c.Size)
		for i := range s.p.Traces {
			t := s.training(c, i, at)
			did += fmt.Sprint(s.known[t.Key()].Windows)
		}
		was := seen[did]
		seen[did] = true
		return was
	})
}
