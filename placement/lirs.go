package placement

// MinFramesLIRS is the smallest number of frames that LIRS accepts: one for a
// LIR page and one for a resident HIR page.
const MinFramesLIRS = 2

// LIRSParams tunes LIRS. A zero field stands for its default.
type LIRSParams struct {
	HIR   float64 // share of the frames for resident HIR pages; 0.01
	Ghost float64 // non-resident HIR pages remembered per frame, at most; 2.0
}

func (p *LIRSParams) fill() error {
	p.HIR = orDefault(p.HIR, 0.01)
	p.Ghost = orDefault(p.Ghost, 2.0)
	if err := checkFraction("lirs", "hir", p.HIR, 1); err != nil {
		return err
	}
	return checkFraction("lirs", "ghost", p.Ghost, 1000)
}

// LIRS is the low inter-reference recency set (Jiang and Zhang, SIGMETRICS
// 2002). Pages with a short distance between their last two uses are LIR and
// stay; the others are HIR and leave first. The stack orders pages by recency
// down to the least recent LIR page, and remembers HIR pages that have left;
// the queue holds the resident HIR pages. A HIR page that is used again while
// in the stack becomes LIR, and the LIR page at the bottom becomes HIR.
//
// The paper bounds the stack only by what pruning removes. Here at most
// Ghost x frames non-resident pages are remembered, and the one that left
// longest ago is forgotten first. While fewer LIR pages than their share are
// resident (at the start, or after Remove), a page that enters is LIR. A
// victim that comes back before any other page is inserted was kept: it enters
// as a new page. A page that Remove takes out is forgotten. When pins hold
// every HIR page, the least recent LIR page that is free leaves and is
// forgotten. 17 bytes a page.
type LIRS struct {
	stack  links   // page p at p+lirsBase, sentinel lirsStack
	queue  links   // the same, sentinels lirsQueue and lirsGone
	state  []uint8 // by page: lirsLIR.., with lirsStacked
	lir    int     // LIR pages
	hir    int     // resident HIR pages
	gone   int     // non-resident HIR pages
	lirs   int     // frames for LIR pages
	ghosts int     // most non-resident HIR pages
	frames int
	victim Page // the last victim, until another page is inserted
}

const (
	lirsStack = 0 // sentinel: the stack, next is its top
	lirsQueue = 1 // sentinel: resident HIR pages
	lirsGone  = 2 // sentinel: non-resident HIR pages in the order of leaving
	lirsBase  = 3 // node index of page 0

	lirsAbsent  = 0
	lirsLIR     = 1
	lirsHIR     = 2
	lirsGhost   = 3 // a non-resident HIR page: always in the stack
	lirsKind    = 3 // mask of the above
	lirsStacked = 4 // the page is in the stack
)

// NewLIRS makes a LIRS of frames frames for pages below pages.
func NewLIRS(frames, pages int, params LIRSParams) (*LIRS, error) {
	if err := checkSize("lirs", frames, MinFramesLIRS, pages); err != nil {
		return nil, err
	}
	if err := params.fill(); err != nil {
		return nil, err
	}
	return &LIRS{
		stack: newLinks(pages, lirsBase), queue: newLinks(pages, lirsBase), state: make([]uint8, pages),
		lirs:   frames - portion(params.HIR, frames, frames-1),
		ghosts: portion(params.Ghost, frames, MaxPages),
		frames: frames, victim: None,
	}, nil
}

// Name returns lirs.
func (l *LIRS) Name() string { return "lirs" }

// Cap returns the number of frames.
func (l *LIRS) Cap() int { return l.frames }

// Len returns the number of resident pages.
func (l *LIRS) Len() int { return l.lir + l.hir }

// Grow prepares for pages below pages.
func (l *LIRS) Grow(pages int) {
	l.stack = grown(l.stack, pages+lirsBase)
	l.queue = grown(l.queue, pages+lirsBase)
	l.state = grown(l.state, pages)
}

// Hit moves p to the top of the stack.
func (l *LIRS) Hit(p Page) {
	i := uint32(p) + lirsBase
	switch l.state[p] {
	case lirsLIR | lirsStacked:
		l.stack.unlink(i)
		l.stack.push(lirsStack, i)
		l.prune()
	case lirsHIR | lirsStacked:
		l.queue.unlink(i)
		l.hir--
		l.stack.unlink(i)
		l.enterLIR(i)
	default: // a HIR page that the stack has forgotten
		l.queue.unlink(i)
		l.queue.push(lirsQueue, i)
		l.stack.push(lirsStack, i)
		l.state[p] = lirsHIR | lirsStacked
	}
}

// Insert adds p as LIR if the stack remembers it, else as HIR.
func (l *LIRS) Insert(p Page) {
	i := uint32(p) + lirsBase
	again := l.state[p]&lirsKind == lirsGhost
	if again {
		l.forget(i)
	}
	again = again && p != l.victim
	l.victim = None
	if again || l.lir < l.lirs {
		l.enterLIR(i)
		return
	}
	l.stack.push(lirsStack, i)
	l.enterQueue(i, lirsStacked)
}

// enterLIR puts node i, in neither list, on the stack as LIR. If that makes one
// too many, the LIR page at the bottom of the stack becomes HIR.
func (l *LIRS) enterLIR(i uint32) {
	l.stack.push(lirsStack, i)
	l.state[i-lirsBase] = lirsLIR | lirsStacked
	l.lir++
	l.prune()
	if l.lir > l.lirs {
		bottom := l.stack[lirsStack].prev
		l.stack.unlink(bottom)
		l.lir--
		l.enterQueue(bottom, 0)
		l.prune()
	}
}

// enterQueue makes node i the newest resident HIR page.
func (l *LIRS) enterQueue(i uint32, stacked uint8) {
	l.state[i-lirsBase] = lirsHIR | stacked
	l.queue.push(lirsQueue, i)
	l.hir++
}

// prune removes HIR pages from the bottom of the stack, so that a LIR page is
// there. Each page that is pushed is removed once: constant time, amortised.
func (l *LIRS) prune() {
	for {
		i := l.stack[lirsStack].prev
		if i == lirsStack {
			return
		}
		switch l.state[i-lirsBase] & lirsKind {
		case lirsLIR:
			return
		case lirsGhost:
			l.forget(i)
		default:
			l.stack.unlink(i)
			l.state[i-lirsBase] = lirsHIR
		}
	}
}

// forget drops the non-resident node i.
func (l *LIRS) forget(i uint32) {
	l.stack.unlink(i)
	l.queue.unlink(i)
	l.state[i-lirsBase] = lirsAbsent
	l.gone--
}

// Victim takes out the oldest page of the queue.
func (l *LIRS) Victim(incoming Page, pins Pins) Page {
	i := l.queue.lastUnpinned(lirsQueue, lirsBase, pins)
	if i == lirsQueue {
		return l.victimLIR(pins)
	}
	p := Page(i - lirsBase)
	l.queue.unlink(i)
	l.hir--
	if l.state[p] == lirsHIR|lirsStacked {
		l.state[p] = lirsGhost | lirsStacked
		l.queue.push(lirsGone, i)
		l.gone++
		l.trim(incoming)
	} else {
		l.state[p] = lirsAbsent
	}
	l.victim = p
	return p
}

// trim forgets the non-resident pages above the limit, those that left longest
// ago first. The incoming page is spared and does not count: it is about to be
// inserted.
func (l *LIRS) trim(incoming Page) {
	limit, spared := l.ghosts, uint32(lirsGone)
	if int(incoming) < len(l.state) && l.state[incoming]&lirsKind == lirsGhost {
		limit++
		spared = uint32(incoming) + lirsBase
	}
	for l.gone > limit {
		i := l.queue[lirsGone].prev
		if i == spared {
			i = l.queue[i].prev
		}
		l.forget(i)
	}
}

// victimLIR takes out the least recent LIR page that is not pinned.
func (l *LIRS) victimLIR(pins Pins) Page {
	for i := l.stack[lirsStack].prev; i != lirsStack; i = l.stack[i].prev {
		p := Page(i - lirsBase)
		if l.state[p]&lirsKind == lirsLIR && (pins == nil || !pins.Pinned(p)) {
			l.Remove(p)
			l.victim = p
			return p
		}
	}
	return None
}

// Remove takes p out and forgets it.
func (l *LIRS) Remove(p Page) {
	i := uint32(p) + lirsBase
	s := l.state[p]
	l.state[p] = lirsAbsent
	if s&lirsStacked != 0 {
		l.stack.unlink(i)
	}
	if s&lirsKind == lirsLIR {
		l.lir--
		l.prune()
		return
	}
	l.queue.unlink(i)
	l.hir--
}
