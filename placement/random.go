package placement

import "math/bits"

// MinFramesRandom is the smallest number of frames that Random accepts.
const MinFramesRandom = 1

// Random evicts a resident page drawn uniformly. The n-th eviction draws from
// Hash(seed, n, incoming): the same seed and the same calls give the same
// victims. 4 bytes a page, 4 a frame in use.
type Random struct {
	slotOf  []uint32 // slot, by resident page
	slots   []uint32 // resident pages, dense in [0, n)
	n       int
	frames  int
	seed    uint64
	evicted uint64 // evictions so far
}

// NewRandom makes a Random of frames frames for pages below pages.
func NewRandom(frames, pages int, seed uint64) (*Random, error) {
	if err := checkSize("random", frames, MinFramesRandom, pages); err != nil {
		return nil, err
	}
	return &Random{
		slotOf: make([]uint32, pages), slots: make([]uint32, min(frames, pages)),
		frames: frames, seed: seed,
	}, nil
}

// Name returns random.
func (r *Random) Name() string { return "random" }

// Cap returns the number of frames.
func (r *Random) Cap() int { return r.frames }

// Len returns the number of resident pages.
func (r *Random) Len() int { return r.n }

// Grow prepares for pages below pages.
func (r *Random) Grow(pages int) {
	r.slotOf = grown(r.slotOf, pages)
	r.slots = grown(r.slots, min(r.frames, len(r.slotOf)))
}

// Hit changes nothing.
func (r *Random) Hit(Page) {}

// Insert adds p.
func (r *Random) Insert(p Page) {
	r.slots[r.n] = uint32(p)
	r.slotOf[p] = uint32(r.n)
	r.n++
}

// Victim takes out the page drawn, or the first one after it, in the order of
// slots, that is not pinned.
func (r *Random) Victim(incoming Page, pins Pins) Page {
	if r.n == 0 {
		return None
	}
	// The high half of a product maps 64 random bits to [0, n) without division.
	at, _ := bits.Mul64(Hash(r.seed, r.evicted, incoming), uint64(r.n))
	if pins != nil {
		at = r.unpinned(at, pins)
	}
	if at >= uint64(r.n) {
		return None
	}
	v := Page(r.slots[at])
	r.evicted++
	r.Remove(v)
	return v
}

// unpinned returns the first slot from at on, around the end, whose page may
// leave; n when there is none.
func (r *Random) unpinned(at uint64, pins Pins) uint64 {
	for range r.n {
		if !pins.Pinned(Page(r.slots[at])) {
			return at
		}
		if at++; at == uint64(r.n) {
			at = 0
		}
	}
	return uint64(r.n)
}

// Remove takes p out; the page in the last slot fills the gap.
func (r *Random) Remove(p Page) {
	r.n--
	s, last := r.slotOf[p], r.slots[r.n]
	r.slots[s] = last
	r.slotOf[last] = s
}
