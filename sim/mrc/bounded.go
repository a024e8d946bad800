package mrc

import (
	"context"
	"io"
	"math"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/sim/trace"
)

// BoundedLRU estimates the stack distances of a trace whose pages are too many to
// be numbered: its memory depends on a limit of sampled pages alone, about 100 B
// for each. This is SHARDS at a fixed size: all pages are sampled until there are
// too many; then those with the largest hash leave, and the rate becomes the first
// hash that is not sampled any more. It has one owner.
//
// Whenever the rate falls, the authors multiply the counts so far by the new rate
// over the old one. Here an access adds 1 over the rate at its time, which comes to
// the same up to a factor that all counts share, and costs nothing. Hot pages
// cannot be counted apart without remembering all pages, so that the correction is
// CorrectAdj, or CorrectNone where that is asked for.
type BoundedLRU struct {
	method Method
	below  uint64 // sample points below it are sampled
	weight float64
	stack  *stack
	entry  map[pageKey]uint32 // of each sampled page
	keys   []pageKey          // of each entry
	free   []uint32           // entries to use again
	heap   pointHeap

	again, first [kinds]tally
	all          [kinds]uint64
	sampled      uint64
	phase        float64
}

// pageKey is a page before it is numbered.
type pageKey struct {
	page  uint64
	array uint32
}

// NewBoundedLRU samples at most m.MaxPages pages, at least one.
func NewBoundedLRU(m Method) *BoundedLRU {
	m.MaxPages = max(m.MaxPages, 1)
	if m.Correction != CorrectNone {
		m.Correction = CorrectAdj
	}
	return &BoundedLRU{method: m, below: sim.SampledBelow(1), weight: 1, stack: newStack(0), entry: map[pageKey]uint32{}}
}

// Run takes the next accesses of the trace.
func (b *BoundedLRU) Run(accs []trace.Access) {
	for i := range accs {
		a := &accs[i]
		kind := uint8(fetches)
		switch {
		case a.Op == trace.Prefetch:
			kind = prefetches
		case a.Op == trace.Write && a.Whole:
			kind = overwrites
		}
		b.all[kind]++
		point := placement.Hash(b.method.Seed, a.Page, placement.Page(a.Array)) >> 16
		if point < b.below {
			b.take(pageKey{a.Page, a.Array}, point, kind)
		}
	}
}

// take counts an access to a sampled page.
func (b *BoundedLRU) take(key pageKey, point uint64, kind uint8) {
	b.sampled++
	if b.stack.room() == 0 {
		b.stack.compact(nil)
	}
	if e, known := b.entry[key]; known {
		depth := b.stack.use(e)
		b.again[kind].add(spread(depth, b.weight, &b.phase), b.weight)
		return
	}
	b.first[kind].sum += b.weight
	e := uint32(len(b.keys))
	if n := len(b.free); n > 0 {
		e, b.free = b.free[n-1], b.free[:n-1]
	} else {
		b.keys = append(b.keys, key)
	}
	b.keys[e], b.entry[key] = key, e
	b.stack.grow(len(b.keys))
	b.stack.use(e)
	b.heap.push(sampledPage{point: point, entry: e})
	if len(b.entry) > b.method.MaxPages {
		b.shrink()
	}
}

// shrink takes out the pages with the largest point, which is the rate from now
// on.
func (b *BoundedLRU) shrink() {
	b.below = b.heap.list[0].point
	for len(b.heap.list) > 0 && b.heap.list[0].point >= b.below {
		e := b.heap.pop().entry
		b.stack.remove(e)
		delete(b.entry, b.keys[e])
		b.free = append(b.free, e)
	}
	b.weight = 1 / max(rateBelow(b.below), 1e-15)
}

// Profile is what was measured so far. It does not change when b goes on. Its
// number of distinct pages is an estimate.
func (b *BoundedLRU) Profile() *Profile {
	p := &Profile{Method: b.method, SampledPages: len(b.entry), SampledAccesses: b.sampled, share: 1 / b.weight, bucket: true}
	p.Method.Rate = 1 / b.weight
	p.PagesEstimated = b.weight > 1
	pages := 0.0
	for kind := range p.kinds {
		k := &p.kinds[kind]
		k.all, k.first, k.again.upTo = float64(b.all[kind]), b.first[kind].sum, b.again[kind].upTo()
		pages += k.first
	}
	p.Pages = int(math.Round(pages))
	p.sum()
	p.correct()
	return p
}

// MeasureBounded reads a trace to its end and measures it with a BoundedLRU. The
// caller closes r. When ctx ends, or the trace turns out to be faulty, it returns
// what was measured and the error. progress, if not nil, is told of accesses.
func MeasureBounded(ctx context.Context, r trace.Reader, pageSize uint64, m Method, progress func(done uint64)) (*Profile, error) {
	b, split := NewBoundedLRU(m), trace.NewSplitter(r, pageSize)
	buf := make([]trace.Access, 4096)
	done := uint64(0)
	for {
		if err := ctx.Err(); err != nil {
			return b.Profile(), err
		}
		n, err := split.Next(buf)
		if err == io.EOF {
			return b.Profile(), nil
		}
		if err != nil {
			return b.Profile(), err
		}
		b.Run(buf[:n])
		if done += uint64(n); progress != nil {
			progress(done)
		}
	}
}
