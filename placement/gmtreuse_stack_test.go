package placement

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naiveStack is an LRU stack as a slice, the most recent item first.
type naiveStack []uint32

func (s *naiveStack) access(i uint32) (distance int, again bool) {
	at := slices.Index(*s, i)
	if again = at >= 0; again {
		distance = at
		*s = slices.Delete(*s, at, at+1)
	}
	*s = slices.Insert(*s, 0, i)
	return distance, again
}

func TestLRUStack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s lruStack
		var want naiveStack
		items := 0
		for range rapid.IntRange(1, 6).Draw(t, "phases") {
			items += rapid.IntRange(1, 150).Draw(t, "more items")
			s.grow(items)
			hot := rapid.IntRange(1, items).Draw(t, "hot items")
			seed := rapid.Uint64().Draw(t, "seed")
			for n := range uint64(rapid.IntRange(1, 600).Draw(t, "accesses")) {
				i := uint32(Hash(seed, n, 0) % uint64(hot))
				d, again := s.access(i)
				if wd, wagain := want.access(i); d != wd || again != wagain {
					t.Fatalf("item %d of %d: distance %d %t, want %d %t", i, items, d, again, wd, wagain)
				}
			}
		}
	})
}

// TestLRUStackIsBounded: memory follows the number of items, not of accesses.
func TestLRUStackIsBounded(t *testing.T) {
	var s lruStack
	s.grow(1000)
	for n := range uint64(100_000) {
		s.access(uint32(Hash(1, n, 0) % 1000))
	}
	if len(s.owner) > 2*1000+wordBits || s.n != 1000 {
		t.Errorf("%d positions for 1000 items, %d live", len(s.owner), s.n)
	}
}

func TestSampler(t *testing.T) {
	const pages = 40_000
	for _, k := range []uint64{1, 2, 16, 1000} {
		s := sampler{seed: 11, k: k}
		s.grow(pages)
		n := 0
		for p := range Page(pages) {
			if s.samples(p) {
				n++
			}
			if _, ok := s.access(1, p); ok {
				t.Fatalf("k=%d: page %d was seen before its first access", k, p)
			}
		}
		if dev := math.Abs(float64(n) - pages/float64(k)); n != s.n || dev > 4*math.Sqrt(pages/float64(k)) {
			t.Errorf("k=%d: %d pages chosen, %d ranked", k, n, s.n)
		}
	}
}

// TestSamplerMeasures runs a loop whose reuse distance is known: exactly at
// k=1, within the error of sampling at k=16.
func TestSamplerMeasures(t *testing.T) {
	const pages = 20_000
	for _, tc := range []struct {
		k     uint64
		error float64
	}{{1, 0}, {16, 0.1}} {
		s := sampler{seed: 5, k: tc.k}
		s.grow(pages)
		now, samples := uint64(0), 0
		for range 3 {
			for p := range Page(pages) {
				now++
				got, ok := s.access(now, p)
				if !ok {
					continue
				}
				samples++
				if got.vtd != pages || math.Abs(float64(got.rd)-(pages-1)) > tc.error*pages {
					t.Fatalf("k=%d: page %d: %+v", tc.k, p, got)
				}
			}
		}
		if samples != 2*s.n || samples == 0 {
			t.Errorf("k=%d: %d samples of %d pages", tc.k, samples, s.n)
		}
	}
}

// TestSamplerGrows: pages made known bit by bit are ranked as if known at once.
func TestSamplerGrows(t *testing.T) {
	whole, parts := sampler{seed: 3, k: 3}, sampler{seed: 3, k: 3}
	whole.grow(1000)
	for _, n := range []int{1, 63, 64, 65, 64, 500, 1000} {
		parts.grow(n)
	}
	for now := range uint64(5000) {
		p := Page(Hash(8, now, 0) % 1000)
		a, okA := whole.access(now+1, p)
		b, okB := parts.access(now+1, p)
		if a != b || okA != okB {
			t.Fatalf("access %d to %d: %+v %t, grown in parts %+v %t", now, p, a, okA, b, okB)
		}
	}
	if _, ok := parts.access(1, 1_000_000); ok {
		t.Error("a page that is not known was measured")
	}
}
