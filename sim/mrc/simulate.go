package mrc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
)

// caseRuns are the simulations of one curve.
type caseRuns struct {
	Case
	scaled  placement.Spec
	pairs   []Pair // of the curve; those that the policy is too large for are left out
	tooFew  []Pair // these
	fewest  error  // why
	mini    []Pair // of each pair in the miniature
	results map[Pair]*outcome
}

// outcome is what one simulation counted; several points of a curve share it
// when they are the same size in the miniature.
type outcome struct {
	tally Tally
	done  bool
}

// plan prepares the simulations of the cases that do not come from the pass,
// with a miniature of t at a rate.
func (j *jobs) plan(t *sim.Trace, rate float64) error {
	j.cases = make([]*caseRuns, len(j.Cases))
	for i, c := range j.Cases {
		if j.stacked && !c.Bound && IsStack(c.Policy) {
			continue
		}
		if j.sample == nil {
			j.sample = t.Sample(rate, j.Seed)
		}
		r, err := newCaseRuns(c, j.Pairs, j.sample, j.controlled())
		if err == nil && len(r.pairs) == 0 && !c.Optional {
			err = r.why(j.sample)
		}
		if err != nil {
			return err
		}
		j.cases[i] = r
		j.total += uint64(len(r.results)) * uint64(len(j.sample.Trace.Accesses))
	}
	return nil
}

// newCaseRuns finds the sizes to simulate.
func newCaseRuns(c Case, pairs []Pair, s *sim.Sample, controlled bool) (*caseRuns, error) {
	r := &caseRuns{Case: c, results: map[Pair]*outcome{}}
	if !c.Bound {
		r.scaled = c.Policy.Scaled(s.Share)
	}
	for _, p := range pairs {
		mini := Pair{GPU: s.Frames(p.GPU), Host: s.Frames(p.Host)}
		if c.Bound {
			mini = Pair{GPU: mini.Frames()}
			if !controlled { // rounded up, so that it bounds LRU's curve too
				mini.GPU = max(mini.GPU, int(math.Ceil(float64(p.Frames())*s.Share-1e-9)))
			}
		} else if err := r.try(mini); err != nil {
			var small *placement.SizeError
			if !errors.As(err, &small) {
				return nil, err
			}
			r.tooFew, r.fewest = append(r.tooFew, p), err
			continue
		}
		r.pairs, r.mini = append(r.pairs, p), append(r.mini, mini)
		r.results[mini] = &outcome{}
	}
	return r, nil
}

// why says which sizes are too small for the policy, and what helps.
func (r *caseRuns) why(s *sim.Sample) error {
	last := r.tooFew[len(r.tooFew)-1]
	err := fmt.Errorf("sizes too small: %d of %d, up to %d GPU and %d host frames: %w", len(r.tooFew), len(r.tooFew)+len(r.pairs),
		last.GPU, last.Host, r.fewest)
	if s.Share < 1 {
		return fmt.Errorf("%w in a miniature of %.3g of the pages; sample more pages or take larger sizes", err, s.Share)
	}
	return err
}

// enoughFor is a size of a tier that every policy can do with.
const enoughFor = 1024

// try says why a policy cannot have a size.
func (r *caseRuns) try(p Pair) error {
	env := placement.Env{T1Frames: min(p.GPU, enoughFor), T2Frames: min(p.Host, enoughFor)}
	_, err := r.scaled.Build(env)
	var future *placement.FutureError
	if errors.As(err, &future) {
		return nil // the simulator knows it
	}
	return err
}

// simulate runs all simulations: policies first, then bounds.
func (j *jobs) simulate(ctx context.Context) error {
	if j.sample == nil {
		return nil
	}
	if err := j.policies(ctx); err != nil {
		return err
	}
	return j.bounds(ctx)
}

// policies runs the simulations of policies.
func (j *jobs) policies(ctx context.Context) error {
	var list []sim.Job
	var outcomes []*outcome
	for _, c := range j.cases {
		if c == nil || c.Bound {
			continue
		}
		for _, p := range c.mini {
			if o := c.results[p]; !slices.Contains(outcomes, o) {
				list = append(list, sim.Job{Policy: c.scaled, GPUFrames: p.GPU, HostFrames: p.Host, Seed: j.PolicySeed})
				outcomes = append(outcomes, o)
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	results, err := sim.Replay(ctx, j.sample.Trace, list, sim.Options{Workers: j.Workers, Progress: func(done, _ uint64) {
		j.replay.Store(done)
		j.tick(0)
	}})
	for i, r := range results {
		if r.Complete {
			outcomes[i].set(j.sample, &r)
		}
	}
	return err
}

// set estimates the whole's counts from a simulation's.
func (o *outcome) set(s *sim.Sample, r *sim.Result) {
	o.tally = Tally{T1Hits: float64(s.Whole.Accesses) - s.Count(r.Accesses-r.T1Hits), Fetches: s.Count(r.T3Fetches),
		Overwrites: s.Count(r.Overwrites), PrefetchReads: s.Count(r.PrefetchReads)}
	o.done = true
}

// bounds computes Belady's MIN at the sizes of the bounds.
func (j *jobs) bounds(ctx context.Context) error {
	workers := j.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	g := new(errgroup.Group)
	g.SetLimit(workers)
	for _, c := range j.cases {
		if c == nil || !c.Bound {
			continue
		}
		for mini, o := range c.results {
			g.Go(func() error { return j.bound(ctx, mini.GPU, o) })
		}
	}
	return g.Wait()
}

// bound computes MIN at one size of the miniature.
func (j *jobs) bound(ctx context.Context, frames int, o *outcome) error {
	accs, pages := j.sample.Trace.Accesses, j.sample.Trace.Info.Pages
	b := sim.NewBound(frames, pages)
	for len(accs) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(passBlock, len(accs))
		b.Run(accs[:n], pages)
		j.tick(n)
		accs = accs[n:]
	}
	o.tally, o.done = Tally{Fetches: j.sample.Count(b.Reads())}, true
	return nil
}

// coarse is the number of frames below which a tier of a miniature is too small
// to stand for the whole one.
const coarse = 10

// curve is what the simulations gave.
func (r *caseRuns) curve(j *jobs, control *control) Curve {
	c := Curve{Trace: j.sample.Whole, Policy: "belady", Bound: r.Bound, Kind: Simulated, Complete: true, Method: j.Method, PolicySeed: j.PolicySeed, Points: []Point{}}
	if !r.Bound {
		c.Policy = r.Policy.String()
	}
	if j.sample.Share < 1 {
		c.Kind = Miniature
	}
	c.Rate, c.Correction = j.sample.Rate, j.correction(control)
	c.sampled(j.sample.Trace.Info.Pages)
	if len(r.tooFew) > 0 {
		c.warn("%v", r.why(j.sample))
	}
	small := 0
	for i, p := range r.pairs {
		if r.mini[i].GPU < coarse || r.mini[i].Host > 0 && r.mini[i].Host < coarse {
			small++
		}
		o := r.results[r.mini[i]]
		switch {
		case !o.done:
			c.Complete = false
		case r.Bound:
			reads := control.bound(o.tally.Fetches, p, r.mini[i])
			c.Points = append(c.Points, boundPoint(p, min(reads, float64(c.Trace.Accesses+c.Trace.Prefetches)), c.Trace))
		default:
			c.Points = append(c.Points, newPoint(p, control.policy(o.tally, p, r.mini[i]).within(c.Trace), c.Trace))
		}
	}
	if r.Bound {
		fall(c.Points)
	}
	if small > 0 && c.Kind == Miniature {
		c.warn("coarse sizes: %d of %d, where a tier of the miniature has fewer than %d frames", small, len(r.pairs), coarse)
	}
	return c
}

// fall makes reads of a bound fall with the size, as MIN's do: what a sample adds
// to that is chance.
func fall(points []Point) {
	order := make([]*Point, len(points))
	for i := range points {
		order[i] = &points[i]
	}
	slices.SortStableFunc(order, func(a, b *Point) int { return a.Frames() - b.Frames() })
	for i := 1; i < len(order); i++ {
		if last := order[i-1]; order[i].SSDReads > last.SSDReads {
			order[i].SSDReads, order[i].MissRatio = last.SSDReads, last.MissRatio
		}
	}
}
