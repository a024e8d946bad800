package placement

import "math/bits"

// timeSet is a set of times, below a fixed bound, that finds its latest member
// fast: bitmaps in which each bit says that a word of the level below is not
// zero, 64 times narrower each (after van Emde Boas, 1975). An operation looks
// at one word a level, six for 2^32 times, and mostly at the first alone.
type timeSet struct {
	low    []uint64   // one bit a time
	levels [][]uint64 // summaries, the last of one word
}

// newTimeSet makes an empty set for times below n.
func newTimeSet(n int) timeSet {
	s := timeSet{low: make([]uint64, n/64+1)}
	for words := len(s.low); words > 1; {
		words = (words + 63) / 64
		s.levels = append(s.levels, make([]uint64, words))
	}
	return s
}

// add puts t in.
func (s *timeSet) add(t uint32) {
	w := s.low[t/64]
	s.low[t/64] = w | 1<<(t%64)
	if w == 0 {
		s.raise(t / 64)
	}
}

// raise marks word w of the lowest level as not zero.
func (s *timeSet) raise(w uint32) {
	for _, level := range s.levels {
		old := level[w/64]
		level[w/64] = old | 1<<(w%64)
		if old != 0 {
			return
		}
		w /= 64
	}
}

// remove takes t out.
func (s *timeSet) remove(t uint32) {
	w := s.low[t/64] &^ (1 << (t % 64))
	s.low[t/64] = w
	if w == 0 {
		s.lower(t / 64)
	}
}

// lower marks word w of the lowest level as zero.
func (s *timeSet) lower(w uint32) {
	for _, level := range s.levels {
		level[w/64] &^= 1 << (w % 64)
		if level[w/64] != 0 {
			return
		}
		w /= 64
	}
}

// latest returns the greatest member, or Never when the set is empty.
func (s *timeSet) latest() uint32 {
	at := uint32(0)
	for l := len(s.levels) - 1; l >= 0; l-- {
		w := s.levels[l][at]
		if w == 0 {
			return Never
		}
		at = at*64 + uint32(bits.Len64(w)) - 1
	}
	if s.low[at] == 0 {
		return Never
	}
	return at*64 + uint32(bits.Len64(s.low[at])) - 1
}

// before returns the greatest member below t, or Never when there is none.
func (s *timeSet) before(t uint32) uint32 {
	words := s.low
	for l := 0; ; l++ {
		if w := words[t/64] & (1<<(t%64) - 1); w != 0 {
			return s.descend(l, t/64*64+uint32(bits.Len64(w))-1)
		}
		if l == len(s.levels) {
			return Never
		}
		t /= 64
		words = s.levels[l]
	}
}

// descend returns the greatest member under bit t of a level; level 0 is low.
func (s *timeSet) descend(level int, t uint32) uint32 {
	for ; level > 0; level-- {
		words := s.low
		if level > 1 {
			words = s.levels[level-2]
		}
		t = t*64 + uint32(bits.Len64(words[t])) - 1
	}
	return t
}
