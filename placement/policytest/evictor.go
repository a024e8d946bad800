// Package policytest is the conformance suite of placement policies: what every
// evictor and every placer must do, whatever it decides. A policy's tests call
// Run or RunPlacer; oracles and golden counts are the policy's own tests.
package policytest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tritier/tritier/placement"
)

// Options says what a suite must know of an evictor.
type Options struct {
	// Smallest is the smallest number of frames that the constructor accepts.
	Smallest int
	// Offline makes an evictor that needs the accesses, each page<<2 | op, in
	// advance, and returns what to call before access i. When it is set, Run
	// uses it instead of make.
	Offline func(frames, pages int, accesses []uint32) (e placement.Evictor, at func(i uint32), err error)
}

// Make makes an evictor; it is what constructors with a seed look like.
type Make func(frames, pages int, seed uint64) (placement.Evictor, error)

// suite is an evictor's constructor under test.
type suite struct {
	make Make
	opts Options
}

// Run runs the suite for evictors.
func Run(t *testing.T, make Make, opts Options) {
	t.Helper()
	s := &suite{make: make, opts: opts}
	t.Run("size", s.testSize)
	t.Run("history", s.testHistories)
	t.Run("pinned", s.testAllPinned)
	t.Run("seed", s.testSameSeed)
	t.Run("bounded", s.testBoundedSearch)
	t.Run("optimum", s.testOptimum)
	t.Run("allocations", s.testAllocations)
}

// open makes an evictor and the call that goes before each access.
func (s *suite) open(frames, pages int, seed uint64, accesses []uint32) (placement.Evictor, func(uint32), error) {
	if s.opts.Offline != nil {
		return s.opts.Offline(frames, pages, accesses)
	}
	e, err := s.make(frames, pages, seed)
	return e, func(uint32) {}, err
}

// sizes are the frame counts that the histories use: tiny ones above all.
func (s *suite) sizes() []int {
	sizes := []int{}
	for frames := s.opts.Smallest; frames <= max(4, s.opts.Smallest); frames++ {
		sizes = append(sizes, frames)
	}
	return append(sizes, 10, 37, 150)
}

// testSize: one frame too few is an error that names the policy and the
// smallest size; the smallest size works.
func (s *suite) testSize(t *testing.T) {
	least := s.opts.Smallest
	e, _, err := s.open(least, 10, 1, nil)
	if err != nil {
		t.Fatalf("%d frames, the smallest size: %v", least, err)
	}
	if e.Cap() != least || e.Len() != 0 || e.Name() == "" {
		t.Errorf("new evictor %q: Cap %d, Len %d; want Cap %d, Len 0 and a name", e.Name(), e.Cap(), e.Len(), least)
	}
	for _, frames := range []int{least - 1, 0, -1} {
		_, _, err := s.open(frames, 10, 1, nil)
		if err == nil {
			t.Errorf("%d frames: no error, want one below %d", frames, least)
		} else if !strings.Contains(err.Error(), e.Name()) || !strings.Contains(err.Error(), fmt.Sprint(least)) {
			t.Errorf("%d frames: error %q does not name %s and %d", frames, err, e.Name(), least)
		}
	}
	for _, pages := range []int{-1, placement.MaxPages + 1} {
		if _, _, err := s.open(least, pages, 1, nil); err == nil {
			t.Errorf("%d pages: no error", pages)
		}
	}
}

// testHistories runs long random histories against a reference set.
func (s *suite) testHistories(t *testing.T) {
	for _, frames := range s.sizes() {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("frames=%d,seed=%d", frames, seed), func(t *testing.T) {
				pages := frames*3 + 3
				h := s.start(t, frames, pages, seed, workload(pages, 3000, seed))
				h.run(mixed)
				h.drain()
			})
		}
	}
}

// testAllPinned: a Victim that every resident page refuses returns None, and
// what comes later is as if it had never been called.
func (s *suite) testAllPinned(t *testing.T) {
	for _, frames := range s.sizes() {
		pages := frames * 3
		accesses := workload(pages, 1500, 7)
		plain := s.start(t, frames, pages, 7, accesses)
		plain.run(mixed)
		asked := s.start(t, frames, pages, 7, accesses)
		asked.futile = true
		asked.run(mixed)
		sameLog(t, fmt.Sprintf("%d frames: futile calls of Victim changed what follows", frames), plain.log, asked.log)
	}
}

// testSameSeed: the same calls give the same victims.
func (s *suite) testSameSeed(t *testing.T) {
	for seed := range uint64(3) {
		accesses := workload(100, 2000, seed)
		a := s.start(t, 30, 100, seed, accesses)
		b := s.start(t, 30, 100, seed, accesses)
		a.run(mixed)
		b.run(mixed)
		sameLog(t, fmt.Sprintf("seed %d: two runs differ", seed), a.log, b.log)
		if len(a.log) == 0 {
			t.Errorf("seed %d: no victims: the test shows nothing", seed)
		}
	}
}

// counter pins all pages but one, and counts how often it was asked.
type counter struct {
	free  placement.Page
	calls int
}

func (c *counter) Pinned(p placement.Page) bool {
	c.calls++
	return p != c.free
}

// testBoundedSearch: with one page free, or none, Victim asks about each
// resident page a small number of times.
func (s *suite) testBoundedSearch(t *testing.T) {
	const frames, pages = 200, 400
	h := s.start(t, frames, pages, 3, workload(pages, 4000, 3))
	h.run(plain)
	rng := rand.New(rand.NewPCG(3, 3))
	for range 100 {
		free := h.anyResident(rng)
		for _, p := range h.residents() {
			h.e.Hit(p) // every reference bit is set, every count is high
		}
		c := &counter{free: placement.None}
		if v := h.e.Victim(free, c); v != placement.None {
			t.Fatalf("all pinned: Victim returned %d", v)
		}
		nobody := c.calls
		c = &counter{free: free}
		if v := h.e.Victim(placement.None, c); v != free {
			t.Fatalf("only page %d is free: Victim returned %d", free, v)
		}
		if most := 8 * (frames + 1); nobody > most || c.calls > most {
			t.Fatalf("Victim asked %d and %d times for %d resident pages, want at most %d", nobody, c.calls, frames, most)
		}
		h.e.Insert(free)
	}
}

// testOptimum: no evictor misses less often than the offline optimum.
func (s *suite) testOptimum(t *testing.T) {
	for _, frames := range s.sizes()[:5] {
		for seed := range uint64(4) {
			pages := frames*2 + 2
			accesses := workload(pages, 600, seed+20)
			h := s.start(t, frames, pages, seed, accesses)
			h.run(plain)
			if best := optimum(frames, accesses); h.misses < best {
				t.Errorf("%d frames, seed %d: %d misses are fewer than the optimum of %d", frames, seed, h.misses, best)
			}
		}
	}
}

// testAllocations: once warm, no call allocates.
func (s *suite) testAllocations(t *testing.T) {
	const frames, pages = 64, 200
	accesses := workload(pages, 12000, 11)
	e, at, err := s.open(frames, pages, 11, accesses)
	if err != nil {
		t.Fatal(err)
	}
	resident := make([]bool, pages)
	next := 0
	step := func() {
		at(uint32(next))
		p := placement.Page(accesses[next] >> 2)
		if next++; resident[p] {
			e.Hit(p)
			return
		}
		if e.Len() == e.Cap() {
			resident[e.Victim(p, nil)] = false
		}
		e.Insert(p)
		resident[p] = true
	}
	batch := func() {
		for range 1000 {
			step()
		}
	}
	batch()
	if n := testing.AllocsPerRun(10, batch); n != 0 {
		t.Errorf("1000 accesses allocate %v times, want none", n)
	}
}

func sameLog(t *testing.T, what string, a, b []placement.Page) {
	t.Helper()
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("%s: victim %d is %d and %d", what, i, a[i], b[i])
		}
	}
	if len(a) != len(b) {
		t.Fatalf("%s: %d and %d victims", what, len(a), len(b))
	}
}
