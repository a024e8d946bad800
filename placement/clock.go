package placement

import "math/bits"

// MinFramesClock is the smallest number of frames that Clock accepts.
const MinFramesClock = 1

// Clock is a ring of slots with one reference bit per page (Corbato, 1968).
// A hit sets the bit and an insertion clears it. The hand passes over the
// slots, clears bits that are set, and stops at the first page whose bit is
// clear. The new page takes the slot of that victim, behind the hand.
//
// After Remove, slots are free inside the ring. An insertion takes the slot
// that was freed last; only when none is free does it take the next slot that
// was never used. While no page is removed this is the same as a FIFO queue
// with a second chance.
//
// The bits are kept by slot, 64 in a word, so that the hand passes over a word
// at a time and its way costs no mispredicted branch. 4 bytes a page, 4 and a
// bit for each frame in use.
type Clock struct {
	slotOf []uint32 // slot, by resident page
	slots  []uint32 // page, or freeSlot | the slot freed before this one
	ref    []uint64 // reference bits by slot; those of free slots are clear
	hand   uint32
	free   uint32 // the slot freed last, or noSlot
	used   uint32 // slots used so far; those above are not in the ring yet
	n      int
	frames int
}

const (
	freeSlot = 1 << 31   // a slot without a page: pages are below 1<<30
	noSlot   = 1<<31 - 1 // ends the chain of free slots
)

// NewClock makes a Clock of frames frames for pages below pages.
func NewClock(frames, pages int) (*Clock, error) {
	if err := checkSize("clock", frames, MinFramesClock, pages); err != nil {
		return nil, err
	}
	slots := min(frames, pages)
	return &Clock{
		slotOf: make([]uint32, pages), slots: make([]uint32, slots), ref: make([]uint64, slots/64+1),
		free: noSlot, frames: frames,
	}, nil
}

// Name returns clock.
func (c *Clock) Name() string { return "clock" }

// Cap returns the number of frames.
func (c *Clock) Cap() int { return c.frames }

// Len returns the number of resident pages.
func (c *Clock) Len() int { return c.n }

// Grow prepares for pages below pages.
func (c *Clock) Grow(pages int) {
	c.slotOf = grown(c.slotOf, pages)
	c.slots = grown(c.slots, min(c.frames, len(c.slotOf)))
	c.ref = grown(c.ref, len(c.slots)/64+1)
}

// Hit sets the reference bit of p.
func (c *Clock) Hit(p Page) {
	s := c.slotOf[p]
	c.ref[s/64] |= 1 << (s % 64)
}

// Insert puts p into a free slot, whose bit is clear.
func (c *Clock) Insert(p Page) {
	s := c.free
	if s == noSlot {
		s = c.used
		c.used++
	} else {
		c.free = c.slots[s] &^ freeSlot
	}
	c.slots[s] = uint32(p)
	c.slotOf[p] = s
	c.n++
}

// Victim turns the hand to the first page whose bit is clear. Pinned pages are
// passed with their bit as it is. The hand makes at most two turns, since
// the first clears the bit of every page that may leave.
func (c *Clock) Victim(_ Page, pins Pins) Page {
	if pins != nil || c.n < int(c.used) {
		return c.victimStepwise(pins)
	}
	if c.n == 0 {
		return None
	}
	s := c.hand
	for {
		w, from := c.ref[s/64], uint64(1)<<(s%64)
		open := ^w & -from // the slots at or after the hand whose bit is clear
		if first := s&^63 + uint32(bits.TrailingZeros64(open)); open != 0 && first < c.used {
			c.ref[s/64] = w &^ (open&-open - from)
			return c.take(first)
		}
		c.ref[s/64] = w & (from - 1)
		if s = (s | 63) + 1; s >= c.used {
			s = 0
		}
	}
}

// victimStepwise is Victim with pins or with free slots in the ring. After one
// turn without a page that may leave it gives up, with every bit and the hand
// as they were.
func (c *Clock) victimStepwise(pins Pins) Page {
	s, movable := c.hand, false
	for turned := uint32(0); movable || turned < c.used; turned++ {
		if v := c.slots[s]; v < freeSlot && (pins == nil || !pins.Pinned(Page(v))) {
			bit := uint64(1) << (s % 64)
			if c.ref[s/64]&bit == 0 {
				return c.take(s)
			}
			c.ref[s/64] &^= bit
			movable = true
		}
		if s++; s == c.used {
			s = 0
		}
	}
	return None
}

// take evicts the page in slot s, whose bit is clear, and leaves the hand
// behind it.
func (c *Clock) take(s uint32) Page {
	v := c.slots[s]
	c.slots[s] = freeSlot | c.free
	c.free = s
	c.n--
	if s++; s == c.used {
		s = 0
	}
	c.hand = s
	return Page(v)
}

// Remove takes p out and leaves its slot free.
func (c *Clock) Remove(p Page) {
	s := c.slotOf[p]
	c.ref[s/64] &^= 1 << (s % 64)
	c.slots[s] = freeSlot | c.free
	c.free = s
	c.n--
}
