package sim

import "math/bits"

// slotSet is a set of small integers that finds the largest member up to a
// limit: a bitmap, above it a bitmap of its words that are not empty, and so
// on up to one word. An operation touches one word of each level at most, and
// mostly of the lowest alone.
type slotSet struct{ levels [][]uint64 }

// newSlotSet makes an empty set for members below n.
func newSlotSet(n int) slotSet {
	var s slotSet
	for {
		n = (n + 63) / 64
		s.levels = append(s.levels, make([]uint64, max(n, 1)))
		if n <= 1 {
			return s
		}
	}
}

// size is the number of members that the set has room for.
func (s *slotSet) size() int { return 64 * len(s.levels[0]) }

func (s *slotSet) add(i uint32) {
	for _, l := range s.levels {
		w := &l[i/64]
		old := *w
		*w = old | 1<<(i%64)
		if old != 0 {
			return
		}
		i /= 64
	}
}

func (s *slotSet) remove(i uint32) {
	for _, l := range s.levels {
		w := &l[i/64]
		*w &^= 1 << (i % 64)
		if *w != 0 {
			return
		}
		i /= 64
	}
}

// upTo returns the largest member that is at most i; ok is false if none is.
func (s *slotSet) upTo(i uint32) (member uint32, ok bool) {
	if w := s.levels[0][i/64] & (2<<(i%64) - 1); w != 0 {
		return i&^63 | uint32(63-bits.LeadingZeros64(w)), true
	}
	return s.below(i / 64)
}

// below finds the largest member in the words before the given one of the
// lowest level: up until a level has one, then down its last branches.
func (s *slotSet) below(word uint32) (uint32, bool) {
	for k := 1; k < len(s.levels); k++ {
		w := s.levels[k][word/64] & (1<<(word%64) - 1)
		if w == 0 {
			word /= 64
			continue
		}
		i := word&^63 | uint32(63-bits.LeadingZeros64(w))
		for k--; k >= 0; k-- {
			i = i<<6 | uint32(63-bits.LeadingZeros64(s.levels[k][i]))
		}
		return i, true
	}
	return 0, false
}

// ranks counts the marks before a bit.
type ranks struct {
	bits   []uint64
	before []uint32 // marks in all earlier words
	total  uint32
}

func newRanks(marks []uint64) ranks {
	r := ranks{bits: marks, before: make([]uint32, len(marks))}
	for i, w := range marks {
		r.before[i] = r.total
		r.total += uint32(bits.OnesCount64(w))
	}
	return r
}

func (r *ranks) of(bit uint32) uint32 {
	below := r.bits[bit/64] & (1<<(bit%64) - 1)
	return r.before[bit/64] + uint32(bits.OnesCount64(below))
}
