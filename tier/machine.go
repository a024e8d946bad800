package tier

import (
	"errors"
	"fmt"
	"math"

	"github.com/tritier/tritier/placement"
)

// Config describes a Machine.
type Config struct {
	Pages  int               // pages known at the start; Grow adds more
	T1     placement.Evictor // required
	T2     placement.Evictor // nil: no host tier, a fate of T2 becomes T3
	Placer placement.Placer  // required; not consulted without T2 unless it observes
	// KeepT2Copy leaves the clean copy of a promoted page in T2 until T1
	// dirties it or T2 needs the slot (GMT). False: T2 is exclusive.
	KeepT2Copy bool
	Future     *placement.Future // for belady: the whole trace, else nil
	Pins       placement.Pins    // nil: nothing is pinned
}

// Machine is the pure core of a three-tier memory: page table, evictors,
// placer and counters, with moves that take no time. One access is one tick of
// virtual time. It does no I/O, has no clock and is not safe for concurrent
// use. The simulator drives it with whole blocks of accesses.
type Machine struct {
	table  []Entry
	t1, t2 placement.Evictor
	free1  int // frames of T1 without a page
	free2  int // slots of T2 without a page or a copy
	placer placement.Placer
	always placement.Fate     // of every victim, if steady
	steady bool               // placer need not be asked
	obs    placement.Observer // placer, if it observes
	models placement.Watcher  // placer, if it watches
	keep   bool
	future *placement.Future
	pins   placement.Pins
	now    uint64 // virtual time: accesses so far
	done   uint64 // trace positions run so far: accesses and prefetches
	c      Counters
	run    func(m *Machine, accs []Access)
	onMiss func(pos uint64) uint64
	watch  uint64 // trace position from which onMiss is told
	plan   *Plan  // hears of every move; nil when nothing really moves
	step   *Step  // the miss under way, if Step runs it
}

// New makes a machine with every page Absent.
func New(c Config) (*Machine, error) {
	if c.T1 == nil || c.Placer == nil {
		return nil, errors.New("tier: a machine needs an evictor for T1 and a placer")
	}
	m := &Machine{t1: c.T1, t2: c.T2, placer: c.Placer, watch: math.MaxUint64, keep: c.KeepT2Copy, future: c.Future, pins: c.Pins}
	m.obs, _ = c.Placer.(placement.Observer)
	m.models, _ = c.Placer.(placement.Watcher)
	if p, ok := c.Placer.(placement.Steady); ok && m.obs == nil {
		m.steady, m.always = true, p.Always()
	}
	if c.T2 == nil && m.obs == nil {
		m.steady, m.always = true, placement.ToT3 // as the two-tier loops have it
	}
	if m.free1 = c.T1.Cap(); c.T2 != nil {
		m.free2 = c.T2.Cap()
	}
	m.run = m.loop()
	return m, m.Grow(c.Pages)
}

// Grow makes room for pages with an index below pages. It never shrinks.
func (m *Machine) Grow(pages int) error {
	if pages > placement.MaxPages {
		return fmt.Errorf("tier: %d pages, but a machine holds at most %d: use larger pages", pages, placement.MaxPages)
	}
	old := len(m.table)
	if pages <= old {
		return nil
	}
	m.table = extend(m.table, pages)
	m.t1.Grow(pages)
	m.placer.Grow(pages)
	if m.t2 != nil {
		m.t2.Grow(pages)
	}
	if m.obs != nil {
		for p := old; p < pages; p++ {
			if m.obs.Sampled(placement.Page(p)) {
				m.table[p] |= sampleBit
			}
		}
	}
	return nil
}

// extend lengthens s to n entries, growing its array by a quarter at a time.
func extend(s []Entry, n int) []Entry {
	if n <= cap(s) {
		return s[:n]
	}
	grown := make([]Entry, n, max(n, cap(s)+cap(s)/4))
	copy(grown, s)
	return grown
}

// OnMiss has f called with the trace position of the first access at or after
// from that finds its page in neither T1 nor T2. f returns the position from
// which it wants to hear of the next one.
func (m *Machine) OnMiss(from uint64, f func(pos uint64) uint64) { m.onMiss, m.watch = f, from }

// Run performs accs in order. Every page must be below the count given to New
// or Grow. An access that finds every frame pinned counts as an error and
// leaves its page where it was.
func (m *Machine) Run(accs []Access) { m.run(m, accs) }

// Counters returns the counts so far, with FinalDirty as of now.
func (m *Machine) Counters() Counters {
	c := m.c
	for _, e := range m.table {
		if e.Dirty() {
			c.FinalDirty++
		}
	}
	return c
}

// Position is how much of the trace has been run: accesses and prefetches.
func (m *Machine) Position() uint64 { return m.done }

// Now is the virtual time: accesses performed so far.
func (m *Machine) Now() uint64 { return m.now }

// miss brings p, which is not in T1, into T1: the one place where the three
// tiers meet. Virtual time has been advanced to this access already.
func (m *Machine) miss(p placement.Page, op Op, pos uint64) {
	if m.obs != nil && op != Prefetch {
		m.obs.Miss(m.now, p)
	}
	from := m.table[p]
	e := from
	if m.plan != nil {
		m.plan.open(p, op, from)
	}
	if from.State() == ResidentT2 {
		e = m.leaveT2(p, from, op)
	}
	if m.free1 == 0 {
		// p has left T2 already, so that its slot is free for the victim: the
		// two pages change places.
		m.table[p] = e.with(Filling)
		if !m.evictT1(p) {
			m.fail(p, from, m.table[p], op)
			return
		}
		e = m.table[p]
	}
	m.count(from, op, pos)
	e = e.filled()
	if op == Write || op == Overwrite {
		e |= dirtyBit
	}
	m.table[p] = e
	m.t1.Insert(p)
	m.free1--
	if m.plan != nil {
		m.plan.placed(op)
	}
}

// count adds one served miss to the counters.
func (m *Machine) count(from Entry, op Op, pos uint64) {
	inT2 := from.State() == ResidentT2
	switch {
	case op == Prefetch:
		m.c.Prefetches++
		if inT2 {
			return
		}
		m.c.PrefetchReads++
	case inT2:
		m.c.T2Hits++
		return
	case op == Overwrite:
		m.c.Overwrites++
	default:
		m.c.T3Fetches++
	}
	if pos >= m.watch && op != Prefetch {
		m.watch = m.onMiss(pos)
	}
}

// fail undoes a miss that found no frame: p is again what it was, at the young
// end of T2 if it had left it.
func (m *Machine) fail(p placement.Page, from, now Entry, op Op) {
	if op != Prefetch {
		m.c.Errors++
	}
	if from.State() == ResidentT2 && !now.T2Copy() {
		m.t2.Insert(p)
		m.free2--
	}
	m.table[p] = from
	if m.plan != nil {
		m.plan.refused()
	}
}

// leaveT2 frees p's slot, unless its clean copy may stay there.
func (m *Machine) leaveT2(p placement.Page, e Entry, op Op) Entry {
	if m.keep && !e.Dirty() && (op == Read || op == Prefetch) {
		return e | copyBit
	}
	m.t2.Remove(p)
	m.free2++
	return e
}

// evictT1 makes one T1 frame free for incoming; false if all are pinned.
func (m *Machine) evictT1(incoming placement.Page) bool {
	v := placement.Victim{Now: m.now}
	for {
		v.Page = m.t1.Victim(incoming, m.pins)
		if v.Page == placement.None {
			return false
		}
		if m.plan != nil && !m.plan.leaving(inT1, v.Page) {
			if m.plan.broke != nil || m.free1 > 0 {
				return m.plan.broke == nil
			}
			continue
		}
		e, fate := m.table[v.Page], m.always
		if !m.steady {
			v.Dirty = e.Dirty()
			fate = m.placer.Fate(v)
		}
		if fate == placement.Keep && !v.Again {
			m.c.Keeps++
			m.t1.Insert(v.Page)
			v.Again = true
			continue
		}
		m.c.Evictions++
		m.free1++
		if m.t2 != nil && (fate != placement.ToT3 || e.T2Copy()) {
			m.demote(v.Page, e)
		} else {
			m.bypass(v.Page, e)
		}
		return true
	}
}

// demote moves T1's victim v to T2. A clean copy that is still there saves the
// move, and is then the page.
func (m *Machine) demote(v placement.Page, e Entry) {
	m.c.Demotions++
	if m.step != nil {
		m.step.Victim, m.step.Saved, m.step.Copied = v, e.T2Copy(), !e.T2Copy()
	}
	if e.T2Copy() {
		m.c.CopiesSaved++
		m.t2.Hit(v)
		m.table[v] = e.demoted()
		if m.plan != nil {
			m.plan.demoted(v, e)
		}
		return
	}
	if m.free2 == 0 {
		m.evictT2(v)
	}
	m.t2.Insert(v)
	m.free2--
	m.table[v] = e.demoted()
	if m.plan != nil {
		m.plan.demoted(v, e)
	}
}

// evictT2 makes one T2 slot free. Nothing in T2 is pinned: pins are on T1.
func (m *Machine) evictT2(incoming placement.Page) {
	u := m.t2.Victim(incoming, nil)
	for m.plan != nil && !m.plan.leaving(inT2, u) {
		if m.plan.broke != nil || m.free2 > 0 {
			return
		}
		u = m.t2.Victim(incoming, nil)
	}
	m.c.T2Evictions++
	m.free2++
	e := m.table[u]
	if m.plan != nil {
		m.plan.second(u, e)
	}
	if m.step != nil {
		m.step.Second, m.step.WriteSecond = u, e.Dirty() && !e.T2Copy()
	}
	if e.T2Copy() {
		m.table[u] = e &^ copyBit // the page itself is in T1
		return
	}
	if e.Dirty() {
		m.c.Writebacks++
	}
	m.table[u] = e.forgotten()
}

// bypass lets T1's victim v skip T2.
func (m *Machine) bypass(v placement.Page, e Entry) {
	m.c.Bypasses++
	if m.step != nil {
		m.step.Victim, m.step.Write = v, e.Dirty()
	}
	if e.Dirty() {
		m.c.Writebacks++
	}
	m.table[v] = e.forgotten()
	if m.plan != nil {
		m.plan.bypassed(v, e)
	}
}

// hitWrite marks a page in T1 dirty; a clean copy in T2 is stale from now on.
func (m *Machine) hitWrite(p placement.Page, e Entry) {
	if e.T2Copy() {
		m.t2.Remove(p)
		m.free2++
		e &^= copyBit
		if m.plan != nil {
			m.plan.copyDropped(p)
		}
	}
	m.table[p] = e | dirtyBit
}
