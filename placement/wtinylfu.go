package placement

import "fmt"

// MinFramesWTinyLFU is the smallest number of frames that WTinyLFU accepts: one
// for each of the window, probation and protected lists.
const MinFramesWTinyLFU = 3

// WTinyLFUParams tunes WTinyLFU. A zero field stands for its default.
type WTinyLFUParams struct {
	Window    float64 // share of the frames in the window; 0.01
	Protected float64 // share of the other frames that is protected; 0.80
	Reset     int     // accesses per frame between two halvings of the sketch; 10
	Seed      uint64  // of the sketch's hash function
}

func (p *WTinyLFUParams) fill() error {
	p.Window = orDefault(p.Window, 0.01)
	p.Protected = orDefault(p.Protected, 0.80)
	p.Reset = orDefault(p.Reset, 10)
	if err := checkFraction("w-tinylfu", "window", p.Window, 1); err != nil {
		return err
	}
	if err := checkFraction("w-tinylfu", "protected", p.Protected, 1); err != nil {
		return err
	}
	if p.Reset < 1 || p.Reset > 1<<20 {
		return fmt.Errorf("placement: w-tinylfu: reset=%d must be 1 to %d", p.Reset, 1<<20)
	}
	return nil
}

// WTinyLFU is W-TinyLFU (Einziger, Friedman and Manes, ACM Transactions on
// Storage 13:4, 2017). New pages enter a small LRU window. What leaves the
// window competes with the oldest page on probation: a sketch of recent use
// counts decides which of the two stays in the main area, a segmented LRU whose
// probation pages become protected on a hit. The page from the window must have
// been used more often; on a tie it leaves.
//
// There is no doorkeeper, and every Hit and Insert counts as a use, except that
// a victim that comes back before any other page is inserted was kept: it
// enters the window as a new page, with no use counted. 9 bytes a page, 8 to 16
// a frame for the sketch (128 MiB at most).
type WTinyLFU struct {
	nodes     links   // page p at p+wtBase; sentinels are the list numbers
	list      []uint8 // the list that a page is in, or wtNone
	size      [wtBase]int
	window    int // frames of the window
	main      int // frames of probation and protected
	protected int // frames of protected
	frames    int
	victim    Page // the last victim, until another page is inserted
	sketch    sketch
}

// The lists of WTinyLFU.
const (
	wtNone = iota
	wtWindow
	wtProbation
	wtProtected
	wtBase // node index of page 0
)

// NewWTinyLFU makes a WTinyLFU of frames frames for pages below pages.
func NewWTinyLFU(frames, pages int, params WTinyLFUParams) (*WTinyLFU, error) {
	if err := checkSize("w-tinylfu", frames, MinFramesWTinyLFU, pages); err != nil {
		return nil, err
	}
	if err := params.fill(); err != nil {
		return nil, err
	}
	window := portion(params.Window, frames, frames-2)
	return &WTinyLFU{
		nodes: newLinks(pages, wtBase), list: make([]uint8, pages),
		window: window, main: frames - window,
		protected: portion(params.Protected, frames-window, frames-window-1),
		frames:    frames, victim: None,
		sketch: newSketch(frames, params.Reset*frames, params.Seed),
	}, nil
}

// Name returns w-tinylfu.
func (w *WTinyLFU) Name() string { return "w-tinylfu" }

// Cap returns the number of frames.
func (w *WTinyLFU) Cap() int { return w.frames }

// Len returns the number of resident pages.
func (w *WTinyLFU) Len() int { return w.size[wtWindow] + w.size[wtProbation] + w.size[wtProtected] }

// Grow prepares for pages below pages.
func (w *WTinyLFU) Grow(pages int) {
	w.nodes = grown(w.nodes, pages+wtBase)
	w.list = grown(w.list, pages)
}

// Hit makes p the most recent page of its list, or moves it from probation to
// protected, which gives its oldest page back when it holds too many.
func (w *WTinyLFU) Hit(p Page) {
	w.sketch.add(p)
	to := uint32(w.list[p])
	if to == wtProbation {
		to = wtProtected
	}
	w.move(p, to)
	if w.size[wtProtected] > w.protected {
		w.move(Page(w.nodes[wtProtected].prev-wtBase), wtProbation)
	}
}

// Insert adds p to the window. What that pushes out of the window goes on
// probation while the main area has room.
func (w *WTinyLFU) Insert(p Page) {
	if p != w.victim {
		w.sketch.add(p)
	}
	w.victim = None
	w.push(wtWindow, p)
	for w.size[wtWindow] > w.window && w.room() {
		w.move(Page(w.nodes[wtWindow].prev-wtBase), wtProbation)
	}
}

// room says whether the main area has a free frame.
func (w *WTinyLFU) room() bool { return w.size[wtProbation]+w.size[wtProtected] < w.main }

// Victim lets the oldest page of the window compete with the oldest page of the
// main area that may leave.
func (w *WTinyLFU) Victim(_ Page, pins Pins) Page {
	c := w.nodes.lastUnpinned(wtWindow, wtBase, pins)
	for c != wtWindow && w.room() {
		w.move(Page(c-wtBase), wtProbation)
		c = w.nodes.lastUnpinned(wtWindow, wtBase, pins)
	}
	v := w.mainVictim(pins)
	candidate, victim := Page(c-wtBase), Page(v-wtBase)
	switch {
	case c == wtWindow && v == wtProtected:
		return None
	case c == wtWindow:
	case v == wtProtected:
		victim = candidate
	case w.sketch.estimate(candidate) > w.sketch.estimate(victim):
		w.move(candidate, wtProbation)
	default:
		victim = candidate
	}
	w.Remove(victim)
	w.victim = victim
	return victim
}

// mainVictim returns the oldest node on probation, or else of protected, that
// pins let go, or wtProtected when there is none.
func (w *WTinyLFU) mainVictim(pins Pins) uint32 {
	if i := w.nodes.lastUnpinned(wtProbation, wtBase, pins); i != wtProbation {
		return i
	}
	return w.nodes.lastUnpinned(wtProtected, wtBase, pins)
}

// Remove takes p out. The sketch goes on counting its past uses.
func (w *WTinyLFU) Remove(p Page) {
	w.size[w.list[p]]--
	w.list[p] = wtNone
	w.nodes.unlink(uint32(p) + wtBase)
}

// move makes p, in a list, the newest page of list s.
func (w *WTinyLFU) move(p Page, s uint32) {
	w.Remove(p)
	w.push(s, p)
}

// push makes p the newest page of list s.
func (w *WTinyLFU) push(s uint32, p Page) {
	w.size[s]++
	w.list[p] = uint8(s)
	w.nodes.push(s, uint32(p)+wtBase)
}
