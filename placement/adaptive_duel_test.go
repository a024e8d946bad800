package placement

import (
	"testing"

	"pgregory.net/rapid"
)

// TestDuel: regret switches when it exceeds least and its part of the price.
func TestDuel(t *testing.T) {
	d := newDuel(100, 0.03, 0.5) // 2 and 3: at least 5
	d.grow(1000)
	step := func(order, reuse bool) bool { return d.fetched(order, reuse, false) }
	lose := func(n int) (switches int) { // the one that is followed fetches, the other does not
		for range n {
			if step(d.leader == leadOrder, d.leader == leadReuse) {
				switches++
			}
		}
		return switches
	}
	if d.leader != leadReuse {
		t.Fatal("tier-order is followed first")
	}
	if lose(5) != 0 || d.regret != 5 {
		t.Errorf("switched at a regret of %d", d.regret)
	}
	for range 3 {
		step(true, true)
		step(false, false)
	}
	step(true, false) // tier-order fetches
	if d.regret != 4 || lose(1) != 0 || lose(1) != 1 || d.leader != leadOrder || d.regret != 0 || d.switches != 1 {
		t.Errorf("regret %d, leader %d after %d switches", d.regret, d.leader, d.switches)
	}
	// gmt-reuse's shadow holds ten pages that the real memory lacks: 5 more.
	for p := range Page(20) {
		d.enter(p, holdsReuse)
		if p < 10 {
			d.enter(p, holdsT2)
		}
	}
	if lose(10) != 0 || lose(1) != 1 {
		t.Errorf("at a price of %d: regret %d", d.lacks, d.regret)
	}
	for range 100 { // whoever is followed is better: no regret
		if step(d.leader != leadOrder, d.leader != leadReuse) || d.regret != 0 {
			t.Fatal("regret without a loss")
		}
	}
}

// TestDuelLosesPatience: the more switches have cost, the more regret the next
// one takes.
func TestDuelLosesPatience(t *testing.T) {
	d := newDuel(100, 0.03, 0)
	d.fetches = [2]int{10_000, 10_000}
	for _, c := range []struct {
		real int
		want float64
	}{{9_000, 5}, {10_000, 5}, {10_051, 10}, {10_102, 15}} {
		d.real = c.real
		if got := d.threshold(); got < c.want-0.1 || got > c.want+0.1 {
			t.Errorf("%d fetches of the real memory: threshold %.2f, want %.0f", c.real, got, c.want)
		}
	}
	d.regret = 51 // what is lost by waiting is no reason to wait longer
	if got := d.threshold(); got > 10.1 {
		t.Errorf("threshold %.2f with a regret of 51", got)
	}
}

// TestDuelCounts compares the counts of lacking pages with a look at every page.
func TestDuelCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDuel(10, 0, 1)
		d.grow(30)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			p := Page(rapid.IntRange(0, 29).Draw(t, "page"))
			who := rapid.SampledFrom([]uint8{holdsOrder, holdsReuse, holdsT1, holdsT2, holdsT1 | wasSeen}).Draw(t, "who")
			if rapid.Bool().Draw(t, "enter") {
				d.enter(p, who)
			} else {
				d.leave(p, who)
			}
		}
		var want [2]int
		for _, h := range d.held[:30] {
			for leader, who := range []uint8{holdsOrder, holdsReuse} {
				if h&who != 0 && h&holdsReal == 0 {
					want[leader]++
				}
			}
		}
		if d.lacks != want {
			t.Fatalf("lacking %v, want %v", d.lacks, want)
		}
	})
}
