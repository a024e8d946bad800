package tier

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tritier/tritier/placement"
)

// queue is an obviously correct evictor: pages in a slice, oldest first.
type queue struct {
	cap   int
	lru   bool // a hit makes a page the youngest
	pages []placement.Page
}

func (q *queue) hit(p placement.Page) {
	if q.lru {
		q.remove(p)
		q.pages = append(q.pages, p)
	}
}
func (q *queue) remove(p placement.Page) {
	q.pages = slices.DeleteFunc(q.pages, func(x placement.Page) bool { return x == p })
}
func (q *queue) has(p placement.Page) bool { return slices.Contains(q.pages, p) }
func (q *queue) pop() placement.Page {
	p := q.pages[0]
	q.pages = q.pages[1:]
	return p
}

// model is DESIGN's semantics written down a second time, slowly: no page
// table, no states, sets and queues only.
type model struct {
	t1, t2 *queue // t2 nil: no host tier
	bypass bool
	keep   bool
	dirty  map[placement.Page]bool
	c      Counters
}

func (m *model) inT2(p placement.Page) bool { return m.t2 != nil && m.t2.has(p) }

func (m *model) access(p placement.Page, op Op) {
	hit := m.t1.has(p)
	if op == Prefetch {
		if hit {
			return
		}
		m.c.Prefetches++
		if !m.inT2(p) {
			m.c.PrefetchReads++
		}
	} else {
		m.c.Accesses++
		switch {
		case hit:
			m.c.T1Hits++
		case m.inT2(p):
			m.c.T2Hits++
		case op == Overwrite:
			m.c.Overwrites++
		default:
			m.c.T3Fetches++
		}
	}
	writes := op == Write || op == Overwrite
	if m.inT2(p) && (!m.keep || writes || m.dirty[p]) {
		m.t2.remove(p)
	}
	if hit {
		m.t1.hit(p)
	} else {
		if len(m.t1.pages) == m.t1.cap {
			m.evict(m.t1.pop())
		}
		m.t1.pages = append(m.t1.pages, p)
	}
	if writes {
		m.dirty[p] = true
	}
}

func (m *model) evict(v placement.Page) {
	m.c.Evictions++
	if m.inT2(v) {
		m.c.Demotions++
		m.c.CopiesSaved++
		m.t2.hit(v)
		return
	}
	if m.t2 == nil || m.bypass {
		m.c.Bypasses++
		m.toSSD(v)
		return
	}
	m.c.Demotions++
	if len(m.t2.pages) == m.t2.cap {
		u := m.t2.pop()
		m.c.T2Evictions++
		if !m.t1.has(u) {
			m.toSSD(u)
		}
	}
	m.t2.pages = append(m.t2.pages, v)
}

func (m *model) toSSD(p placement.Page) {
	if m.dirty[p] {
		m.c.Writebacks++
		delete(m.dirty, p)
	}
}

func (m *model) counters() Counters {
	c := m.c
	c.FinalDirty = uint64(len(m.dirty))
	return c
}

// setup is one configuration that machine and model both run.
type setup struct {
	t1LRU, t2LRU, bypass, keep bool
	t1, t2                     int
}

func (s setup) String() string {
	return fmt.Sprintf("t1LRU=%v,t2LRU=%v,bypass=%v,keep=%v,t1=%d,t2=%d", s.t1LRU, s.t2LRU, s.bypass, s.keep, s.t1, s.t2)
}

func (s setup) model() *model {
	m := &model{t1: &queue{cap: s.t1, lru: s.t1LRU}, bypass: s.bypass, keep: s.keep, dirty: map[placement.Page]bool{}}
	if s.t2 > 0 {
		m.t2 = &queue{cap: s.t2, lru: s.t2LRU}
	}
	return m
}

func evictor(t *testing.T, lru bool, frames, pages int) placement.Evictor {
	t.Helper()
	if frames == 0 {
		return nil
	}
	var e placement.Evictor
	var err error
	if lru {
		e, err = placement.NewLRU(frames, pages)
	} else {
		e, err = placement.NewFIFO(frames, pages)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// fixed sends every victim to one tier.
type fixed placement.Fate

func (fixed) Name() string                           { return "fixed" }
func (fixed) Grow(int)                               {}
func (f fixed) Fate(placement.Victim) placement.Fate { return placement.Fate(f) }

// observer makes a placer an Observer, which turns the two-tier loops off.
type observer struct{ fixed }

func (observer) Sampled(p placement.Page) bool  { return p%2 == 0 }
func (observer) Observe(uint64, placement.Page) {}
func (observer) Miss(uint64, placement.Page)    {}

// opaque hides an evictor's type, which forces the loop over interfaces.
type opaque struct{ placement.Evictor }

func (s setup) machine(t *testing.T, pages int, observe, hide bool) *Machine {
	t.Helper()
	fate := fixed(placement.ToT2)
	if s.bypass {
		fate = fixed(placement.ToT3)
	}
	var placer placement.Placer = fate
	if observe {
		placer = observer{fate}
	}
	t1 := evictor(t, s.t1LRU, s.t1, pages)
	if hide {
		t1 = opaque{t1}
	}
	m, err := New(Config{Pages: pages, T1: t1, T2: evictor(t, s.t2LRU, s.t2, pages), Placer: placer, KeepT2Copy: s.keep})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Every loop of the machine gives the model's counts, block by block.
func TestMachineEqualsModel(t *testing.T) {
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 400 {
		s := setup{rng.IntN(2) == 0, rng.IntN(2) == 0, rng.IntN(4) == 0, rng.IntN(2) == 0, 1 + rng.IntN(6), rng.IntN(8)}
		pages := 2 + rng.IntN(24)
		model := s.model()
		machines := []*Machine{s.machine(t, pages, false, false), s.machine(t, pages, true, false), s.machine(t, 1, false, true)}
		for range 12 {
			accs := make([]Access, rng.IntN(60))
			for i := range accs {
				accs[i] = MakeAccess(placement.Page(rng.IntN(pages)), Op(rng.IntN(4)*rng.IntN(2)))
				model.access(accs[i].Page(), accs[i].Op())
			}
			for i, m := range machines {
				if err := m.Grow(pages); err != nil {
					t.Fatal(err)
				}
				m.Run(accs)
				if err := m.Check(); err != nil {
					t.Fatalf("seed %d round %d %v: %v", seed, round, s, err)
				}
				if d := cmp.Diff(model.counters(), m.Counters()); d != "" {
					t.Fatalf("seed %d round %d loop %d %v (-model +machine):\n%s", seed, round, i, s, d)
				}
			}
		}
	}
}

// pins pins a set of pages.
type pins map[placement.Page]bool

func (p pins) Pinned(q placement.Page) bool { return p[q] }

// A miss that finds every frame pinned is an error and changes nothing.
func TestAllPinned(t *testing.T) {
	pinned := pins{}
	s := setup{t1LRU: true, t2LRU: true, t1: 2, t2: 2}
	m, err := New(Config{Pages: 8, T1: evictor(t, true, 2, 8), T2: evictor(t, true, 2, 8), Placer: fixed(placement.ToT2), Pins: pinned})
	if err != nil {
		t.Fatal(err, s)
	}
	read := func(p placement.Page) { m.Run([]Access{MakeAccess(p, Read)}) }
	read(0)
	read(1)
	read(2) // 0 goes to T2
	pinned[1], pinned[2] = true, true
	read(3)
	read(0) // a T2 hit has no frame either, and 0 stays in T2
	m.Run([]Access{MakeAccess(0, Prefetch)})
	c := m.Counters()
	if c.Errors != 2 || c.T3Fetches != 3 || c.T2Hits != 0 || c.Accesses != 5 || c.Prefetches != 0 {
		t.Errorf("counters %+v", c)
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	delete(pinned, 2)
	read(0)
	if c := m.Counters(); c.T2Hits != 1 || c.Demotions != 2 {
		t.Errorf("after unpinning: %+v", c)
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
}

// keeper keeps every victim it is offered.
type keeper struct{ fixed }

func (keeper) Fate(placement.Victim) placement.Fate { return placement.Keep }

// Keep re-admits the victim once per eviction, and then somebody must go.
func TestKeepOncePerEviction(t *testing.T) {
	m, err := New(Config{Pages: 8, T1: evictor(t, false, 3, 8), T2: evictor(t, false, 4, 8), Placer: keeper{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []placement.Page{0, 1, 2, 3} {
		m.Run([]Access{MakeAccess(p, Read)})
	}
	// 0 was kept as the youngest, 1 left, 3 came: order 2, 0, 3.
	m.Run([]Access{MakeAccess(1, Read)}) // T2 hit; 2 is kept, 0 leaves
	c := m.Counters()
	if c.Keeps != 2 || c.Demotions != 2 || c.T2Hits != 1 || c.T3Fetches != 4 {
		t.Errorf("counters %+v", c)
	}
	m.Run([]Access{MakeAccess(2, Read), MakeAccess(3, Read), MakeAccess(1, Read)})
	if c := m.Counters(); c.T1Hits != 3 {
		t.Errorf("2, 3 and 1 should be in T1: %+v", c)
	}
}

// Without a host tier a placer that does not observe is not asked, whichever
// loop runs.
func TestPlacerWithoutT2(t *testing.T) {
	var accs []Access
	for i := range 40 {
		accs = append(accs, MakeAccess(placement.Page(i*i%7), Read))
	}
	var want Counters
	for i, t1 := range []placement.Evictor{evictor(t, false, 3, 8), opaque{evictor(t, false, 3, 8)}} {
		m, err := New(Config{Pages: 8, T1: t1, Placer: keeper{}})
		if err != nil {
			t.Fatal(err)
		}
		m.Run(accs)
		if got := m.Counters(); i == 0 {
			want = got
		} else if d := cmp.Diff(want, got); d != "" {
			t.Errorf("the loops differ:\n%s", d)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("a machine without evictor and placer was made")
	}
	m := setup{t1: 1}.machine(t, 1, false, false)
	if err := m.Grow(placement.MaxPages + 1); err == nil {
		t.Error("more pages than can be numbered were accepted")
	}
}
