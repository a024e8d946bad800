package mrc

import (
	"context"
	"io"
	"slices"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/tier"
)

// RunStream makes the curves of a trace of any length, which is read once. Those
// from stack distances need memory for the distinct pages. For the others the
// sampled accesses are kept, 4 B for each, and simulated when the trace has been
// read, so that their method should sample. When ctx ends, or the trace turns out
// to be faulty, it returns what is known, with Complete false, and the error.
func RunStream(ctx context.Context, s *sim.Stream, r Request) ([]Curve, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	j := &jobs{Request: &r, stacked: r.hasStack()}
	var m measurer
	var keep *keeper
	if j.stacked || !r.exact() {
		m = r.newMeasurer(0)
	}
	if slices.ContainsFunc(r.Cases, func(c Case) bool { return c.Bound || !IsStack(c.Policy) }) {
		keep = newKeeper(r.Method)
	}
	failure := readAll(ctx, s, m, keep, r.Progress)
	info := s.Info()
	if info.Accesses+info.Prefetches == 0 && failure != nil {
		return nil, failure
	}
	if err := r.sizes(info); err != nil {
		return nil, err
	}
	if m != nil {
		j.pass, j.info, j.passed = m.Profile(), info, failure == nil
	}
	if keep == nil {
		j.cases = make([]*caseRuns, len(r.Cases))
		return j.curves(), failure
	}
	t, rate := keep.trace(info)
	if err := j.plan(t, rate); err != nil {
		return nil, err
	}
	if failure == nil {
		failure = j.simulate(ctx)
	}
	return j.curves(), failure
}

// readAll hands the stream to those who want it, while it is read on.
func readAll(ctx context.Context, s *sim.Stream, m measurer, keep *keeper, progress func(done, total uint64)) error {
	blocks, free := make(chan *sim.Block, 1), make(chan *sim.Block, 2)
	free <- new(sim.Block)
	free <- new(sim.Block)
	failed := make(chan error, 1)
	go func() {
		defer close(blocks)
		for b := range free {
			err := ctx.Err()
			if err == nil {
				err = s.Next(b, passBlock)
			}
			if err != nil {
				failed <- err
				return
			}
			blocks <- b
		}
	}()
	done := uint64(0)
	for b := range blocks {
		if m != nil {
			m.Run(b.Accesses, b.Pages)
		}
		if keep != nil {
			keep.run(b.Accesses, b.Pages)
		}
		if done += uint64(len(b.Accesses)); progress != nil {
			progress(done, 0)
		}
		free <- b
	}
	if err := <-failed; err != io.EOF {
		return err
	}
	return nil
}

// keeper keeps the sampled accesses of a stream. At a limit of pages those with
// the largest sample points leave when there are too many.
type keeper struct {
	rate        float64 // as asked for
	seed, below uint64
	limit       int // 0: none
	pages       int
	heap        pointHeap // of the sampled pages, with a limit
	accs        []tier.Access
	filterAt    int // accesses at which those of pages that left are dropped
	least       int // of filterAt
}

// firstFilter is when a keeper looks for the first time.
const firstFilter = 1 << 20

func newKeeper(m Method) *keeper {
	k := &keeper{seed: m.Seed, below: sim.SampledBelow(1), limit: m.MaxPages, filterAt: firstFilter, least: firstFilter}
	if m.Rate > 0 && m.MaxPages == 0 {
		k.rate = m.Rate
		k.below = sim.SampledBelow(m.Rate)
	}
	return k
}

func (k *keeper) run(accs []tier.Access, pages int) {
	if k.limit > 0 {
		for ; k.pages < pages; k.pages++ {
			k.add(placement.Page(k.pages))
		}
	}
	if k.below == sim.SampledBelow(1) {
		k.accs = append(k.accs, accs...)
		return
	}
	for _, a := range accs {
		if sim.SamplePoint(k.seed, a.Page()) < k.below {
			k.accs = append(k.accs, a)
		}
	}
	if k.limit > 0 && len(k.accs) > k.filterAt {
		k.filter()
		k.filterAt = max(k.least, 2*len(k.accs))
	}
}

// add samples a new page, and lowers the rate if that makes too many.
func (k *keeper) add(p placement.Page) {
	point := sim.SamplePoint(k.seed, p)
	if point >= k.below {
		return
	}
	k.heap.push(sampledPage{point: point})
	if len(k.heap.list) <= k.limit {
		return
	}
	k.below = k.heap.list[0].point
	for len(k.heap.list) > 0 && k.heap.list[0].point >= k.below {
		k.heap.pop()
	}
}

// filter drops the accesses of pages that are not sampled any more.
func (k *keeper) filter() {
	k.accs = slices.DeleteFunc(k.accs, func(a tier.Access) bool { return sim.SamplePoint(k.seed, a.Page()) >= k.below })
}

// trace is what was kept, as a trace of all pages, and the rate at which it is to
// be sampled.
func (k *keeper) trace(info sim.TraceInfo) (*sim.Trace, float64) {
	t := &sim.Trace{Info: info, Accesses: k.accs}
	if k.rate > 0 {
		return t, k.rate
	}
	return t, rateBelow(k.below)
}

// rateBelow is the rate at which the sample points below one are sampled.
func rateBelow(below uint64) float64 { return float64(below) / float64(sim.SampledBelow(1)) }

// rateFor is the rate of a miniature of t: at a limit of pages the one that
// leaves so many, as a keeper would.
func (m Method) rateFor(t *sim.Trace) float64 {
	switch {
	case m.MaxPages >= t.Info.Pages:
		return 1
	case m.MaxPages > 0:
		k := newKeeper(m)
		for p := range t.Info.Pages {
			k.add(placement.Page(p))
		}
		return rateBelow(k.below)
	case m.Rate > 0:
		return m.Rate
	}
	return 1
}
