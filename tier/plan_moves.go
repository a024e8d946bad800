package tier

import (
	"errors"

	"github.com/tritier/tritier/placement"
)

// What the machine tells the plan while it decides a miss, in this order: open;
// leaving and second, leaving and demoted or bypassed (as often as an eviction
// takes); placed, or refused.

// ErrAllPinned is an access whose page cannot come in: every frame of T1 is pinned.
var ErrAllPinned = errors.New("every frame of T1 is pinned")

// open begins a miss.
func (p *Plan) open(page placement.Page, op Op, from Entry) {
	p.cur = Miss{Page: page, Op: op, Frame: NoPlace, Slot: NoPlace, from: from}
	p.cur.Victim.Page, p.cur.Second.Page = placement.None, placement.None
}

// leaving asks whether page, which its evictor has just let go, may leave the
// tier now. If the wave has to do with it, the wave is carried out first; when
// that failed, the page may be elsewhere than the machine thought: then it may not.
func (p *Plan) leaving(tier int, page placement.Page) bool {
	if !p.touched(page) {
		return true
	}
	p.out[tier] = page
	err := p.Finish()
	p.out[tier] = placement.None
	e := p.m.table[page]
	if tier == inT1 {
		return err == nil && e.State() == ResidentT1
	}
	return err == nil && (e.State() == ResidentT2 || e.T2Copy())
}

// second notes T2's victim. A clean one is forgotten at once, in a way that no
// failure takes back; a dirty one keeps its slot until the wave has been written.
func (p *Plan) second(page placement.Page, e Entry) {
	if page == p.cur.Page { // the copy that is to be read for this miss
		return
	}
	slot := p.loc[inT2][page]
	p.touch(page)
	if e.T2Copy() || !e.Dirty() {
		p.release(inT2, page)
		return
	}
	p.cur.Second = Victim{Page: page, Place: slot, Slot: NoPlace, Write: true, entry: e}
}

// demoted notes T1's victim on its way to T2.
func (p *Plan) demoted(page placement.Page, e Entry) {
	v := p.victim(page, e)
	v.toT2, v.saved = true, e.T2Copy()
	if !v.saved {
		v.Slot = p.take(inT2)
		p.loc[inT2][page] = v.Slot
	}
}

// bypassed notes T1's victim on its way past T2.
func (p *Plan) bypassed(page placement.Page, e Entry) {
	v := p.victim(page, e)
	if v.Write = e.Dirty(); v.Write {
		v.Slot = p.take(inT2)
	}
}

func (p *Plan) victim(page placement.Page, e Entry) *Victim {
	v := &p.cur.Victim
	*v = Victim{Page: page, Place: p.loc[inT1][page], Slot: NoPlace, entry: e}
	p.loc[inT1][page] = NoPlace
	p.touch(page)
	return v
}

// placed ends a miss: the page has a frame.
func (p *Plan) placed(op Op) {
	c := &p.cur
	if c.Victim.Page != placement.None {
		c.Frame = c.Victim.Place
	} else {
		c.Frame = p.take(inT1)
	}
	p.loc[inT1][c.Page] = c.Frame
	inT2now := c.from.State() == ResidentT2
	switch {
	case inT2now && op == Prefetch:
		c.class = asPrefetch
	case inT2now:
		c.class = asT2Hit
	case op == Prefetch:
		c.class = asPrefetchRead
	case op == Overwrite:
		c.class = asOverwrite
		return
	default:
		c.class = asFetch
	}
	if inT2now {
		c.Slot = p.loc[inT2][c.Page]
		return
	}
	c.Slot, c.Read, p.reads = p.take(inT2), true, true
}

// refused ends a miss that found no frame.
func (p *Plan) refused() {
	p.cur.class, p.cur.Err = asError, ErrAllPinned
	if p.broke != nil {
		p.cur.Err = p.broke
	}
}

// copyDropped notes that the clean copy of a page in T1 is stale. If the page came
// from it in this wave, the slot is still to be read.
func (p *Plan) copyDropped(page placement.Page) {
	if _, ok := p.missOf[page]; !ok {
		p.release(inT2, page)
	}
}

func (p *Plan) take(tier int) int32 {
	last := len(p.free[tier]) - 1
	place := p.free[tier][last]
	p.free[tier] = p.free[tier][:last]
	if tier == inT2 {
		p.taken++
	}
	return place
}

func (p *Plan) give(tier int, place int32) {
	if place != NoPlace {
		p.free[tier] = append(p.free[tier], place)
	}
}

// release frees the page's place in a tier.
func (p *Plan) release(tier int, page placement.Page) {
	p.give(tier, p.loc[tier][page])
	p.loc[tier][page] = NoPlace
}
