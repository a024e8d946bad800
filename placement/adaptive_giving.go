package placement

// giving is the T2 of a memory with an Adaptive. It orders pages as the evictor
// inside does, but while gmt-reuse is followed, two kinds of pages leave before
// any other, the one longest in its list first: clean copies of pages in T1,
// and pages that gmt-reuse would not have put there. A page whose copy was given
// up so goes to T2 when it leaves T1, as with its copy. 9 bytes a page.
type giving struct {
	Evictor
	owner *Adaptive
	lists links   // of copies and of unwanted pages
	state []uint8 // by page
	kept  int     // copies
	early bool    // they leave first
}

// The lists of giving, and their number.
const (
	copies = iota
	unwanted
	givingLists
)

// The bits of a page's state.
const (
	isUnwanted = 1 << iota // by the fate of its last eviction from T1
	isListed               // in a list
	isCopy                 // in the list of copies
	isHeld                 // in T2
	isOwed                 // its copy was given up early: a page with a copy goes to T2, whatever its fate
)

func newGiving(t2 Evictor, owner *Adaptive) *giving {
	return &giving{Evictor: t2, owner: owner, lists: newLinks(0, givingLists), early: owner.duel.leader == leadReuse}
}

// Grow prepares for pages below pages.
func (g *giving) Grow(pages int) {
	g.Evictor.Grow(pages)
	g.lists = grown(g.lists, pages+givingLists)
	g.state = grown(g.state, pages)
}

// room says whether T2 takes a page without losing one that is not in T1.
func (g *giving) room() bool { return g.kept > 0 || g.Len() < g.Cap() }

// mark notes whether gmt-reuse wants p, which is leaving T1, in T2, and says
// whether it is unwanted there.
func (g *giving) mark(p Page, unwanted bool) bool {
	if int(p) >= len(g.state) {
		return unwanted
	}
	unwanted = unwanted && g.state[p]&isOwed == 0
	g.state[p] = g.state[p]&^(isUnwanted|isOwed) | isUnwanted*uint8(one(unwanted))
	return unwanted
}

// used notes that p comes into T1: if T2 has it, it is a copy until T2 is told
// something else.
func (g *giving) used(p Page) {
	if int(p) >= len(g.state) || g.state[p]&(isHeld|isCopy) != isHeld {
		return
	}
	g.unlist(p)
	g.list(p, copies)
}

// Hit is the eviction from T1 of a page whose copy T2 kept, or a use of such a
// copy. What gmt-reuse thinks of the page may have changed.
func (g *giving) Hit(p Page) {
	g.Evictor.Hit(p)
	g.unlist(p)
	g.place(p)
}

// Insert adds p, which was evicted from T1.
func (g *giving) Insert(p Page) {
	g.Evictor.Insert(p)
	g.state[p] |= isHeld
	g.place(p)
	if rank, ok := g.owner.shadows.rank(p); ok {
		g.owner.duel.enter(rank, holdsT2)
	}
}

// place lists p if gmt-reuse would not have it.
func (g *giving) place(p Page) {
	if g.state[p]&isUnwanted != 0 {
		g.list(p, unwanted)
	}
}

// Remove takes p out.
func (g *giving) Remove(p Page) {
	g.Evictor.Remove(p)
	g.left(p)
}

// Victim takes out the page that leaves for incoming.
func (g *giving) Victim(incoming Page, pins Pins) Page {
	if g.early {
		for s := range uint32(givingLists) {
			if i := g.lists.lastUnpinned(s, givingLists, pins); i != s {
				v := Page(i - givingLists)
				g.Remove(v)
				if s == copies {
					g.state[v] |= isOwed
				}
				return v
			}
		}
	}
	v := g.Evictor.Victim(incoming, pins)
	if v != None {
		g.left(v)
	}
	return v
}

// left notes that p is no longer in T2.
func (g *giving) left(p Page) {
	g.unlist(p)
	g.state[p] &^= isHeld
	if rank, ok := g.owner.shadows.rank(p); ok {
		g.owner.duel.leave(rank, holdsT2)
	}
}

func (g *giving) list(p Page, in uint32) {
	g.lists.push(in, uint32(p)+givingLists)
	g.state[p] |= isListed
	if in == copies {
		g.state[p] |= isCopy
		g.kept++
	}
}

// unlist takes p out of its list, if it is in one.
func (g *giving) unlist(p Page) {
	if g.state[p]&isListed == 0 {
		return
	}
	g.lists.unlink(uint32(p) + givingLists)
	if g.state[p]&isCopy != 0 {
		g.kept--
	}
	g.state[p] &^= isListed | isCopy
}
