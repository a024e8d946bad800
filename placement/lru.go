package placement

// MinFramesLRU is the smallest number of frames that LRU accepts.
const MinFramesLRU = 1

// LRU evicts the page whose last use is longest ago. 8 bytes a page.
type LRU struct {
	nodes  links // page p at p+1, sentinel 0
	n      int
	frames int
}

// NewLRU makes an LRU of frames frames for pages below pages.
func NewLRU(frames, pages int) (*LRU, error) {
	if err := checkSize("lru", frames, MinFramesLRU, pages); err != nil {
		return nil, err
	}
	return &LRU{nodes: newLinks(pages, 1), frames: frames}, nil
}

// Name returns lru.
func (l *LRU) Name() string { return "lru" }

// Cap returns the number of frames.
func (l *LRU) Cap() int { return l.frames }

// Len returns the number of resident pages.
func (l *LRU) Len() int { return l.n }

// Grow prepares for pages below pages.
func (l *LRU) Grow(pages int) { l.nodes = grown(l.nodes, pages+1) }

// Hit makes p the most recently used page.
func (l *LRU) Hit(p Page) {
	i := uint32(p) + 1
	l.nodes.unlink(i)
	l.nodes.push(0, i)
}

// Insert adds p as the most recently used page.
func (l *LRU) Insert(p Page) {
	l.n++
	l.nodes.push(0, uint32(p)+1)
}

// Victim takes out the least recently used page that is not pinned.
func (l *LRU) Victim(_ Page, pins Pins) Page {
	i := l.nodes[0].prev
	if pins != nil {
		i = l.nodes.lastUnpinned(0, 1, pins)
	}
	if i == 0 {
		return None
	}
	l.nodes.unlink(i)
	l.n--
	return Page(i - 1)
}

// Remove takes p out.
func (l *LRU) Remove(p Page) {
	l.nodes.unlink(uint32(p) + 1)
	l.n--
}

// Oldest is Victim for a tier that is not empty and has no pins: small enough
// that the compiler inlines it into the simulator's loop.
func (l *LRU) Oldest() Page {
	i := l.nodes[0].prev
	l.nodes.unlink(i)
	l.n--
	return Page(i - 1)
}
