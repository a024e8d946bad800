package placement

// MinFramesARC is the smallest number of frames that ARC accepts.
const MinFramesARC = 1

// ARC is the adaptive replacement cache (Megiddo and Modha, FAST 2003, figure
// 4). T1 holds pages seen once, T2 pages seen again; the ghost lists B1 and B2
// remember what left them, and a miss that B1 or B2 remembers moves target,
// the share of T1, towards the list that was wronged. The target is a real
// number, as are its steps, the quotients of the ghost lists' sizes.
//
// One miss of the figure is a Victim, if the tier is full, and an Insert. The
// target moves once per miss: in Victim, or else in Insert. A victim that comes
// back before any other page is inserted was kept: it enters T1 as a new page,
// and no ghost of it counts. A page that Remove takes out leaves no ghost.
// 9 bytes a page.
type ARC struct {
	nodes   links   // page p at p+arcBase; sentinels are the list numbers
	list    []uint8 // the list that a page is in, or arcNone
	size    [arcBase]int
	target  float64 // the share of T1, in pages
	frames  int
	adapted Page // the incoming page for which Victim moved the target
	victim  Page // the last victim, until another page is inserted
}

// The lists of ARC.
const (
	arcNone = iota
	arcT1
	arcT2
	arcB1
	arcB2
	arcBase // node index of page 0
)

// NewARC makes an ARC of frames frames for pages below pages.
func NewARC(frames, pages int) (*ARC, error) {
	if err := checkSize("arc", frames, MinFramesARC, pages); err != nil {
		return nil, err
	}
	return &ARC{
		nodes: newLinks(pages, arcBase), list: make([]uint8, pages),
		frames: frames, adapted: None, victim: None,
	}, nil
}

// Name returns arc.
func (a *ARC) Name() string { return "arc" }

// Cap returns the number of frames.
func (a *ARC) Cap() int { return a.frames }

// Len returns the number of resident pages.
func (a *ARC) Len() int { return a.size[arcT1] + a.size[arcT2] }

// Grow prepares for pages below pages.
func (a *ARC) Grow(pages int) {
	a.nodes = grown(a.nodes, pages+arcBase)
	a.list = grown(a.list, pages)
}

// Hit makes p the most recent page of T2 (case I).
func (a *ARC) Hit(p Page) {
	i := uint32(p) + arcBase
	if a.list[p] == arcT1 {
		a.list[p] = arcT2
		a.size[arcT1]--
		a.size[arcT2]++
	}
	a.nodes.unlink(i)
	a.nodes.push(arcT2, i)
}

// Insert adds p to T2 if a ghost remembers it (cases II and III), else to T1
// (case IV).
func (a *ARC) Insert(p Page) {
	g := a.list[p]
	kept := p == a.victim
	a.victim = None
	if g == arcNone || kept {
		if g != arcNone {
			a.drop(uint32(p) + arcBase)
		}
		a.trim()
		a.push(arcT1, p)
		return
	}
	if p != a.adapted {
		a.adapt(g)
	}
	a.adapted = None
	a.drop(uint32(p) + arcBase)
	a.push(arcT2, p)
}

// trim makes room in the ghost lists for one page more in T1, so that T1 and
// B1 together never exceed the frames, and all lists never twice as many.
func (a *ARC) trim() {
	l1 := a.size[arcT1] + a.size[arcB1]
	switch {
	case l1 >= a.frames && a.size[arcB1] > 0:
		a.drop(a.nodes[arcB1].prev)
	case l1+a.size[arcT2]+a.size[arcB2] >= 2*a.frames && a.size[arcB2] > 0:
		a.drop(a.nodes[arcB2].prev)
	}
}

// adapt moves the target after a miss that ghost list g remembers.
func (a *ARC) adapt(g uint8) {
	b1, b2 := float64(a.size[arcB1]), float64(a.size[arcB2])
	if g == arcB1 {
		a.target = min(a.target+max(b2/b1, 1), float64(a.frames))
	} else {
		a.target = max(a.target-max(b1/b2, 1), 0)
	}
}

// Victim is REPLACE of the figure: it moves the oldest page of T1 to B1 or the
// oldest of T2 to B2. When pins hold the whole of the list that should give a
// page, the other one does.
func (a *ARC) Victim(incoming Page, pins Pins) Page {
	before, g := a.target, uint8(arcNone)
	if int(incoming) < len(a.list) {
		g = a.list[incoming]
	}
	if g >= arcB1 && incoming != a.adapted {
		a.adapt(g)
	}
	from := uint32(arcT2)
	if t1 := float64(a.size[arcT1]); t1 > a.target || t1 == a.target && g == arcB2 {
		from = arcT1
	}
	i := a.nodes.lastUnpinned(from, arcBase, pins)
	if i == from {
		from = arcT1 + arcT2 - from
		if i = a.nodes.lastUnpinned(from, arcBase, pins); i == from {
			a.target = before
			return None
		}
	}
	if g >= arcB1 {
		a.adapted = incoming
	}
	v := Page(i - arcBase)
	a.drop(i)
	a.push(from+arcB1-arcT1, v)
	a.victim = v
	return v
}

// Remove takes p out; no ghost remembers it.
func (a *ARC) Remove(p Page) { a.drop(uint32(p) + arcBase) }

// drop takes node i out of its list.
func (a *ARC) drop(i uint32) {
	p := i - arcBase
	a.size[a.list[p]]--
	a.list[p] = arcNone
	a.nodes.unlink(i)
}

// push makes p the most recent page of list s.
func (a *ARC) push(s uint32, p Page) {
	a.size[s]++
	a.list[p] = uint8(s)
	a.nodes.push(s, uint32(p)+arcBase)
}
