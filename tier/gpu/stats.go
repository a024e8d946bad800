package gpu

import (
	"context"
	"errors"
	"time"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/layout"
)

// Stats is what kernels have counted so far.
type Stats struct {
	Counters tier.Counters // FinalDirty is not among them: see Dirty
	Device   layout.Counts // as kernels have them, bytes by edge among them
	// Moves are the pages that crossed each edge (t3-t2, t2-t3, t1-t2, t2-t1) by how long
	// each took: bucket i those of 2^(i-1) to 2^i ns, the last all longer.
	Moves [layout.Edges][layout.Buckets]uint64
	Mover MoverStats
	// Retries are accesses of batch calls that were made again. Counters have each try:
	// one that has failed among Errors.
	Retries uint64
	Refits  uint64                 // trusted fits in force
	Samples uint64                 // accesses that gmt-reuse was told of, and those that it was not in Device.DroppedSamples
	Reuse   *placement.ReuseReport // what gmt-reuse has learnt and decided; nil: another placer
	// First error of all kernels, nil if there was none.
	First error
}

// MoverStats says how pages moved between frames and slots.
type MoverStats struct {
	// Pages by direction (layout.ToDevice, ToHost) and way (layout.ByKernel to Unanswered).
	Pages [2][layout.Ways]uint64
	// CPU is the processor time of the goroutines that serve requests.
	CPU time.Duration
	// Last is what last went wrong with a copy on request; its warp has copied itself, or
	// got ErrMove.
	Last error
}

// Stats reads the counters, also while kernels run; then they need not add up.
func (e *Engine) Stats(ctx context.Context) (s Stats, err error) {
	if err := e.mu.enter(ctx); err != nil {
		return s, err
	}
	defer e.mu.leave()
	if e.closed {
		return s, ErrClosed
	}
	return e.stats(ctx)
}

func (e *Engine) stats(ctx context.Context) (s Stats, err error) {
	var stripes [layout.Stripes]layout.Stripe
	var moves [layout.MoveStripes]layout.Moves
	var hot layout.Hot
	var mover layout.Mover
	if err := errors.Join(e.get(ctx, e.dev.Mover, &mover), e.get(ctx, e.dev.Counts, &s.Device), e.get(ctx, e.dev.Moves, &moves), e.get(ctx, e.dev.Stripes, &stripes), e.get(ctx, e.dev.Hot, &hot)); err != nil {
		return s, err
	}
	for i := range moves {
		for edge := range layout.Edges {
			for b, n := range moves[i].Pages[edge] {
				s.Moves[edge][b] += n
			}
		}
	}
	d := &s.Device
	c := tier.Counters{T1Hits: d.LateHits, Delayed: d.Delayed, T2Hits: d.T2Hits, T3Fetches: d.T3Fetches, Overwrites: d.Overwrites, Errors: d.Errors,
		Evictions: d.Evictions, Keeps: d.Keeps, Demotions: d.Demotions, Bypasses: d.Bypasses, T2Evictions: d.T2Evictions, Writebacks: d.Writebacks,
		CopiesSaved: d.CopiesSaved, Prefetches: d.Prefetches, PrefetchReads: d.PrefetchReads}
	for _, x := range stripes {
		c.T1Hits += x.Hits
		c.Accesses += x.Hits + x.Slow
	}
	s.Mover.Pages = mover.Pages
	if e.attend != nil {
		s.Mover.CPU, s.Mover.Last = e.io.Served().CPU, e.attend.lastError()
	}
	s.Retries = e.retried
	s.Counters, s.Refits, s.Samples = c, hot.ParamsVersion, hot.SampleTail
	if e.reuse != nil {
		s.Reuse = e.reuse.report(d)
	}
	if hot.FirstError != 0 {
		s.First = &PageError{hot.FirstError & 0xffffffff, Status(hot.FirstError >> 32).Err()}
	}
	return s, nil
}

// framesNeeded is the size of T1 that would have done when all frames were pinned.
func (e *Engine) framesNeeded() int {
	var hot layout.Hot
	ctx, cancel := context.WithTimeout(context.Background(), e.o.Deadline)
	defer cancel()
	if e.get(ctx, e.dev.Hot, &hot) != nil {
		return 0
	}
	return int(hot.FramesNeeded)
}
