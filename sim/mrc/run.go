package mrc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
)

// Case is one curve to make: of a policy, or Belady's bound.
type Case struct {
	Policy placement.Spec // unused for a bound
	Bound  bool
	// Optional says that a policy that every size is too small for gives a curve
	// without points and a warning, where it would be an error.
	Optional bool
}

// Request says which curves to make, of which sizes, and how.
type Request struct {
	Cases []Case
	Pairs []Pair // the points of every curve
	// PairsOf gives them for a trace whose distinct pages are known, where Pairs
	// is nil.
	PairsOf func(info sim.TraceInfo) ([]Pair, error)
	Method
	PolicySeed uint64 // of the policies' own random choices
	Workers    int    // goroutines; 0: one for each core
	// Progress, if not nil, is called from several goroutines with accesses
	// done and in total, over all curves; total is 0 while it is unknown.
	Progress func(done, total uint64)
}

// check returns an error for a request that makes no sense.
func (r *Request) check() error {
	if len(r.Cases) == 0 {
		return errors.New("mrc: no curves are asked for")
	}
	if len(r.Pairs) == 0 && r.PairsOf == nil {
		return errNoSizes
	}
	return errors.Join(checkPairs(r.Pairs), r.Method.Check())
}

var errNoSizes = errors.New("mrc: no sizes are asked for")

func checkPairs(pairs []Pair) error {
	for _, p := range pairs {
		if p.GPU < 1 || p.Host < 0 || p.GPU > placement.MaxPages || p.Host > placement.MaxPages {
			return fmt.Errorf("mrc: %d GPU and %d host frames: GPU memory has at least one frame, host memory none or more, and each at most %d",
				p.GPU, p.Host, placement.MaxPages)
		}
	}
	return nil
}

// sizes makes sure that r has its pairs.
func (r *Request) sizes(info sim.TraceInfo) (err error) {
	if len(r.Pairs) > 0 {
		return nil
	}
	if r.Pairs, err = r.PairsOf(info); err != nil {
		return err
	}
	if len(r.Pairs) == 0 {
		return errNoSizes
	}
	return checkPairs(r.Pairs)
}

// stackPolicy is the one policy that is a stack over both tiers.
const stackPolicy = "tier-order{t1=lru,t2=lru}"

// IsStack says whether a policy's curve comes from stack distances: LRU in both
// tiers, all of T1's victims to T2, and no copies left behind.
func IsStack(p placement.Spec) bool {
	s, err := placement.Parse(stackPolicy)
	return err == nil && p.String() == s.String()
}

// Run makes the curves of a trace in memory, in the order of the cases. LRU's
// come from one pass; every point of the others is a simulation, as many at a
// time as there are workers. When ctx ends it returns what is known, with
// Complete false where points are missing or only a part of the trace was
// measured, and ctx's error.
func Run(ctx context.Context, t *sim.Trace, r Request) ([]Curve, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if err := r.sizes(t.Info); err != nil {
		return nil, err
	}
	j := &jobs{Request: &r}
	// Only simulations are exact about prefetches: see the package's text.
	j.stacked = t.Info.Prefetches == 0 && r.hasStack()
	if err := j.plan(t, r.rateFor(t)); err != nil {
		return nil, err
	}
	g := new(errgroup.Group)
	if j.stacked || j.controlled() {
		j.total += uint64(len(t.Accesses))
		g.Go(func() error { return j.onePass(ctx, t) })
	}
	g.Go(func() error { return j.simulate(ctx) })
	err := g.Wait()
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	return j.curves(), err
}

// hasStack says whether a case comes from stack distances.
func (r *Request) hasStack() bool {
	return slices.ContainsFunc(r.Cases, func(c Case) bool { return !c.Bound && IsStack(c.Policy) })
}

// jobs are the parts of one request.
type jobs struct {
	*Request
	stacked bool     // LRU's curves come from one pass over the trace
	pass    *Profile // what that gave
	passed  bool     // to its end
	info    sim.TraceInfo
	sample  *sim.Sample
	cases   []*caseRuns // parallel to Cases; nil for those from the pass
	total   uint64      // accesses of the pass and all simulations
	done    atomic.Uint64
	replay  atomic.Uint64 // what package sim has done of it
}

// tick notes progress.
func (j *jobs) tick(n int) {
	j.done.Add(uint64(n))
	if j.Progress != nil {
		j.Progress(j.done.Load()+j.replay.Load(), j.total)
	}
}

// passBlock is how many accesses run between looks at the context.
const passBlock = 1 << 16

// onePass measures stack distances, of as much of the trace as ctx allows.
func (j *jobs) onePass(ctx context.Context, t *sim.Trace) error {
	m := j.newMeasurer(t.Info.Pages)
	accs := t.Accesses
	for len(accs) > 0 && ctx.Err() == nil {
		n := min(passBlock, len(accs))
		m.Run(accs[:n], t.Info.Pages)
		j.tick(n)
		accs = accs[n:]
	}
	j.pass, j.info, j.passed = m.Profile(), t.Info, len(accs) == 0
	if j.passed {
		return nil
	}
	return ctx.Err()
}

// curves are the results in the order of the cases.
func (j *jobs) curves() []Curve {
	out := make([]Curve, len(j.Cases))
	control := j.control()
	for i, c := range j.Cases {
		switch {
		case j.cases[i] != nil:
			out[i] = j.cases[i].curve(j, control)
		case j.pass != nil:
			out[i] = j.pass.Curve(j.info, c.Policy.String(), j.Pairs)
			out[i].Complete, out[i].PolicySeed = j.passed, j.PolicySeed
		}
	}
	for i := range out {
		if out[i].Kind == Miniature && out[i].Bound {
			out[i].keepBelow(out)
		}
	}
	return out
}

// keepBelow lowers a bound to the curves that it bounds. Stack distances scale
// what they count of a sample in their own way, which without hot pages counted
// apart may come to less than the sample's bound does.
func (c *Curve) keepBelow(curves []Curve) {
	for _, other := range curves {
		if other.Bound || !other.Complete {
			continue
		}
		for i := range c.Points {
			p := &c.Points[i]
			if pt, ok := other.At(p.Pair); ok && pt.SSDReads < p.SSDReads {
				p.SSDReads, p.MissRatio = pt.SSDReads, pt.MissRatio
			}
		}
	}
	fall(c.Points)
}
