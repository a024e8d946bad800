package placement

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"pgregory.net/rapid"
)

// oracle is an evictor that is written for being obviously right: slices,
// searched from the front.
type oracle interface {
	hit(p Page)
	insert(p Page)
	victim(pinned map[Page]bool) Page
	remove(p Page)
}

// queueOracle is lru and fifo: pages from the one to evict first to the newest.
type queueOracle struct {
	order      []Page
	hitsMatter bool
}

func (o *queueOracle) hit(p Page) {
	if o.hitsMatter {
		o.remove(p)
		o.insert(p)
	}
}
func (o *queueOracle) insert(p Page) { o.order = append(o.order, p) }
func (o *queueOracle) remove(p Page) { o.order = without(o.order, p) }
func (o *queueOracle) victim(pinned map[Page]bool) Page {
	for _, p := range o.order {
		if !pinned[p] {
			o.remove(p)
			return p
		}
	}
	return None
}

func without(s []Page, p Page) []Page {
	return slices.DeleteFunc(slices.Clone(s), func(q Page) bool { return q == p })
}

// clockOracle is a ring of slots; None is a free one.
type clockOracle struct {
	ring []Page
	free []int // the slot freed last is at the end
	bit  map[Page]bool
	hand int
}

func (o *clockOracle) hit(p Page) { o.bit[p] = true }
func (o *clockOracle) insert(p Page) {
	o.bit[p] = false
	if n := len(o.free); n > 0 {
		o.ring[o.free[n-1]] = p
		o.free = o.free[:n-1]
		return
	}
	o.ring = append(o.ring, p)
}
func (o *clockOracle) remove(p Page) {
	s := slices.Index(o.ring, p)
	o.ring[s] = None
	o.free = append(o.free, s)
}
func (o *clockOracle) victim(pinned map[Page]bool) Page {
	if !slices.ContainsFunc(o.ring, func(p Page) bool { return p != None && !pinned[p] }) {
		return None
	}
	for {
		p := o.ring[o.hand]
		o.hand = (o.hand + 1) % len(o.ring)
		switch {
		case p == None || pinned[p]:
		case o.bit[p]:
			o.bit[p] = false
		default:
			o.remove(p)
			return p
		}
	}
}

// sieveOracle holds pages from the oldest to the newest.
type sieveOracle struct {
	order   []Page
	visited map[Page]bool
	hand    Page // the page to look at next; None is the oldest
}

func (o *sieveOracle) hit(p Page) { o.visited[p] = true }
func (o *sieveOracle) insert(p Page) {
	o.visited[p] = false
	o.order = append(o.order, p)
}

// newer returns the page after p, or None after the newest.
func (o *sieveOracle) newer(p Page) Page {
	if i := slices.Index(o.order, p) + 1; i < len(o.order) {
		return o.order[i]
	}
	return None
}
func (o *sieveOracle) remove(p Page) {
	if o.hand == p {
		o.hand = o.newer(p)
	}
	o.order = without(o.order, p)
}
func (o *sieveOracle) victim(pinned map[Page]bool) Page {
	if !slices.ContainsFunc(o.order, func(p Page) bool { return !pinned[p] }) {
		return None
	}
	for {
		if o.hand == None {
			o.hand = o.order[0]
		}
		p := o.hand
		if !pinned[p] && !o.visited[p] {
			o.remove(p)
			return p
		}
		if !pinned[p] {
			o.visited[p] = false
		}
		o.hand = o.newer(p)
	}
}

// lfuOracle compares count and time of last use of all pages.
type lfuOracle struct {
	pages map[Page][2]int // count, last use
	now   int
}

func (o *lfuOracle) hit(p Page)    { o.now++; o.pages[p] = [2]int{o.pages[p][0] + 1, o.now} }
func (o *lfuOracle) insert(p Page) { o.now++; o.pages[p] = [2]int{1, o.now} }
func (o *lfuOracle) remove(p Page) { delete(o.pages, p) }
func (o *lfuOracle) victim(pinned map[Page]bool) Page {
	best := None
	for p, use := range o.pages {
		if !pinned[p] && (best == None || cmp.Or(cmp.Compare(use[0], o.pages[best][0]), use[1]-o.pages[best][1]) < 0) {
			best = p
		}
	}
	delete(o.pages, best)
	return best
}

// simpleLRU is an LRU by another hand; it knows no pins.
type simpleLRU struct{ *simplelru.LRU[Page, bool] }

func (o simpleLRU) hit(p Page)    { o.Get(p) }
func (o simpleLRU) insert(p Page) { o.Add(p, true) }
func (o simpleLRU) remove(p Page) { o.Remove(p) }
func (o simpleLRU) victim(map[Page]bool) Page {
	if p, _, ok := o.RemoveOldest(); ok {
		return p
	}
	return None
}

// pinSet is a Pins for the evictor under test.
type pinSet map[Page]bool

func (s pinSet) Pinned(p Page) bool { return s[p] }

// TestOrderOracles compares victims with those of the oracles, in histories with
// pins, removals, re-admissions and tiers that are not full.
func TestOrderOracles(t *testing.T) {
	const most = 24
	for _, c := range []struct {
		name   string
		pins   bool
		make   func(frames int) (Evictor, error)
		oracle func() oracle
	}{
		{"lru", true, func(n int) (Evictor, error) { return NewLRU(n, 3*most) },
			func() oracle { return &queueOracle{hitsMatter: true} }},
		{"lru and golang-lru", false, func(n int) (Evictor, error) { return NewLRU(n, 3*most) },
			func() oracle { l, _ := simplelru.NewLRU[Page, bool](1000, nil); return simpleLRU{l} }},
		{"fifo", true, func(n int) (Evictor, error) { return NewFIFO(n, 3*most) },
			func() oracle { return &queueOracle{} }},
		{"clock", true, func(n int) (Evictor, error) { return NewClock(n, 3*most) },
			func() oracle { return &clockOracle{bit: map[Page]bool{}} }},
		{"sieve", true, func(n int) (Evictor, error) { return NewSieve(n, 3*most) },
			func() oracle { return &sieveOracle{visited: map[Page]bool{}, hand: None} }},
		{"lfu", true, func(n int) (Evictor, error) { return NewLFU(n, 3*most) },
			func() oracle { return &lfuOracle{pages: map[Page][2]int{}} }},
	} {
		t.Run(c.name, rapid.MakeCheck(func(t *rapid.T) {
			frames := rapid.SampledFrom([]int{1, 2, 3, 5, 8, 13, most}).Draw(t, "frames")
			e, err := c.make(frames)
			if err != nil {
				t.Fatal(err)
			}
			compareOrder(t, e, c.oracle(), frames, c.pins)
		}))
	}
}

// source draws a seed and no more: what rapid draws itself is mostly small, and
// makes short histories with few evictions.
func source(t *rapid.T) *rand.Rand {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
}

// pinHalf pins each page with even odds, or nothing.
func pinHalf(rng *rand.Rand, pages int) map[Page]bool {
	pinned := map[Page]bool{}
	if rng.IntN(2) == 0 {
		for p := range Page(pages) {
			pinned[p] = rng.IntN(2) == 0
		}
	}
	return pinned
}

func compareOrder(t *rapid.T, e Evictor, o oracle, frames int, pins bool) {
	rng := source(t)
	resident := map[Page]bool{}
	pages := 2*frames + 1
	evict := func(incoming Page) Page {
		var asked Pins
		var pinned map[Page]bool
		if pins {
			pinned = pinHalf(rng, pages)
			asked = pinSet(pinned)
		}
		got, want := e.Victim(incoming, asked), o.victim(pinned)
		if got != want {
			t.Fatalf("Victim(%d) is %d, want %d; pinned %v", incoming, int32(got), int32(want), pinned)
		}
		delete(resident, got)
		return got
	}
	insert := func(p Page) {
		if p != None && len(resident) < frames {
			e.Insert(p)
			o.insert(p)
			resident[p] = true
		}
	}
	for range 600 {
		p := Page(rng.IntN(pages))
		switch act := rng.IntN(20); {
		case act == 0:
			evict(p)
		case act == 1:
			insert(evict(p)) // kept
		case resident[p] && act < 5:
			e.Remove(p)
			o.remove(p)
			delete(resident, p)
		case resident[p]:
			e.Hit(p)
			o.hit(p)
		default:
			if len(resident) == frames {
				evict(p)
			}
			insert(p)
		}
	}
}
