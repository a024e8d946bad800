package placement

import "errors"

// MinFramesBelady is the smallest number of frames that Belady accepts.
const MinFramesBelady = 1

// Belady evicts the page whose next use is farthest away (Belady, 1966), which
// no policy that must fetch every missing page beats. Pages that are not used
// again leave before all others, the one longest in the tier first. It knows
// the accesses to come from a Future, on which the caller calls At before the
// Hit, Victim, Insert or Remove of each access.
//
// A page that is used in another tier while it stays in this one needs a Hit
// here too, or it is taken for the page that is used soonest. 12 bytes a page,
// one bit an access and a 63rd of that, besides what Future needs.
type Belady struct {
	future *Future
	times  timeSet  // next uses of the resident pages; each is one page's alone
	key    []uint32 // by resident page: its member of times, or Never
	idle   links    // resident pages that are not used again: p at p+1, sentinel 0
	n      int
	frames int
}

// NewBelady makes a Belady of frames frames for pages below pages.
func NewBelady(frames, pages int, future *Future) (*Belady, error) {
	if err := checkSize("belady", frames, MinFramesBelady, pages); err != nil {
		return nil, err
	}
	if future == nil {
		return nil, errors.New("placement: belady needs the whole trace in advance: it cannot run live or on a stream")
	}
	return &Belady{
		future: future, times: newTimeSet(future.Len()),
		key: make([]uint32, pages), idle: newLinks(pages, 1), frames: frames,
	}, nil
}

// Name returns belady.
func (b *Belady) Name() string { return "belady" }

// Cap returns the number of frames.
func (b *Belady) Cap() int { return b.frames }

// Len returns the number of resident pages.
func (b *Belady) Len() int { return b.n }

// Grow prepares for pages below pages.
func (b *Belady) Grow(pages int) {
	b.key = grown(b.key, pages)
	b.idle = grown(b.idle, pages+1)
}

// Hit gives p its next use.
func (b *Belady) Hit(p Page) {
	b.leave(p)
	b.enter(p)
}

// Insert adds p with its next use.
func (b *Belady) Insert(p Page) {
	b.n++
	b.enter(p)
}

// Victim takes out the page that is not used again or is used last.
func (b *Belady) Victim(_ Page, pins Pins) Page {
	if pins != nil {
		return b.victimPinned(pins)
	}
	i := b.idle[0].prev
	if i == 0 {
		t := b.times.latest()
		if t == Never {
			return None
		}
		i = b.future.accesses[t]>>2 + 1
	}
	b.Remove(Page(i - 1))
	return Page(i - 1)
}

// victimPinned is Victim with pins.
func (b *Belady) victimPinned(pins Pins) Page {
	if i := b.idle.lastUnpinned(0, 1, pins); i != 0 {
		b.Remove(Page(i - 1))
		return Page(i - 1)
	}
	for t := b.times.latest(); t != Never; t = b.times.before(t) {
		if p := Page(b.future.accesses[t] >> 2); !pins.Pinned(p) {
			b.Remove(p)
			return p
		}
	}
	return None
}

// Remove takes p out.
func (b *Belady) Remove(p Page) {
	b.n--
	b.leave(p)
}

// enter files p under its next use.
func (b *Belady) enter(p Page) {
	t := b.future.Use(p)
	b.key[p] = t
	if t == Never {
		b.idle.push(0, uint32(p)+1)
		return
	}
	b.times.add(t)
}

// leave takes p from where enter put it.
func (b *Belady) leave(p Page) {
	if t := b.key[p]; t != Never {
		b.times.remove(t)
		return
	}
	b.idle.unlink(uint32(p) + 1)
}
