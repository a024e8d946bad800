package policytest

import (
	"math/rand/v2"
	"testing"

	"github.com/tritier/tritier/placement"
)

// mix gives the rates, per 100 accesses, of what happens beside accesses.
type mix struct {
	remove int // a resident page is taken out
	pin    int // an eviction meets pinned pages
	keep   int // an eviction re-admits its victim and asks again
	fail   int // a fill fails: the incoming page is not inserted
	early  int // Victim is called on a tier that is not full
}

var (
	plain = mix{}
	mixed = mix{remove: 8, pin: 30, keep: 20, fail: 5, early: 2}
)

// history drives an evictor as a caller does, and mirrors what is resident.
type history struct {
	t        *testing.T
	e        placement.Evictor
	at       func(uint32)
	accesses []uint32
	rng      *rand.Rand
	futile   bool // before each Victim, call it once with all pages pinned

	resident []bool
	pages    int // what the evictor was told with Grow
	count    int
	misses   int
	log      []placement.Page // all victims
}

// pinned is a set of pages.
type pinned map[placement.Page]bool

func (s pinned) Pinned(p placement.Page) bool { return s[p] }

// everything pins all pages.
type everything struct{}

func (everything) Pinned(placement.Page) bool { return true }

// start makes an evictor that knows a quarter of the pages; run makes it grow.
func (s *suite) start(t *testing.T, frames, pages int, seed uint64, accesses []uint32) *history {
	t.Helper()
	known := pages / 4
	if s.opts.Offline != nil {
		known = pages // the trace names them all
	}
	e, at, err := s.open(frames, known, seed, accesses)
	if err != nil {
		t.Fatal(err)
	}
	return &history{
		t: t, e: e, at: at, accesses: accesses, rng: rand.New(rand.NewPCG(seed, 1)),
		resident: make([]bool, pages), pages: known,
	}
}

// run goes through all accesses.
func (h *history) run(m mix) {
	h.t.Helper()
	for i, a := range h.accesses {
		p := placement.Page(a >> 2)
		if int(p) >= h.pages {
			h.pages = int(p) + 1
			h.e.Grow(h.pages)
		}
		h.at(uint32(i))
		h.access(p, m)
		if h.chance(m.remove) && h.count > 0 {
			p := h.anyResident(h.rng)
			h.e.Remove(p)
			h.leave(p)
		}
		if h.chance(m.early) {
			h.victim(p, h.pins(m))
		}
		h.check()
		if h.t.Failed() {
			return
		}
	}
}

func (h *history) chance(percent int) bool { return h.rng.IntN(100) < percent }

func (h *history) access(p placement.Page, m mix) {
	if h.resident[p] {
		h.e.Hit(p)
		return
	}
	h.misses++
	if h.e.Len() == h.e.Cap() {
		v := h.victim(p, h.pins(m))
		if v != placement.None && h.chance(m.keep) {
			h.insert(v)
			v = h.victim(p, h.pins(m))
		}
		if v == placement.None {
			return // all pinned: the caller reports it and does not insert
		}
	}
	if !h.chance(m.fail) {
		h.insert(p)
	}
}

// pins draws a set of pinned pages, all of them at times, or nil.
func (h *history) pins(m mix) placement.Pins {
	if !h.chance(m.pin) {
		return nil
	}
	share := []int{10, 50, 95, 100}[h.rng.IntN(4)]
	set := pinned{}
	for _, p := range h.residents() {
		set[p] = h.chance(share)
	}
	return set
}

func (h *history) insert(p placement.Page) {
	h.e.Insert(p)
	h.resident[p] = true
	h.count++
}

func (h *history) leave(p placement.Page) {
	h.resident[p] = false
	h.count--
}

// victim calls Victim and checks that it returned a page that may leave, or
// None if there is none.
func (h *history) victim(incoming placement.Page, pins placement.Pins) placement.Page {
	h.t.Helper()
	if h.futile {
		if v := h.e.Victim(incoming, everything{}); v != placement.None {
			h.t.Fatalf("all pages are pinned: Victim(%d) returned %d", incoming, v)
		}
	}
	v := h.e.Victim(incoming, pins)
	h.log = append(h.log, v)
	if v == placement.None {
		for _, p := range h.residents() {
			if pins == nil || !pins.Pinned(p) {
				h.t.Fatalf("Victim(%d) returned None, but page %d may leave", incoming, p)
			}
		}
		return v
	}
	if int(v) >= len(h.resident) || !h.resident[v] {
		h.t.Fatalf("Victim(%d) returned page %d, which is not resident", incoming, v)
	}
	if pins != nil && pins.Pinned(v) {
		h.t.Fatalf("Victim(%d) returned page %d, which is pinned", incoming, v)
	}
	h.leave(v)
	return v
}

func (h *history) check() {
	h.t.Helper()
	if h.e.Len() != h.count {
		h.t.Fatalf("Len is %d, but %d pages are resident", h.e.Len(), h.count)
	}
	if h.e.Len() > h.e.Cap() {
		h.t.Fatalf("Len is %d, above Cap %d", h.e.Len(), h.e.Cap())
	}
}

// drain evicts all that is left: exactly the resident pages come out.
func (h *history) drain() {
	h.t.Helper()
	for h.count > 0 {
		h.victim(placement.None, nil)
		h.check()
	}
	if v := h.e.Victim(0, nil); v != placement.None {
		h.t.Fatalf("an empty evictor returned page %d", v)
	}
}

func (h *history) residents() []placement.Page {
	var all []placement.Page
	for p, in := range h.resident {
		if in {
			all = append(all, placement.Page(p))
		}
	}
	return all
}

func (h *history) anyResident(rng *rand.Rand) placement.Page {
	all := h.residents()
	return all[rng.IntN(len(all))]
}

// workload draws n accesses to pages pages: a few popular pages, scans and
// uniform noise, in phases.
func workload(pages, n int, seed uint64) []uint32 {
	rng := rand.New(rand.NewPCG(seed, 99))
	accesses := make([]uint32, 0, n)
	for len(accesses) < n {
		kind, from := rng.IntN(3), rng.IntN(pages)
		for k := range 1 + rng.IntN(2*pages) {
			p := rng.IntN(pages)
			switch kind {
			case 0:
				p = rng.IntN(1 + rng.IntN(1+p)) // skewed to low indices
			case 1:
				p = (from + k) % pages
			}
			accesses = append(accesses, uint32(p)<<2)
		}
	}
	return accesses[:n]
}

// optimum counts the misses of Belady's rule the slow way: it searches the
// rest of the trace for every resident page.
func optimum(frames int, accesses []uint32) int {
	resident := map[uint32]bool{}
	misses := 0
	for i, a := range accesses {
		if resident[a] {
			continue
		}
		misses++
		if len(resident) == frames {
			delete(resident, farthest(resident, accesses[i+1:]))
		}
		resident[a] = true
	}
	return misses
}

// farthest returns a resident page whose next use in rest is last.
func farthest(resident map[uint32]bool, rest []uint32) uint32 {
	open := map[uint32]bool{}
	for p := range resident {
		open[p] = true
	}
	for _, a := range rest {
		if len(open) == 1 {
			break
		}
		delete(open, a)
	}
	for p := range open {
		return p
	}
	return 0
}
