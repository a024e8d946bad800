package mrc

import (
	"math/bits"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
)

// pageSet is the sampled ones among pages that are numbered densely: bits for
// each page, so that the set stays in a core's cache, and a count for each 64
// pages, so that a sampled page's number among those ever sampled is found at
// once.
type pageSet struct {
	seed, below uint64
	limit       int        // at most so many are sampled at a time; 0: no limit
	words       []pageBits // 64 pages each
	before      []uint32   // pages ever sampled in the words before
	pages       int        // pages decided on
	ever        int        // pages ever sampled
	live        int        // pages sampled now
	heap        pointHeap  // these, with a limit
	gone        []sampledPage
}

// pageBits are the properties of 64 pages.
type pageBits struct{ sampled, hot, ever uint64 }

// grow decides on the pages below pages. It returns those that are not sampled
// any more; they are valid until the next call.
func (s *pageSet) grow(pages int) []sampledPage {
	s.gone = s.gone[:0]
	words := (pages + 63) / 64
	s.words, s.before = extend(s.words, words), extend(s.before, words)
	for p := s.pages; p < pages; p++ {
		if p%64 == 0 {
			s.before[p/64] = uint32(s.ever)
		}
		point := sim.SamplePoint(s.seed, placement.Page(p))
		if point >= s.below {
			continue
		}
		w := &s.words[p/64]
		w.sampled |= 1 << (p % 64)
		w.ever |= 1 << (p % 64)
		s.ever++
		s.live++
		if s.limit > 0 {
			s.heap.push(sampledPage{point: point, key: uint64(p)})
			if s.live > s.limit {
				s.shrink()
			}
		}
	}
	s.pages = max(s.pages, pages)
	return s.gone
}

// shrink takes out the pages with the largest point, which is the rate from now
// on.
func (s *pageSet) shrink() {
	s.below = s.heap.list[0].point
	for len(s.heap.list) > 0 && s.heap.list[0].point >= s.below {
		p := s.heap.pop()
		s.words[p.key/64].sampled &^= 1 << (p.key % 64)
		p.entry = s.number(placement.Page(p.key))
		s.gone = append(s.gone, p)
		s.live--
	}
}

// number is the place of p, which is or was sampled, among those ever sampled.
func (s *pageSet) number(p placement.Page) uint32 {
	return s.before[p/64] + uint32(bits.OnesCount64(s.words[p/64].ever&(1<<(p%64)-1)))
}

// rate is the share of the pages that the sample is made for.
func (s *pageSet) rate() float64 { return rateBelow(s.below) }
