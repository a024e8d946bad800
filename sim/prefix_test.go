package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// naivePrefix counts per request, with every miss known.
func naivePrefix(starts []uint64, missed []bool, end int) (hits uint64) {
	open := true
	for pos := range end {
		if slices.Contains(starts, uint64(pos)) {
			open = true
		}
		if missed[pos] {
			open = false
		}
		if open {
			hits++
		}
	}
	return hits
}

func TestPrefixCounter(t *testing.T) {
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, 1))
	for round := range 2000 {
		n := 1 + rng.IntN(40)
		missed := make([]bool, n)
		var starts []uint64
		if rng.IntN(4) > 0 {
			starts = append(starts, 0)
		}
		for pos := 1; pos < n; pos++ {
			if rng.IntN(4) == 0 {
				starts = append(starts, uint64(pos))
			}
		}
		end := rng.IntN(n + 1) // the run may be cut short
		missRate := rng.IntN(5)
		c := newPrefixCounter(nil)
		// Half of the starts become known only when the trace gets there.
		cut := len(starts) / 2
		c.add(starts[:cut], 0)
		for pos := range end {
			if cut < len(starts) && uint64(pos) == starts[cut] {
				c.add(starts[cut:], uint64(pos))
				cut = len(starts)
			}
			if rng.IntN(5) < missRate {
				missed[pos] = true
				if uint64(pos) >= c.watch() { // the machine tells no other misses
					c.miss(uint64(pos))
				}
			}
		}
		if cut < len(starts) {
			c.add(starts[cut:], uint64(end))
		}
		if got, want := c.hits(uint64(end)), naivePrefix(starts, missed, end); got != want {
			t.Fatalf("seed %d round %d: %d hits, want %d; starts %v missed %v end %d", seed, round, got, want, starts, missed, end)
		}
	}
}

// A stream's requests are forgotten when they are over.
func TestPrefixCounterForgets(t *testing.T) {
	c := newPrefixCounter(nil)
	for block := range uint64(1000) {
		done := block * 100
		c.add([]uint64{done, done + 50}, done)
		if block%3 == 0 {
			c.miss(done + 10) // 10 hits before it
		}
	}
	if len(c.starts) > 4 {
		t.Errorf("%d requests are still known", len(c.starts))
	}
	// Of 334 blocks with a miss the first request gives 10 hits, not 50.
	if got, want := c.hits(100_000), uint64(100_000-334*40); got != want {
		t.Errorf("%d hits, want %d", got, want)
	}
}
