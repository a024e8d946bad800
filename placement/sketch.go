package placement

import "math/bits"

// sketch estimates how often pages were used, with 4-bit counters in a
// count-min sketch (Cormode and Muthukrishnan, 2005). A page has four counters,
// all in one block of 64 bytes, so that an estimate costs one cache line. The
// estimate is the least of them: never below the true count, up to 15, except
// for what halving took.
type sketch struct {
	words  []uint64 // blocks of eight words of sixteen counters
	blocks uint64   // a power of two
	seed   uint64
	added  int
	period int // additions between two halvings
}

const (
	sketchRows   = 4
	sketchTop    = 15
	sketchBlock  = 8       // words per block
	maxSketch    = 1 << 24 // words: 128 MiB
	sketchHalved = 0x7777_7777_7777_7777
)

// newSketch makes a sketch with at least sixteen counters for each of frames
// pages, up to 128 MiB, which is halved every period additions.
func newSketch(frames, period int, seed uint64) sketch {
	words := max(sketchBlock, 1<<bits.Len(uint(min(frames, maxSketch)-1)))
	return sketch{words: make([]uint64, words), blocks: uint64(words / sketchBlock), seed: seed, period: period}
}

// add counts one use of p.
func (s *sketch) add(p Page) {
	h := Hash(s.seed, 0, p)
	block := s.block(h)
	for row := range sketchRows {
		w, shift := counter(h, row)
		if block[w]>>shift&sketchTop != sketchTop {
			block[w] += 1 << shift
		}
	}
	if s.added++; s.added >= s.period {
		s.halve()
	}
}

// estimate returns the uses of p, at most 15.
func (s *sketch) estimate(p Page) uint64 {
	h := Hash(s.seed, 0, p)
	block := s.block(h)
	least := uint64(sketchTop)
	for row := range sketchRows {
		w, shift := counter(h, row)
		least = min(least, block[w]>>shift&sketchTop)
	}
	return least
}

// block returns the block of a page with hash h, which the high bits choose.
func (s *sketch) block(h uint64) *[sketchBlock]uint64 {
	at := (h >> 32 & (s.blocks - 1)) * sketchBlock
	return (*[sketchBlock]uint64)(s.words[at:])
}

// counter returns the word, one of two that belong to the row, and the bit
// offset of a page's counter, from eight of the low bits of its hash.
func counter(h uint64, row int) (word, shift uint64) {
	b := h >> (8 * row)
	return uint64(2*row) + b&1, b >> 1 & 15 * 4
}

// halve divides every counter by two, rounding down: old uses fade.
func (s *sketch) halve() {
	for i := range s.words {
		s.words[i] = s.words[i] >> 1 & sketchHalved
	}
	s.added = 0
}
