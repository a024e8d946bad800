package placement

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
// 5 bytes a page, 4 a frame in use.
type Clock struct {
	ref    []uint8  // reference bit, by page
	slotOf []uint32 // slot, by resident page
	slots  []uint32 // page, or freeSlot | the slot freed before this one
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
	return &Clock{
		ref: make([]uint8, pages), slotOf: make([]uint32, pages),
		slots: make([]uint32, min(frames, pages)), free: noSlot, frames: frames,
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
	c.ref = grown(c.ref, pages)
	c.slotOf = grown(c.slotOf, pages)
	c.slots = grown(c.slots, min(c.frames, len(c.ref)))
}

// Hit sets the reference bit of p.
func (c *Clock) Hit(p Page) { c.ref[p] = 1 }

// Insert puts p into a free slot with its bit clear.
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
	c.ref[p] = 0
	c.n++
}

// Victim turns the hand to the first page whose bit is clear. Pinned pages
// are passed with their bit as it is. The hand makes at most two turns, since
// the first clears the bit of every page that may leave.
func (c *Clock) Victim(_ Page, pins Pins) Page {
	if pins != nil {
		return c.victimPinned(pins)
	}
	if c.n == 0 {
		return None
	}
	s := c.hand
	for {
		v := c.slots[s]
		if v < freeSlot {
			if c.ref[v] == 0 {
				return c.take(s)
			}
			c.ref[v] = 0
		}
		if s++; s == c.used {
			s = 0
		}
	}
}

// victimPinned is Victim with pins: after one turn without a page that may
// leave it gives up, with every bit and the hand as they were.
func (c *Clock) victimPinned(pins Pins) Page {
	s, movable := c.hand, false
	for turned := uint32(0); movable || turned < c.used; turned++ {
		if v := c.slots[s]; v < freeSlot && !pins.Pinned(Page(v)) {
			if c.ref[v] == 0 {
				return c.take(s)
			}
			c.ref[v] = 0
			movable = true
		}
		if s++; s == c.used {
			s = 0
		}
	}
	return None
}

// take evicts the page in slot s and leaves the hand behind it.
func (c *Clock) take(s uint32) Page {
	v := c.slots[s]
	c.release(s)
	if s++; s == c.used {
		s = 0
	}
	c.hand = s
	return Page(v)
}

// Remove takes p out and leaves its slot free.
func (c *Clock) Remove(p Page) { c.release(c.slotOf[p]) }

func (c *Clock) release(s uint32) {
	c.slots[s] = freeSlot | c.free
	c.free = s
	c.n--
}
