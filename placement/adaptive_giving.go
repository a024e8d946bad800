package placement

// giving is the T2 of a memory with an Adaptive. It orders pages as the evictor
// inside does, but while gmt-reuse is followed, pages that gmt-reuse would not
// have put there leave first, the one longest in T2 before the others. 9 bytes
// a page.
type giving struct {
	Evictor
	owner    *Adaptive
	unwanted links   // of the pages in T2 that gmt-reuse would have sent to T3
	state    []uint8 // by page
	first    bool    // they leave first
}

// The bits of a page's state.
const (
	isUnwanted = 1 << iota // by the fate of its last eviction from T1
	isListed               // it is in the list
)

func newGiving(t2 Evictor, owner *Adaptive, first bool) *giving {
	return &giving{Evictor: t2, owner: owner, unwanted: newLinks(0, 1), first: first}
}

// Grow prepares for pages below pages.
func (g *giving) Grow(pages int) {
	g.Evictor.Grow(pages)
	g.unwanted = grown(g.unwanted, pages+1)
	g.state = grown(g.state, pages)
}

// mark notes what gmt-reuse thinks of p, which is leaving T1.
func (g *giving) mark(p Page, unwanted bool) {
	if int(p) >= len(g.state) {
		return
	}
	g.state[p] = g.state[p]&^isUnwanted | isUnwanted*uint8(one(unwanted))
}

// Hit is the eviction from T1 of a page whose copy T2 kept, or a use of such a
// copy: what gmt-reuse thinks of it may have changed.
func (g *giving) Hit(p Page) {
	g.Evictor.Hit(p)
	switch g.state[p] {
	case isUnwanted:
		g.list(p)
	case isListed:
		g.unlist(p)
	}
}

// Insert adds p, which was evicted from T1.
func (g *giving) Insert(p Page) {
	g.Evictor.Insert(p)
	if g.state[p] == isUnwanted {
		g.list(p)
	}
	if rank, ok := g.owner.shadows.rank(p); ok {
		g.owner.duel.enter(rank, holdsT2)
	}
}

// Remove takes p out.
func (g *giving) Remove(p Page) {
	g.Evictor.Remove(p)
	g.left(p)
}

// Victim takes out the page that leaves for incoming.
func (g *giving) Victim(incoming Page, pins Pins) Page {
	v := None
	if oldest := g.unwanted[0].prev; g.first && oldest != 0 {
		if oldest = g.unwanted.lastUnpinned(0, 1, pins); oldest != 0 {
			v = Page(oldest - 1)
			g.Evictor.Remove(v)
		}
	}
	if v == None {
		if v = g.Evictor.Victim(incoming, pins); v == None {
			return None
		}
	}
	g.left(v)
	return v
}

// left notes that p is no longer in T2.
func (g *giving) left(p Page) {
	if g.state[p]&isListed != 0 {
		g.unlist(p)
	}
	if rank, ok := g.owner.shadows.rank(p); ok {
		g.owner.duel.leave(rank, holdsT2)
	}
}

func (g *giving) list(p Page) {
	g.unwanted.push(0, uint32(p)+1)
	g.state[p] |= isListed
}

func (g *giving) unlist(p Page) {
	g.unwanted.unlink(uint32(p) + 1)
	g.state[p] &^= isListed
}
