package tier

import "github.com/tritier/tritier/placement"

// Finish has the accesses planned so far carried out. An error means that the
// memory's content is no longer known; an access that failed alone has its error
// in the wave.
func (p *Plan) Finish() error {
	if p.broke != nil {
		return p.broke
	}
	w := &p.wave
	if len(w.Accesses) == 0 {
		return nil
	}
	if err := p.carry(w); err != nil {
		p.broke = err
		return err
	}
	w.Resolve()
	p.recount()
	// Backwards, so that each step back finds the tiers as they were after it.
	for i := len(w.Misses) - 1; i >= 0; i-- {
		if m := &w.Misses[i]; m.undone {
			p.undo(m)
		}
	}
	p.rejoin() // what the wave before freed
	kept := len(p.free[inT2])
	for i := range w.Misses {
		if m := &w.Misses[i]; !m.undone {
			p.commit(m)
		}
	}
	p.rest = append(p.rest, p.free[inT2][kept:]...)
	p.free[inT2] = p.free[inT2][:kept]
	p.taken, p.reads = 0, false
	w.reset()
	clear(p.missOf)
	if p.epoch++; p.epoch == 0 { // wrapped: old marks would look new
		clear(p.mark)
		p.epoch = 1
	}
	return nil
}

// commit frees what a miss needed only on the way.
func (p *Plan) commit(m *Miss) {
	if v := &m.Victim; v.Page != placement.None && !v.toT2 {
		p.give(inT2, v.Slot)
	}
	if u := &m.Second; u.Page != placement.None {
		p.release(inT2, u.Page)
	}
	switch {
	case m.Read:
		p.give(inT2, m.Slot)
	case m.Slot != NoPlace && !p.m.table[m.Page].T2Copy():
		p.release(inT2, m.Page)
	}
	if m.Err != nil {
		p.forget(m.Page)
	}
}

// forget makes a page absent whose fill failed.
func (p *Plan) forget(page placement.Page) {
	mach := p.m
	p.removeT1(page)
	p.release(inT1, page)
	mach.table[page] = mach.table[page].forgotten()
}

// removeT1 takes a page out of T1's books; its evictor may have let it go already.
func (p *Plan) removeT1(page placement.Page) {
	if p.out[inT1] != page {
		p.m.t1.Remove(page)
	}
	p.m.free1++
}

func (p *Plan) insertT2(page placement.Page) {
	p.m.t2.Insert(page)
	p.m.free2--
}

// undo takes a miss back whose moves were not made: every page is again where it
// was, at the young end of its tier.
func (p *Plan) undo(m *Miss) {
	mach := p.m
	now := mach.table[m.Page]
	p.removeT1(m.Page)
	p.loc[inT1][m.Page] = NoPlace
	if m.Read {
		p.give(inT2, m.Slot)
	}
	p.undoVictim(m)
	if u := &m.Second; u.Page != placement.None {
		p.insertT2(u.Page)
		mach.table[u.Page] = u.entry
		mach.c.T2Evictions--
		mach.c.Writebacks--
	}
	if m.from.State() == ResidentT2 && !now.T2Copy() {
		p.insertT2(m.Page)
	}
	mach.table[m.Page] = m.from
}

func (p *Plan) undoVictim(m *Miss) {
	mach, v := p.m, &m.Victim
	if v.Page == placement.None {
		p.give(inT1, m.Frame)
		return
	}
	// A saved copy that T2's evictor has let go meanwhile stays a copy here: the
	// eviction that waits for this wave goes on and takes it.
	if v.toT2 && !v.saved {
		if p.out[inT2] != v.Page {
			mach.t2.Remove(v.Page)
		}
		mach.free2++
		p.loc[inT2][v.Page] = NoPlace
	}
	p.give(inT2, v.Slot)
	mach.t1.Insert(v.Page)
	mach.free1--
	mach.table[v.Page] = v.entry
	p.loc[inT1][v.Page] = v.Place
	mach.c.Evictions--
	switch {
	case v.saved:
		mach.c.Demotions--
		mach.c.CopiesSaved--
	case v.toT2:
		mach.c.Demotions--
	default:
		mach.c.Bypasses--
		if v.Write {
			mach.c.Writebacks--
		}
	}
}

// recount counts the accesses that failed as errors.
func (p *Plan) recount() {
	c := &p.m.c
	for i := range p.wave.Accesses {
		a := &p.wave.Accesses[i]
		if a.Err == nil || a.class == asError {
			continue
		}
		switch a.class {
		case asHit:
			c.T1Hits--
		case asT2Hit:
			c.T2Hits--
		case asFetch:
			c.T3Fetches--
		case asOverwrite:
			c.Overwrites--
		case asPrefetchRead:
			c.PrefetchReads--
			c.Prefetches--
		case asPrefetch:
			c.Prefetches--
		}
		if a.Op != Prefetch {
			c.Errors++
		}
	}
}
