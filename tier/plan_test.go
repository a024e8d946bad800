package tier

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tritier/tritier/placement"
)

// stamp is what a page's bytes stand for: whose they are and how new.
type stamp struct {
	page    placement.Page
	version int
}

var garbage = stamp{placement.None, -1}

// store is a three-tier memory of stamps, which carries waves out in the order
// that a Plan promises is enough, and reads and writes that fail by chance.
type store struct {
	t        *testing.T
	rng      *rand.Rand
	failing  float64
	frames   []stamp
	slots    []stamp
	t3       map[placement.Page]int
	want     map[placement.Page]int // the reference: newest version of each page
	failures int
	checked  int
	pins     pinned
	breaks   int // if not 0: the wave, counted back, whose carry breaks before it fills a frame
}

type pinned map[placement.Page]bool

func (s pinned) Pinned(p placement.Page) bool { return s[p] }

var errInjected = errors.New("injected")

func (s *store) fails() bool {
	if s.rng.Float64() >= s.failing {
		return false
	}
	s.failures++
	return true
}

// carry is Carry: reads and T2's write-backs first, in any order, then copies out
// and T1's write-backs, then copies in, then elements.
func (s *store) carry(w *Wave) error {
	for _, i := range s.rng.Perm(len(w.Misses)) {
		m := &w.Misses[i]
		if m.Read {
			s.slots[m.Slot] = stamp{m.Page, s.t3[m.Page]}
			if s.fails() {
				m.Err, s.slots[m.Slot] = errInjected, garbage
			}
		}
		if u := m.Second; u.Page != placement.None && u.Write {
			s.writeBack(w, i, u.Page, u.Place)
		}
	}
	for _, i := range s.rng.Perm(len(w.Misses)) {
		m := &w.Misses[i]
		if v := m.Victim; v.Page != placement.None && v.Slot != NoPlace {
			s.slots[v.Slot] = s.frames[v.Place]
			if v.Write {
				s.writeBack(w, i, v.Page, v.Slot)
			}
		}
	}
	if s.breaks--; s.breaks == 0 {
		return errInjected
	}
	for _, i := range s.rng.Perm(len(w.Misses)) {
		if m := &w.Misses[i]; m.Err == nil {
			s.frames[m.Frame] = garbage
			if m.Slot != NoPlace {
				s.frames[m.Frame] = s.slots[m.Slot]
			}
		}
	}
	w.Resolve()
	for _, a := range w.Accesses {
		s.element(a, w)
	}
	return nil
}

// writeBack writes a slot to T3, or aborts. What a failed write leaves on T3 is
// undefined until it is written again.
func (s *store) writeBack(w *Wave, i int, p placement.Page, slot int32) {
	if got := s.slots[slot]; got != (stamp{p, s.want[p]}) {
		s.t.Fatalf("writing page %d back from slot %d, which holds %v; newest is %d", p, slot, got, s.want[p])
	}
	if s.fails() {
		s.t3[p] = -7
		w.Abort(i, p, errInjected)
		return
	}
	s.t3[p] = s.slots[slot].version
}

func (s *store) element(a WaveAccess, w *Wave) {
	if a.Err != nil || a.Op == Prefetch {
		return
	}
	f := s.plan().Frame(a.Page)
	if a.Op != Overwrite {
		s.checked++
		if got := s.frames[f]; got != (stamp{a.Page, s.want[a.Page]}) {
			s.t.Fatalf("%v of page %d finds %v in frame %d, want version %d", a.Op, a.Page, got, f, s.want[a.Page])
		}
	}
	if a.Op != Read {
		s.want[a.Page]++
		s.frames[f] = stamp{a.Page, s.want[a.Page]}
	}
}

// plan is set by newStore: element needs the frame table.
func (s *store) plan() *Plan { return plans[s] }

var plans = map[*store]*Plan{}

func newStore(t *testing.T, spec string, t1, t2, pages, spares int, seed uint64, failing float64) (*store, *Plan) {
	t.Helper()
	s := &store{t: t, rng: rand.New(rand.NewPCG(seed, 1)), failing: failing, pins: pinned{},
		frames: make([]stamp, t1), slots: make([]stamp, t2+spares), t3: map[placement.Page]int{}, want: map[placement.Page]int{}}
	p, err := NewPlan(PlanConfig{Config: config(t, spec, t1, t2, pages, seed, s.pins), Spares: spares, Carry: s.carry})
	if err != nil {
		t.Fatal(err)
	}
	plans[s] = p
	t.Cleanup(func() { delete(plans, s) })
	return s, p
}

func config(t *testing.T, spec string, t1, t2, pages int, seed uint64, pins placement.Pins) Config {
	t.Helper()
	sp, err := placement.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	pol, err := sp.Build(placement.Env{T1Frames: t1, T2Frames: t2, Pages: pages, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return Config{Pages: pages, T1: pol.T1, T2: pol.T2, Placer: pol.Placer, KeepT2Copy: pol.KeepT2Copy, Pins: pins}
}

var planPolicies = []string{"bypass", "tier-order", "random", "gmt-reuse{vtd-direct=8,k=1,fit-every=64}",
	"tier-order{t1=lru,t2=lru,t2copy=keep}", "gmt-reuse{t2copy=keep,vtd-direct=8}", "adaptive{vtd-direct=8,k=1,fit-every=64}", "adaptive{t2copy=keep,vtd-direct=8}", "random{t1=sieve,t2copy=keep}", "tier-order{t1=fifo}"}

// seeds is how many random histories a case has: fewer in short tests.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return n / 4
	}
	return n
}

// randomAccess favours low pages; a quarter writes, some overwrite or prefetch.
func randomAccess(rng *rand.Rand, pages int) (placement.Page, Op) {
	p := min(rng.IntN(pages), rng.IntN(pages))
	op := []Op{Read, Read, Read, Read, Read, Write, Write, Overwrite, Prefetch}[rng.IntN(9)]
	return placement.Page(p), op
}

// TestPlan: with any policy and any size, what a Plan moves keeps every page's
// bytes, and it counts what the simulator counts.
func TestPlan(t *testing.T) {
	for _, spec := range planPolicies {
		for _, size := range [][3]int{{1, 0, 2}, {1, 1, 2}, {2, 1, 2}, {2, 3, 3}, {4, 2, 8}, {5, 1, 32}, {8, 16, 64}} {
			for seed := range seeds(4) {
				t.Run(fmt.Sprintf("%s/%v/%d", spec, size, seed), func(t *testing.T) { comparePlan(t, spec, size, seed) })
			}
		}
	}
}

func comparePlan(t *testing.T, spec string, size [3]int, seed uint64) {
	const pages = 40
	s, p := newStore(t, spec, size[0], size[1], pages, size[2], seed, 0)
	m, err := New(config(t, spec, size[0], size[1], pages, seed, nil))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range 3000 {
		page, op := randomAccess(rng, pages)
		if err := p.Access(page, op, i); err != nil {
			t.Fatal(err)
		}
		m.Run([]Access{MakeAccess(page, op)})
		if rng.IntN(50) == 0 {
			finish(t, p)
		}
	}
	finish(t, p)
	if d := cmp.Diff(m.Counters(), p.Counters()); d != "" {
		t.Errorf("counters (-simulator +plan):\n%s", d)
	}
	if s.checked == 0 {
		t.Error("no read was compared")
	}
}

func finish(t *testing.T, p *Plan) {
	t.Helper()
	if err := p.Finish(); err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
}

// TestPlanFaults: reads and write-backs that fail lose nothing, and every access
// either finds the newest bytes or gets an error.
func TestPlanFaults(t *testing.T) {
	for _, spec := range planPolicies {
		for _, size := range [][3]int{{1, 0, 2}, {1, 1, 2}, {2, 1, 2}, {2, 3, 3}, {4, 2, 8}, {5, 1, 32}, {8, 16, 64}} {
			for seed := range seeds(10) {
				t.Run(fmt.Sprintf("%s/%v/%d", spec, size, seed), func(t *testing.T) { planFaults(t, spec, size, seed) })
			}
		}
	}
}

func planFaults(t *testing.T, spec string, size [3]int, seed uint64) {
	const pages = 40
	s, p := newStore(t, spec, size[0], size[1], pages, size[2], seed, 0.1)
	rng := rand.New(rand.NewPCG(seed, 3))
	for i := range 2000 {
		page, op := randomAccess(rng, pages)
		if err := p.Access(page, op, i); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(20) == 0 {
			finish(t, p)
		}
	}
	finish(t, p)
	s.failing = 0
	for page := range placement.Page(pages) { // what T3 lacks, one of the upper tiers must have
		if err := p.Access(page, Read, 0); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, p)
	if c := p.Counters(); c.Errors == 0 || s.failures == 0 {
		t.Errorf("%d failures, %d errors counted", s.failures, c.Errors)
	}
}

// TestPlanUndoCounts: what failed write-backs take back leaves no trace in the counters: T2 holds what was demoted and neither used nor
// evicted since, and every victim of T1 went somewhere.
func TestPlanUndoCounts(t *testing.T) {
	for _, spec := range []string{"tier-order", "random{t1=lru,t2=random}", "gmt-reuse{vtd-direct=8,k=1,fit-every=64}"} {
		for _, size := range [][3]int{{1, 1, 2}, {2, 3, 3}, {5, 1, 32}, {3, 4, 32}} {
			for seed := range seeds(8) {
				s, p := newStore(t, spec, size[0], size[1], 40, size[2], seed, 0.2)
				rng := rand.New(rand.NewPCG(seed, 7))
				for i := range 1000 {
					page, op := randomAccess(rng, 40)
					if op == Prefetch {
						op = Write
					}
					if err := p.Access(page, op, i); err != nil {
						t.Fatal(err)
					}
				}
				finish(t, p)
				c := p.Counters()
				if in := uint64(p.m.t2.Len()); in != c.Demotions-c.T2Hits-c.T2Evictions || c.Evictions != c.Demotions+c.Bypasses {
					t.Fatalf("%s %v seed %d: %d pages in T2 after %d failures, but counted %+v", spec, size, seed, in, s.failures, c)
				}
			}
		}
	}
}

// TestPlanPins: pinned pages stay, and when all frames are pinned the access ends
// with an error and changes nothing.
func TestPlanPins(t *testing.T) {
	for _, spec := range planPolicies {
		s, p := newStore(t, spec, 3, 2, 20, 4, 5, 0.05)
		rng := rand.New(rand.NewPCG(5, 4))
		var refused int
		for i := range 3000 {
			if rng.IntN(10) == 0 {
				finish(t, p)
				clear(s.pins)
				for page := range placement.Page(20) {
					if p.Entry(page).State() == ResidentT1 && rng.IntN(3) > 0 {
						s.pins[page] = true
					}
				}
			}
			page, op := randomAccess(rng, 20)
			before := p.Counters().Errors
			if err := p.Access(page, op, i); err != nil {
				t.Fatal(err)
			}
			if a := p.wave.Accesses[len(p.wave.Accesses)-1]; errors.Is(a.Err, ErrAllPinned) {
				refused++
				if op != Prefetch && p.Counters().Errors != before+1 && s.failures == 0 {
					t.Errorf("a refused access is not counted as an error")
				}
			}
			for q := range s.pins {
				if p.Entry(q).State() != ResidentT1 {
					t.Fatalf("%s: pinned page %d left T1", spec, q)
				}
			}
		}
		finish(t, p)
		if refused == 0 {
			t.Errorf("%s: no access found all frames pinned", spec)
		}
	}
}

// TestPlanBreaks: when a wave's outcome is unknown, the plan refuses all work.
func TestPlanBreaks(t *testing.T) {
	broken := errors.New("the GPU is gone")
	c := PlanConfig{Config: config(t, "tier-order", 2, 2, 10, 0, nil), Spares: 2, Carry: func(*Wave) error { return broken }}
	p, err := NewPlan(c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err = p.Access(placement.Page(i), Write, i); err != nil {
			break
		}
	}
	if !errors.Is(err, broken) || !errors.Is(p.Finish(), broken) || !errors.Is(p.Access(0, Read, 0), broken) || p.Broken() == nil {
		t.Errorf("after a wave of unknown outcome: %v", err)
	}
}

// TestPlanEpochs: the wave's number may wrap.
func TestPlanEpochs(t *testing.T) {
	_, p := newStore(t, "tier-order", 2, 2, 20, 8, 1, 0)
	for page := range placement.Page(20) {
		p.mark[page] = 1 // touched long ago, in wave 1
	}
	p.epoch = 1<<32 - 2
	for i := range 3 {
		if err := p.Access(0, Read, i); err != nil {
			t.Fatal(err)
		}
		finish(t, p)
	}
	if p.epoch == 0 || p.touched(7) {
		t.Errorf("in wave %d, page 7 is taken for touched", p.epoch)
	}
}

// TestPlanConfigs that cannot work are refused.
func TestPlanConfigs(t *testing.T) {
	ok := config(t, "tier-order", 2, 2, 10, 0, nil)
	carry := func(*Wave) error { return nil }
	for _, c := range []PlanConfig{{Config: ok, Spares: 2}, {Config: ok, Spares: 1, Carry: carry}, {Spares: 2, Carry: carry}} {
		if _, err := NewPlan(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
