package placement

import "math/bits"

// lruStack measures exact LRU stack distances in O(log n): it keeps the
// position in time of each item's last access, and counts the positions that
// are still last ones behind a given one (Bennett and Kruskal, IBM Journal of
// R&D 1975). Positions are a bitmap with a Fenwick tree (1994) over its words.
// When the positions run out, the live ones are moved together; there are
// twice as many as items, so that this costs O(1) an access. About 13 bytes an
// item.
type lruStack struct {
	pos   []uint32 // by item: position of the last access plus 1, 0: none
	owner []uint32 // by position: the item accessed there
	live  []uint64 // bitmap: the position is its owner's last access
	sums  []uint32 // Fenwick tree over the population counts of live's words
	next  int      // the next position
	n     int      // live positions
}

// wordBits is the width of a bitmap's word.
const wordBits = 64

// grow makes room for items below n.
func (s *lruStack) grow(n int) { s.pos = grown(s.pos, n) }

// access notes an access to item i. It returns the number of distinct other
// items accessed since the last one, and whether there was a last one.
func (s *lruStack) access(i uint32) (distance int, again bool) {
	if s.next == len(s.owner) {
		s.compact()
	}
	if at := s.pos[i]; at != 0 {
		distance, again = s.n-s.upTo(int(at-1)), true
		s.flip(int(at-1), ^uint32(0))
		s.n--
	}
	s.owner[s.next] = i
	s.flip(s.next, 1)
	s.n++
	s.next++
	s.pos[i] = uint32(s.next)
	return distance, again
}

// upTo counts the live positions up to and including at.
func (s *lruStack) upTo(at int) int {
	w := at / wordBits
	sum := uint32(bits.OnesCount64(s.live[w] << (wordBits - 1 - at%wordBits)))
	for ; w > 0; w &= w - 1 {
		sum += s.sums[w-1]
	}
	return int(sum)
}

// flip changes whether at is live; by is 1 or, modulo 2^32, -1.
func (s *lruStack) flip(at int, by uint32) {
	w := at / wordBits
	s.live[w] ^= 1 << (at % wordBits)
	for w++; w <= len(s.sums); w += w & -w {
		s.sums[w-1] += by
	}
}

// compact moves the live positions to the front, in order, and makes room for
// twice as many positions as there are items.
func (s *lruStack) compact() {
	to := 0
	for w, word := range s.live {
		for ; word != 0; word &= word - 1 {
			i := s.owner[w*wordBits+bits.TrailingZeros64(word)]
			s.owner[to] = i // to is at or before what is still to be read
			to++
			s.pos[i] = uint32(to)
		}
	}
	s.next = to
	words := (2*len(s.pos) + wordBits - 1) / wordBits
	if words > len(s.live) {
		owner := make([]uint32, words*wordBits)
		copy(owner, s.owner[:to])
		s.owner = owner
		s.live = make([]uint64, words)
		s.sums = make([]uint32, words)
	}
	for w := range s.live {
		s.live[w] = lowBits(to - w*wordBits)
		s.sums[w] = 0
	}
	for w := range s.sums { // each node adds itself to its parent, once
		s.sums[w] += uint32(bits.OnesCount64(s.live[w]))
		if up := w + (w+1)&-(w+1); up < len(s.sums) {
			s.sums[up] += s.sums[w]
		}
	}
}

// lowBits is a word of n ones from bit 0; n may be out of range.
func lowBits(n int) uint64 {
	switch {
	case n <= 0:
		return 0
	case n >= wordBits:
		return ^uint64(0)
	}
	return 1<<n - 1
}
