package tier

import (
	"errors"
	"fmt"

	"github.com/tritier/tritier/placement"
)

// The tiers as indices.
const (
	inT1 = iota
	inT2
)

// slotsPerMiss is the most slots that a miss takes: the buffer of its read, and
// where its victim goes.
const slotsPerMiss = 2

// NoPlace is the frame or slot of nothing.
const NoPlace int32 = -1

// A Plan drives a Machine for a memory that really moves bytes: it decides
// exactly as the simulator does, access by access, and gathers the moves in
// waves. Within a wave no page moves twice and no page that was accessed leaves
// T1, so that all reads, write-backs and copies of a wave can run at once:
//
//  1. T3 reads into slots; victims of T2 to T3; victims of T1 into slots, and
//     from there to T3 those that skip T2;
//  2. once these ended: slots into frames;
//  3. the caller's elements, from and to the frames.
//
// Only 1 can fail for a page alone, and Carry may return after it: 2 and 3 have to come
// before victims of T1 in the next wave's 1, and before reads into slots that they read from.
//
// An access that would break the rule first has the wave carried out. So the
// decisions and counts are those of one access after another, whatever the size
// of the tiers. A Plan is not safe for concurrent use.
type Plan struct {
	m      *Machine
	carry  func(*Wave) error
	wave   Wave
	cur    Miss              // the miss that is being planned
	out    [2]placement.Page // proposed victims that their evictors have let go
	loc    [2][]int32        // frame and slot of each page, or NoPlace
	free   [2][]int32        // frames and slots without a page
	rest   []int32           // and slots that the last wave freed: reads of the next one leave them alone
	half   int               // slots that a wave with reads may take
	taken  int               // by this one
	reads  bool              // it has some
	places [2]int            // frames and slots in all
	mark   []uint32          // number of the last wave that had to do with the page
	epoch  uint32
	missOf map[placement.Page]int // places in the wave's misses
	broke  error
}

// PlanConfig says what a Plan has to work with.
type PlanConfig struct {
	Config
	// Spares are slots of T2's memory beyond T2's frames: they hold what is on
	// its way to or from T3, and victims that change places with a page of T2.
	// At least 2. More make larger waves.
	Spares int
	// Carry carries a wave out. It sets the Err of each miss that failed alone,
	// calls Wave.Abort for what could not be written, and returns an error only
	// when the memory's content is no longer known: the plan then refuses work.
	Carry func(*Wave) error
}

var errNoCarry = errors.New("tier: a plan needs a function that carries waves out")

// NewPlan makes a plan whose pages are all Absent.
func NewPlan(c PlanConfig) (*Plan, error) {
	if c.Carry == nil {
		return nil, errNoCarry
	}
	if c.Spares < slotsPerMiss {
		return nil, fmt.Errorf("tier: %d spare slots: a miss needs %d", c.Spares, slotsPerMiss)
	}
	if c.Future != nil {
		return nil, errors.New("tier: a policy that needs the future cannot drive a live memory")
	}
	m, err := New(c.Config)
	if err != nil {
		return nil, err
	}
	p := &Plan{m: m, carry: c.Carry, epoch: 1, missOf: map[placement.Page]int{}}
	p.out = [2]placement.Page{placement.None, placement.None}
	p.cur.Victim.Page, p.cur.Second.Page = placement.None, placement.None
	slots := c.Spares
	if c.T2 != nil {
		slots += c.T2.Cap()
	}
	p.free[inT1], p.free[inT2] = countdown(c.T1.Cap()), countdown(slots)
	p.places = [2]int{c.T1.Cap(), slots}
	p.half = max(c.Spares/2, slotsPerMiss)
	m.plan = p
	p.grow(c.Pages)
	return p, nil
}

// countdown is n-1 to 0, so that the lowest place is taken first.
func countdown(n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(n - 1 - i)
	}
	return s
}

// Grow makes room for pages with an index below pages.
func (p *Plan) Grow(pages int) error {
	if err := p.m.Grow(pages); err != nil {
		return err
	}
	p.grow(pages)
	return nil
}

func (p *Plan) grow(pages int) {
	for len(p.mark) < pages {
		p.mark = append(p.mark, 0)
		p.loc[inT1] = append(p.loc[inT1], NoPlace)
		p.loc[inT2] = append(p.loc[inT2], NoPlace)
	}
}

// Pages is the number of pages known.
func (p *Plan) Pages() int { return len(p.mark) }

// Access plans one access. What came of it is in a wave's accesses under tag, once
// that wave was carried out: by this call for accesses before it, or by Finish.
func (p *Plan) Access(page placement.Page, op Op, tag int) error {
	if p.broke != nil {
		return p.broke
	}
	if p.m.table[page].State() != ResidentT1 && (p.touched(page) || p.full()) {
		if err := p.Finish(); err != nil {
			return err
		}
		if p.full() {
			p.rejoin()
		}
	}
	e := p.m.table[page]
	class := asHit
	if op == Prefetch {
		class = asNothing
	}
	if p.m.enter(page, op, e, 0) {
		p.m.t1.Hit(page)
	} else if op != Prefetch || e.State() != ResidentT1 {
		p.m.miss(page, op, p.m.done) // may carry out the accesses before this one
		class = p.cur.class
	}
	p.m.done++
	p.m.c.Accesses = p.m.now
	p.note(page, op, tag, class)
	return p.broke
}

// full says whether the wave has no slots for another miss. One with reads leaves half of
// the spare slots to the next, which then can begin its reads while what this one read is
// still being copied.
func (p *Plan) full() bool {
	return len(p.free[inT2]) < slotsPerMiss || p.reads && p.taken+slotsPerMiss > p.half
}

// rejoin makes the slots that the last wave freed free for all.
func (p *Plan) rejoin() {
	p.free[inT2], p.rest = append(p.free[inT2], p.rest...), p.rest[:0]
}

// note adds the access, and its miss if it was one, to the wave.
func (p *Plan) note(page placement.Page, op Op, tag int, class uint8) {
	w := &p.wave
	a := WaveAccess{Page: page, Op: op, Tag: tag, miss: -1, class: class}
	switch {
	case class == asError:
		a.Err = p.cur.Err
	case class < asHit: // a miss
		a.miss = len(w.Misses)
		w.Misses = append(w.Misses, p.cur)
		p.missOf[page] = a.miss
	case p.touched(page):
		if i, ok := p.missOf[page]; ok {
			a.miss = i
		}
	}
	w.Accesses = append(w.Accesses, a)
	p.touch(page)
}

// touched says whether the present wave moves or uses the page.
func (p *Plan) touched(page placement.Page) bool { return p.mark[page] == p.epoch }

func (p *Plan) touch(page placement.Page) { p.mark[page] = p.epoch }

// Frame is the frame of a page that is in T1, or NoPlace.
func (p *Plan) Frame(page placement.Page) int32 { return p.loc[inT1][page] }

// Entry is the page's entry in the table.
func (p *Plan) Entry(page placement.Page) Entry { return p.m.table[page] }

// Counters returns the counts so far, with FinalDirty as of now. Accesses of
// the wave that was not carried out yet count as if it succeeded.
func (p *Plan) Counters() Counters { return p.m.Counters() }

// Now is the virtual time: accesses made so far.
func (p *Plan) Now() uint64 { return p.m.now }

// Broken is the error that ended the plan, or nil.
func (p *Plan) Broken() error { return p.broke }
