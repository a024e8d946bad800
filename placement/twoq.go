package placement

// MinFrames2Q is the smallest number of frames that TwoQ accepts: one for A1in
// and one for Am.
const MinFrames2Q = 2

// TwoQParams tunes TwoQ. A zero field stands for its default.
type TwoQParams struct {
	Kin  float64 // share of the frames in A1in; 0.25
	Kout float64 // entries of A1out per frame; 0.50
}

func (p *TwoQParams) fill() error {
	p.Kin = orDefault(p.Kin, 0.25)
	p.Kout = orDefault(p.Kout, 0.50)
	if err := checkFraction("2q", "kin", p.Kin, 1); err != nil {
		return err
	}
	return checkFraction("2q", "kout", p.Kout, 1000)
}

// TwoQ is the full version of 2Q (Johnson and Shasha, VLDB 1994). New pages
// enter the FIFO queue A1in, where hits do not matter. Those that leave it are
// remembered in A1out, and a miss on a remembered page puts it into the LRU
// list Am. A1in gives the victim while it holds more than its share, else Am
// does, and what leaves Am is not remembered.
//
// Whether A1out remembers the incoming page is looked up before the eviction,
// which cannot push it out. A victim that comes back before any other page is
// inserted was kept: it enters A1in as a new page. A page that Remove takes out
// is not remembered. 9 bytes a page.
type TwoQ struct {
	nodes  links   // page p at p+twoQBase; sentinels are the list numbers
	list   []uint8 // the list that a page is in, or twoQNone
	size   [twoQBase]int
	kin    int // frames of A1in
	kout   int // most entries of A1out
	frames int
	victim Page // the last victim, until another page is inserted
}

// The lists of TwoQ.
const (
	twoQNone = iota
	twoQIn
	twoQOut
	twoQMain
	twoQBase // node index of page 0
)

// New2Q makes a TwoQ of frames frames for pages below pages.
func New2Q(frames, pages int, params TwoQParams) (*TwoQ, error) {
	if err := checkSize("2q", frames, MinFrames2Q, pages); err != nil {
		return nil, err
	}
	if err := params.fill(); err != nil {
		return nil, err
	}
	return &TwoQ{
		nodes: newLinks(pages, twoQBase), list: make([]uint8, pages),
		kin: portion(params.Kin, frames, frames-1), kout: portion(params.Kout, frames, MaxPages),
		frames: frames, victim: None,
	}, nil
}

// Name returns 2q.
func (q *TwoQ) Name() string { return "2q" }

// Cap returns the number of frames.
func (q *TwoQ) Cap() int { return q.frames }

// Len returns the number of resident pages.
func (q *TwoQ) Len() int { return q.size[twoQIn] + q.size[twoQMain] }

// Grow prepares for pages below pages.
func (q *TwoQ) Grow(pages int) {
	q.nodes = grown(q.nodes, pages+twoQBase)
	q.list = grown(q.list, pages)
}

// Hit makes a page of Am its most recent one; in A1in it changes nothing.
func (q *TwoQ) Hit(p Page) {
	if q.list[p] == twoQMain {
		i := uint32(p) + twoQBase
		q.nodes.unlink(i)
		q.nodes.push(twoQMain, i)
	}
}

// Insert adds p to Am if A1out remembers it, else to A1in.
func (q *TwoQ) Insert(p Page) {
	to := uint32(twoQIn)
	if q.list[p] == twoQOut {
		if p != q.victim {
			to = twoQMain
		}
		q.drop(uint32(p) + twoQBase)
	}
	q.victim = None
	q.push(to, p)
}

// Victim takes out the oldest page of A1in or the least recent of Am, and of
// the other one when pins hold the whole of a list.
func (q *TwoQ) Victim(incoming Page, pins Pins) Page {
	from := uint32(twoQMain)
	if q.size[twoQIn] > q.kin {
		from = twoQIn
	}
	i := q.nodes.lastUnpinned(from, twoQBase, pins)
	if i == from {
		from = twoQIn + twoQMain - from
		if i = q.nodes.lastUnpinned(from, twoQBase, pins); i == from {
			return None
		}
	}
	p := Page(i - twoQBase)
	q.drop(i)
	if from == twoQIn {
		q.push(twoQOut, p)
		q.trim(incoming)
	}
	q.victim = p
	return p
}

// trim drops the oldest entries of A1out above the limit. The entry of the
// incoming page stays and does not count: its page is about to be inserted.
func (q *TwoQ) trim(incoming Page) {
	limit, spared := q.kout, uint32(twoQOut)
	if int(incoming) < len(q.list) && q.list[incoming] == twoQOut {
		limit++
		spared = uint32(incoming) + twoQBase
	}
	for q.size[twoQOut] > limit {
		i := q.nodes[twoQOut].prev
		if i == spared {
			i = q.nodes[i].prev
		}
		q.drop(i)
	}
}

// Remove takes p out; A1out does not remember it.
func (q *TwoQ) Remove(p Page) { q.drop(uint32(p) + twoQBase) }

// drop takes node i out of its list.
func (q *TwoQ) drop(i uint32) {
	p := i - twoQBase
	q.size[q.list[p]]--
	q.list[p] = twoQNone
	q.nodes.unlink(i)
}

// push makes p the newest page of list s.
func (q *TwoQ) push(s uint32, p Page) {
	q.size[s]++
	q.list[p] = uint8(s)
	q.nodes.push(s, uint32(p)+twoQBase)
}
