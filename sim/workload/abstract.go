package workload

import (
	"context"

	"github.com/tritier/tritier/sim/trace"
)

// sequence yields the page of each access in turn; first is true where a pass
// over the pages begins.
type sequence interface {
	next() (page uint64, first bool)
}

// The shapes whose accesses are page numbers drawn one by one.
var (
	zipfShape = &shape{
		name:     "zipf",
		doc:      "Independent accesses with Zipf popularity, page 0 the hottest unless scrambled.",
		params:   []Param{pagesParam, bytesParam("pages", "total size of the pages"), pageSizeParam, accessesParam, thetaParam, scrambleParam, writesParam, seedParam},
		derive:   pagesFromBytes,
		accesses: accessCount,
		open:     openSequence(zipfSequence),
	}
	uniformShape = &shape{
		name:     "uniform",
		doc:      "Independent accesses, every page equally likely: what no policy can do better at than another.",
		params:   []Param{pagesParam, bytesParam("pages", "total size of the pages"), pageSizeParam, accessesParam, writesParam, seedParam},
		derive:   pagesFromBytes,
		accesses: accessCount,
		open:     openSequence(func(v values) sequence { return uniform{newSource(v.uint("seed"), pageStream), v.uint("pages")} }),
	}
	scanShape = &shape{
		name:     "scan",
		doc:      "Every page once, in order: no reuse.",
		params:   []Param{pagesParam, bytesParam("pages", "total size of the pages"), pageSizeParam, writesParam, seedParam},
		derive:   pagesFromBytes,
		accesses: func(v values) uint64 { return v.uint("pages") },
		open:     openSequence(func(v values) sequence { return &cycle{pages: v.uint("pages")} }),
	}
	loopShape = &shape{
		name:     "loop",
		doc:      "The pages in order, over and over; each pass is a request.",
		params:   []Param{pagesParam, bytesParam("pages", "total size of the pages"), pageSizeParam, accessesParam, writesParam, seedParam},
		derive:   pagesFromBytes,
		accesses: accessCount,
		open:     openSequence(func(v values) sequence { return &cycle{pages: v.uint("pages")} }),
	}
)

func accessCount(v values) uint64 { return v.uint("accesses") }

// openSequence is the open function of a shape that draws from one sequence.
func openSequence(newSequence func(values) sequence) func(context.Context, values) (func(*stream), error) {
	return func(_ context.Context, v values) (func(*stream), error) {
		n := v.uint("accesses")
		if !v.has("accesses") {
			n = v.uint("pages")
		}
		return func(s *stream) {
			emit(s, 0, newSequence(v), newChance(v.uint("seed"), writeStream, v.ratio("writes")), n)
		}, nil
	}
}

// emit puts n accesses of a sequence.
func emit(s *stream, array uint32, pages sequence, writes chance, n uint64) {
	for range n {
		if s.closed {
			return
		}
		page, first := pages.next()
		if first {
			s.request()
		}
		op := trace.Read
		if writes.happens() {
			op = trace.Write
		}
		s.page(array, page, op)
	}
}

// zipfSequence is the sequence of the parameters pages, theta, scramble, seed.
func zipfSequence(v values) sequence {
	return newPopularity(v, v.yes("scramble"), v.uint("seed"))
}

// popularity maps Zipf ranks to pages.
type popularity struct {
	ranks    *zipf
	scramble bool
	order    permutation
}

// newPopularity draws ranks with the seed of v and scrambles them by order.
func newPopularity(v values, scramble bool, order uint64) *popularity {
	pages := v.uint("pages")
	ranks := newZipf(pages, v.ratio("theta"), newSource(v.uint("seed"), pageStream))
	return &popularity{ranks, scramble, newPermutation(pages, order)}
}

func (p *popularity) next() (uint64, bool) {
	page := p.ranks.rank() - 1
	if p.scramble {
		page = p.order.at(page)
	}
	return page, false
}

// uniform draws pages with equal probability.
type uniform struct {
	source
	pages uint64
}

func (u uniform) next() (uint64, bool) { return u.below(u.pages), false }

// cycle yields 0..pages-1 over and over.
type cycle struct{ pages, at uint64 }

func (c *cycle) next() (uint64, bool) {
	page := c.at
	if c.at++; c.at == c.pages {
		c.at = 0
	}
	return page, page == 0
}
