package placement

// shadow is a model of T1 and T2 under one placer: it counts what package
// tier's machine would for the same accesses, without pins and failures, and
// moves nothing. Pages are numbered by their rank among those that it sees.
type shadow struct {
	pages   []uint8 // by page: the bits below
	t1, t2  Evictor // t2 is nil without a host tier
	free1   int
	free2   int
	placer  Placer
	reuse   *GMTReuse // the placer, if it learns
	keep    bool      // t2copy=keep
	offline bool      // the evictors know the future
	fetches uint64    // reads of T3 by accesses
	duel    *duel     // hears which pages are held
	who     uint8     // in it
}

// The bits of a shadow's page.
const (
	shadowT1    = 1 << iota
	shadowT2    // alone or, beside shadowT1, a clean copy
	shadowDirty // T3 lacks bytes
)

// newShadow makes a shadow of the memory of env for one in every of its pages.
func newShadow(s Spec, env Env, every int, keep bool, placer Placer) (*shadow, error) {
	h := &shadow{placer: placer, keep: keep, offline: s.NeedsFuture(), who: holdsOrder}
	if h.reuse, _ = placer.(*GMTReuse); h.reuse != nil {
		h.who = holdsReuse
	}
	env.T1Frames, env.T2Frames = miniature(env, every, s.t1.def.min, s.t2.def.min)
	env.Pages = 0
	var err error
	if h.t1, err = s.t1.build("T1", env.T1Frames, env.Seed^seedT1, env); err != nil {
		return nil, err
	}
	if env.T2Frames > 0 {
		if h.t2, err = s.t2.build("T2", env.T2Frames, env.Seed^seedT2, env); err != nil {
			return nil, err
		}
	}
	h.free1, h.free2 = env.T1Frames, env.T2Frames
	return h, nil
}

// miniature is the frames of both tiers for one in every page, and at least
// least1 and least2. Together they are a frame short: what exceeds the real
// tiers by a page must exceed these, and what fits into the real tiers is not a
// matter for shadows, since nothing leaves T2.
func miniature(env Env, every, least1, least2 int) (t1, t2 int) {
	if every == 1 {
		return env.T1Frames, env.T2Frames
	}
	t1 = max((env.T1Frames+every/2)/every, least1)
	if env.T2Frames > 0 {
		t2 = max((env.T1Frames+env.T2Frames)/every-1-t1, least2)
	}
	return t1, t2
}

// frames is the number of frames of both tiers.
func (h *shadow) frames() int {
	n := h.t1.Cap()
	if h.t2 != nil {
		n += h.t2.Cap()
	}
	return n
}

func (h *shadow) grow(pages int) {
	h.pages = grown(h.pages, pages)
	h.t1.Grow(pages)
	if h.t2 != nil {
		h.t2.Grow(pages)
	}
	if h.reuse != nil {
		h.reuse.pages = grown(h.reuse.pages, pages)
	}
}

// access runs one access and says whether it found p in T1, and whether it
// fetched p from T3.
func (h *shadow) access(now uint64, p Page, u Use) (inT1, fetched bool) {
	e := h.pages[p]
	if h.offline && e&(shadowT1|shadowT2) == shadowT1|shadowT2 {
		h.t2.Hit(p)
	}
	if e&shadowT1 == 0 {
		return false, h.miss(now, p, u)
	}
	if u == UsePrefetch {
		return true, false
	}
	if u != UseRead {
		if e&shadowT2 != 0 { // the copy is stale
			h.leaveT2(p)
		}
		h.pages[p] = h.pages[p] | shadowDirty
	}
	h.t1.Hit(p)
	return true, false
}

// miss brings p into T1.
func (h *shadow) miss(now uint64, p Page, u Use) (fetched bool) {
	if h.reuse != nil && u != UsePrefetch {
		h.reuse.Miss(now, p)
	}
	e := h.pages[p]
	if fetched = e&shadowT2 == 0 && (u == UseRead || u == UseWrite); fetched {
		h.fetches++
	}
	if e&shadowT2 != 0 && !(h.keep && e&shadowDirty == 0 && (u == UseRead || u == UsePrefetch)) {
		h.leaveT2(p)
	}
	// p counts as in T1 already: the victim of T2 may be its own copy.
	h.pages[p] |= shadowT1
	if h.duel != nil {
		h.duel.enter(p, h.who)
	}
	if h.free1 == 0 {
		h.evictT1(now, p)
	}
	if u == UseWrite || u == UseOverwrite {
		h.pages[p] |= shadowDirty
	}
	h.t1.Insert(p)
	h.free1--
	return fetched
}

// leaveT2 frees p's slot.
func (h *shadow) leaveT2(p Page) {
	h.t2.Remove(p)
	h.free2++
	h.pages[p] &^= shadowT2
}

// evictT1 makes a frame free for incoming.
func (h *shadow) evictT1(now uint64, incoming Page) {
	v := Victim{Now: now}
	for {
		v.Page = h.t1.Victim(incoming, nil)
		fate := ToT2
		if h.reuse != nil {
			v.Dirty = h.pages[v.Page]&shadowDirty != 0
			fate = h.reuse.Fate(v)
		}
		if fate == Keep && !v.Again {
			h.t1.Insert(v.Page)
			v.Again = true
			continue
		}
		h.free1++
		h.pages[v.Page] &^= shadowT1
		h.place(v.Page, fate)
		return
	}
}

// place puts T1's victim where it goes. A clean copy in T2 is then the page.
func (h *shadow) place(v Page, fate Fate) {
	switch {
	case h.pages[v]&shadowT2 != 0:
		h.t2.Hit(v)
	case h.t2 == nil || fate == ToT3:
		h.forget(v)
	default:
		if h.free2 == 0 {
			h.evictT2(v)
		}
		h.t2.Insert(v)
		h.free2--
		h.pages[v] |= shadowT2
	}
}

// evictT2 makes a slot free for incoming.
func (h *shadow) evictT2(incoming Page) {
	v := h.t2.Victim(incoming, nil)
	h.free2++
	h.pages[v] &^= shadowT2
	if h.pages[v]&shadowT1 == 0 {
		h.forget(v)
	}
}

// forget notes that v is on T3 alone.
func (h *shadow) forget(v Page) {
	h.pages[v] = 0
	if h.duel != nil {
		h.duel.leave(v, h.who)
	}
}

// twin is a gmt-reuse for a shadow that sees one in every pages. Fits come from
// the accesses alone, not from what the memory makes of them, so that it takes
// over those of g.
func (g *GMTReuse) twin(p GMTReuseParams, every int) *GMTReuse {
	return &GMTReuse{params: g.params, starve: newStarvation(max(p.Window/every, 1), p.Starve)}
}

// follow takes over of's last trusted fit.
func (g *GMTReuse) follow(of *GMTReuse) {
	if g.params.Version != of.params.Version {
		g.params = of.params
	}
}
