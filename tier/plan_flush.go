package tier

import (
	"fmt"
	"slices"

	"github.com/tritier/tritier/placement"
)

// Place is where the only copy of a dirty page is.
type Place struct {
	Page  placement.Page
	InT2  bool
	Index int32 // frame, or slot of T2
}

// Dirty lists the pages that T3 lacks, in the order of their numbers, from page
// number from on, at most len(list), and returns how many. The wave must be finished.
func (p *Plan) Dirty(from placement.Page, list []Place) int {
	n := 0
	for i := int(from); i < len(p.m.table) && n < len(list); i++ {
		e := p.m.table[i]
		if !e.Dirty() {
			continue
		}
		list[n] = p.place(placement.Page(i), e)
		n++
	}
	return n
}

func (p *Plan) place(page placement.Page, e Entry) Place {
	at := Place{Page: page, InT2: e.State() == ResidentT2, Index: p.loc[inT1][page]}
	if at.InT2 {
		at.Index = p.loc[inT2][page]
	}
	return at
}

// Unsaved calls f with every page that T3 may lack: those that are dirty, and, when
// the plan is broken, dirty victims of the wave that was not finished.
func (p *Plan) Unsaved(f func(page placement.Page)) {
	told := map[placement.Page]bool{}
	tell := func(page placement.Page) {
		if page != placement.None && !told[page] {
			told[page] = true
			f(page)
		}
	}
	for i, e := range p.m.table {
		if e.Dirty() {
			tell(placement.Page(i))
		}
	}
	for _, m := range p.wave.Misses {
		for _, v := range []Victim{m.Victim, m.Second} {
			if v.entry.Dirty() {
				tell(v.Page)
			}
		}
	}
}

// Kept calls f with every dirty page and where its bytes are, for a plan that is broken too,
// if the Carry that broke it had filled no frame: a victim of its wave is in the frame that it
// was to leave then, and what was to come into T1 has gained nothing that T3 or its slot lacks.
func (p *Plan) Kept(f func(Place)) {
	moved := map[placement.Page]bool{}
	keep := func(page placement.Page, was Entry, inT2 bool, at int32) {
		if page == placement.None {
			return
		}
		if moved[page] = true; was.Dirty() {
			f(Place{Page: page, InT2: inT2, Index: at})
		}
	}
	for i := range p.wave.Misses {
		m := &p.wave.Misses[i]
		keep(m.Page, m.from, true, m.Slot)
		keep(m.Victim.Page, m.Victim.entry, false, m.Victim.Place)
		keep(m.Second.Page, m.Second.entry, true, m.Second.Place)
	}
	for page, e := range p.m.table {
		if x := placement.Page(page); e.Dirty() && !moved[x] {
			f(p.place(x, e))
		}
	}
}

// Cleaned notes that T3 has the page's bytes. Nothing may have written to the
// page since they were copied.
func (p *Plan) Cleaned(page placement.Page) { p.m.table[page] &^= dirtyBit }

// Spare lends up to len(list) free slots as buffers and returns how many. Give
// them back, with Return, before the next access. The wave must be finished.
func (p *Plan) Spare(list []int32) int {
	p.rejoin()
	n := min(len(list), len(p.free[inT2])-p.unused())
	for i := range n {
		list[i] = p.take(inT2)
	}
	p.taken = 0 // by no wave
	return n
}

// unused is how many of the free slots belong to T2's frames.
func (p *Plan) unused() int { return p.m.free2 }

// Return gives back what Spare has lent.
func (p *Plan) Return(list []int32) {
	for i := len(list) - 1; i >= 0; i-- {
		p.give(inT2, list[i])
	}
}

// Forget drops a page from both tiers, dirty or not: its array is no more. The
// wave must be finished.
func (p *Plan) Forget(page placement.Page) {
	m := p.m
	e := m.table[page]
	if e.State() == ResidentT1 {
		m.t1.Remove(page)
		m.free1++
		p.release(inT1, page)
	}
	if e.State() == ResidentT2 || e.T2Copy() {
		m.t2.Remove(page)
		m.free2++
		p.release(inT2, page)
	}
	m.table[page] = e.forgotten()
}

// Check proves the invariants of the table and of the places: every page that is
// in a tier has a place of its own there, and every other place is free. The wave
// must be finished.
func (p *Plan) Check() error {
	if len(p.wave.Accesses) > 0 {
		return fmt.Errorf("tier: %d accesses are planned and not carried out", len(p.wave.Accesses))
	}
	if err := p.m.Check(); err != nil {
		return err
	}
	for tier := range p.loc {
		if err := p.checkPlaces(tier); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) checkPlaces(tier int) error {
	owner := map[int32]placement.Page{}
	free := p.free[tier]
	if tier == inT2 {
		free = slices.Concat(free, p.rest)
	}
	for _, f := range free {
		if _, twice := owner[f]; twice || f < 0 {
			return fmt.Errorf("tier: place %d of T%d is free twice", f, tier+1)
		}
		owner[f] = placement.None
	}
	for i, at := range p.loc[tier] {
		e := p.m.table[i]
		here := e.State() == ResidentT1
		if tier == inT2 {
			here = e.State() == ResidentT2 || e.T2Copy()
		}
		if here != (at != NoPlace) {
			return fmt.Errorf("tier: page %d (%v, copy %v) has place %d of T%d", i, e.State(), e.T2Copy(), at, tier+1)
		}
		if !here {
			continue
		}
		if q, taken := owner[at]; taken {
			return fmt.Errorf("tier: place %d of T%d belongs to page %d and to %d", at, tier+1, i, q)
		}
		owner[at] = placement.Page(i)
	}
	if len(owner) != p.places[tier] {
		return fmt.Errorf("tier: %d places of T%d are accounted for, of %d", len(owner), tier+1, p.places[tier])
	}
	return nil
}
