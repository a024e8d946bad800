package mrc

import (
	"math/bits"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
)

// pageSet is the sampled ones among pages that are numbered densely: a bit for
// each page, so that the set stays in a core's cache, and a count for each word,
// so that a sampled page's number in the sample, in order, is found at once.
type pageSet struct {
	below, seed uint64
	words       []uint64
	before      []uint32 // members in the words before
	pages       int      // pages decided on
	n           int      // members
}

func newPageSet(below, seed uint64) *pageSet { return &pageSet{below: below, seed: seed} }

// grow decides on the pages below pages and returns the number of members.
func (s *pageSet) grow(pages int) int {
	if pages <= s.pages {
		return s.n
	}
	words := (pages + 63) / 64
	old := len(s.words)
	s.words, s.before = extend(s.words, words), extend(s.before, words)
	for p := s.pages; p < pages; p++ {
		if p%64 == 0 && p/64 >= old {
			s.before[p/64] = uint32(s.n)
		}
		if sim.SamplePoint(s.seed, placement.Page(p)) < s.below {
			s.words[p/64] |= 1 << (p % 64)
			s.n++
		}
	}
	s.pages = pages
	return s.n
}

// number is the place of member p in the sample.
func (s *pageSet) number(p placement.Page) placement.Page {
	return placement.Page(s.before[p/64] + uint32(bits.OnesCount64(s.words[p/64]&(1<<(p%64)-1))))
}
