package placement

import (
	"math"
	"testing"
)

func newPlacer(t testing.TB, policy string, seed uint64) Placer {
	t.Helper()
	p, err := mustParse(t, policy).Build(Env{T1Frames: 8, T2Frames: 32, Pages: 256, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return p.Placer
}

// fates drives a placer through a fixed, varied history of evictions and
// returns what it decided.
func fates(p Placer, n int) []Fate {
	obs, _ := p.(Observer)
	out := make([]Fate, n)
	for i := range out {
		now, page := uint64(i+1), Page(Hash(99, uint64(i), 0)%256)
		if obs != nil {
			if obs.Sampled(page) {
				obs.Observe(now, page)
			}
			obs.Miss(now, page)
		}
		out[i] = p.Fate(Victim{Page: page, Dirty: i%3 == 0, Now: now, Again: i%7 == 0})
	}
	return out
}

func TestFixedPlacers(t *testing.T) {
	for name, want := range map[string]Fate{"tier-order": ToT2, "bypass": ToT3, "random{p=0}": ToT3, "random{p=1}": ToT2} {
		p := newPlacer(t, name, 1)
		p.Grow(1000)
		for i, got := range fates(p, 1000) {
			if got != want {
				t.Fatalf("%s: eviction %d: %s, want %s", name, i, got, want)
			}
		}
	}
}

// TestRandomPlacerShare checks that the share of T2 is within four standard
// deviations of p, and that seeds matter.
func TestRandomPlacerShare(t *testing.T) {
	const n = 20000
	for _, pr := range []struct {
		policy string
		p      float64
	}{{"random{}", 0.5}, {"random{p=0.05}", 0.05}, {"random{p=0.9}", 0.9}} {
		a, b := fates(newPlacer(t, pr.policy, 1), n), fates(newPlacer(t, pr.policy, 2), n)
		t2, same := 0, 0
		for i := range a {
			if a[i] == ToT2 {
				t2++
			}
			if a[i] == b[i] {
				same++
			}
		}
		if dev := math.Abs(float64(t2) - pr.p*n); dev > 4*math.Sqrt(pr.p*(1-pr.p)*n) {
			t.Errorf("%s: %d of %d to T2", pr.policy, t2, n)
		}
		if same == n {
			t.Errorf("%s: two seeds give the same fates", pr.policy)
		}
	}
	for _, p := range []float64{-0.1, 1.1, math.NaN()} {
		if _, err := NewRandomPlacer(p, 1); err == nil {
			t.Errorf("probability %v was accepted", p)
		}
	}
}
