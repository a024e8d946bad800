package placement

// MinFramesFIFO is the smallest number of frames that FIFO accepts.
const MinFramesFIFO = 1

// FIFO evicts the page that was inserted longest ago; hits do not matter.
// 8 bytes a page.
type FIFO struct {
	nodes  links // page p at p+1, sentinel 0
	n      int
	frames int
}

// NewFIFO makes a FIFO of frames frames for pages below pages.
func NewFIFO(frames, pages int) (*FIFO, error) {
	if err := checkSize("fifo", frames, MinFramesFIFO, pages); err != nil {
		return nil, err
	}
	return &FIFO{nodes: newLinks(pages, 1), frames: frames}, nil
}

// Name returns fifo.
func (f *FIFO) Name() string { return "fifo" }

// Cap returns the number of frames.
func (f *FIFO) Cap() int { return f.frames }

// Len returns the number of resident pages.
func (f *FIFO) Len() int { return f.n }

// Grow prepares for pages below pages.
func (f *FIFO) Grow(pages int) { f.nodes = grown(f.nodes, pages+1) }

// Hit changes nothing.
func (f *FIFO) Hit(Page) {}

// Insert adds p as the newest page.
func (f *FIFO) Insert(p Page) {
	f.n++
	f.nodes.push(0, uint32(p)+1)
}

// Victim takes out the oldest page that is not pinned.
func (f *FIFO) Victim(_ Page, pins Pins) Page {
	i := f.nodes[0].prev
	if pins != nil {
		i = f.nodes.lastUnpinned(0, 1, pins)
	}
	if i == 0 {
		return None
	}
	f.nodes.unlink(i)
	f.n--
	return Page(i - 1)
}

// Remove takes p out.
func (f *FIFO) Remove(p Page) {
	f.nodes.unlink(uint32(p) + 1)
	f.n--
}

// Oldest is Victim for a tier that is not empty and has no pins: small enough
// that the compiler inlines it into the simulator's loop.
func (f *FIFO) Oldest() Page {
	i := f.nodes[0].prev
	f.nodes.unlink(i)
	f.n--
	return Page(i - 1)
}
