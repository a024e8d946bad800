package placement

import "math/bits"

// ranks numbers the pages that are chosen by a hash, one in every, by their
// order. With one in one, a page's rank is the page.
type ranks struct {
	seed, every uint64
	bits        []uint64 // the chosen pages
	before      []uint32 // chosen pages below each word of it
	pages       int
	n           int // chosen pages
}

func newRanks(seed, every uint64) ranks { return ranks{seed: seed, every: every} }

// chosen says whether p is one of the chosen: a fixed function of p.
func (r *ranks) chosen(p Page) bool { return r.every == 1 || Hash(r.seed, 0, p)%r.every == 0 }

// grow prepares for pages below pages: their ranks are known from then on.
func (r *ranks) grow(pages int) {
	if pages <= r.pages {
		return
	}
	if r.every == 1 {
		r.pages, r.n = pages, pages
		return
	}
	words := (pages + wordBits - 1) / wordBits
	r.bits, r.before = grown(r.bits, words), grown(r.before, words)
	for p := r.pages; p < pages; p++ {
		if p%wordBits == 0 {
			r.before[p/wordBits] = uint32(r.n)
		}
		if r.chosen(Page(p)) {
			r.bits[p/wordBits] |= 1 << (p % wordBits)
			r.n++
		}
	}
	r.pages = pages
}

// rank is p's rank; ok when it is chosen and known.
func (r *ranks) rank(p Page) (rank Page, ok bool) {
	if r.every == 1 {
		return p, int(p) < r.pages
	}
	w := int(p) / wordBits
	if w >= len(r.bits) || r.bits[w]>>(p%wordBits)&1 == 0 {
		return 0, false
	}
	return Page(r.before[w] + uint32(bits.OnesCount64(r.bits[w]&lowBits(int(p%wordBits))))), true
}
