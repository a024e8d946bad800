package policytest

import (
	"math/rand/v2"
	"testing"

	"github.com/tritier/tritier/placement"
)

// RunPlacer runs the suite for placers. make makes one for pages below pages.
func RunPlacer(t *testing.T, make func(pages int, seed uint64) (placement.Placer, error)) {
	t.Helper()
	open := func(t *testing.T, pages int, seed uint64) placement.Placer {
		t.Helper()
		p, err := make(pages, seed)
		if err != nil {
			t.Fatal(err)
		}
		if p.Name() == "" {
			t.Error("the placer has no name")
		}
		return p
	}
	t.Run("fates", func(t *testing.T) {
		for seed := range uint64(4) {
			for _, v := range evictions(open(t, 300, seed), 300, seed) {
				if v.fate > placement.ToT3 {
					t.Fatalf("seed %d: fate %d of page %d is none of Keep, ToT2, ToT3", seed, v.fate, v.page)
				}
				if v.fate == placement.Keep && v.again {
					t.Fatalf("seed %d: page %d was kept already in this eviction, and is kept again", seed, v.page)
				}
			}
		}
	})
	t.Run("seed", func(t *testing.T) {
		for seed := range uint64(4) {
			sameFates(t, evictions(open(t, 300, seed), 300, seed), evictions(open(t, 300, seed), 300, seed))
		}
	})
	t.Run("grow", func(t *testing.T) {
		sameFates(t, evictions(open(t, 300, 5), 300, 5), evictions(open(t, 1, 5), 300, 5))
	})
}

// fated is one answer of a placer.
type fated struct {
	page  placement.Page
	fate  placement.Fate
	again bool
}

// evictions drives a placer behind a FIFO tier of a sixth of the pages, in the
// order of calls that a caller keeps to, and returns its answers.
func evictions(placer placement.Placer, pages int, seed uint64) []fated {
	rng := rand.New(rand.NewPCG(seed, 2))
	observer, _ := placer.(placement.Observer)
	watcher, _ := placer.(placement.Watcher)
	var log []fated
	var tier []placement.Page
	resident := map[placement.Page]bool{}
	for now, a := range workload(pages, 6000, seed) {
		p := placement.Page(a >> 2)
		placer.Grow(int(p) + 1)
		switch {
		case observer == nil || !observer.Sampled(p):
		case watcher != nil:
			watcher.Watch(uint64(now), p, placement.Use(rng.IntN(int(placement.UsePrefetch)))) // all accesses: no prefetch
		default:
			observer.Observe(uint64(now), p)
		}
		if resident[p] {
			continue
		}
		if observer != nil {
			observer.Miss(uint64(now), p)
		}
		for again := false; len(tier) == pages/6; {
			v := placement.Victim{Page: tier[0], Dirty: rng.IntN(3) == 0, Now: uint64(now), Again: again}
			tier = tier[1:]
			fate := placer.Fate(v)
			log = append(log, fated{v.Page, fate, again})
			if fate == placement.Keep && !again {
				tier = append(tier, v.Page)
				again = true
				continue
			}
			delete(resident, v.Page)
		}
		tier = append(tier, p)
		resident[p] = true
	}
	return log
}

func sameFates(t *testing.T, a, b []fated) {
	t.Helper()
	if len(a) == 0 {
		t.Fatal("no evictions: the test shows nothing")
	}
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("answer %d differs: page %d %v, page %d %v", i, a[i].page, a[i].fate, b[i].page, b[i].fate)
		}
	}
	if len(a) != len(b) {
		t.Fatalf("%d and %d answers", len(a), len(b))
	}
}
