package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// naiveMIN simulates Belady's rule literally: on a miss in a full cache, the
// resident page whose next use is farthest leaves.
func naiveMIN(accs []tier.Access, frames int) (misses uint64) {
	resident := map[placement.Page]bool{}
	nextUse := func(p placement.Page, after int) int {
		for i := after; i < len(accs); i++ {
			if accs[i].Page() == p {
				return i
			}
		}
		return len(accs)
	}
	for i, a := range accs {
		if resident[a.Page()] {
			continue
		}
		misses++
		if len(resident) == frames {
			far, victim := -1, placement.None
			for p := range resident {
				if n := nextUse(p, i); n > far {
					far, victim = n, p
				}
			}
			delete(resident, victim)
		}
		resident[a.Page()] = true
	}
	return misses
}

func TestBoundEqualsBeladySimulated(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, seed))
	for round := range 300 {
		pages, frames := 1+rng.IntN(20), 1+rng.IntN(12)
		accs := make([]tier.Access, 1+rng.IntN(300))
		for i := range accs {
			accs[i] = tier.MakeAccess(placement.Page(rng.IntN(pages)), tier.Op(rng.IntN(2)))
		}
		b := NewBound(frames, 0)
		for rest := accs; len(rest) > 0; {
			n := min(1+rng.IntN(50), len(rest))
			b.Run(rest[:n], pages)
			if rng.IntN(3) == 0 {
				b.compact()
			}
			rest = rest[n:]
		}
		if got, want := b.Reads(), naiveMIN(accs, frames); got != want {
			t.Fatalf("seed %d round %d: %d pages, %d frames: bound %d, Belady simulated %d\n%v", seed, round, pages, frames, got, want, accs)
		}
	}
}

// Whole-page writes read nothing: MIN may let their pages go for free.
func TestBoundOverwrites(t *testing.T) {
	acc := func(p int, op tier.Op) tier.Access { return tier.MakeAccess(placement.Page(p), op) }
	for _, c := range []struct {
		frames int
		accs   []tier.Access
		want   uint64
	}{
		{1, []tier.Access{acc(0, tier.Overwrite), acc(0, tier.Read)}, 0},
		{1, []tier.Access{acc(0, tier.Overwrite), acc(1, tier.Read), acc(0, tier.Read)}, 2},
		{2, []tier.Access{acc(0, tier.Read), acc(1, tier.Read), acc(2, tier.Overwrite), acc(0, tier.Overwrite), acc(1, tier.Read)}, 2},
	} {
		b := NewBound(c.frames, 0)
		b.Run(c.accs, 3)
		if b.Reads() != c.want {
			t.Errorf("%d frames, %v: bound %d, want %d", c.frames, c.accs, b.Reads(), c.want)
		}
	}
}

// Memory stays bounded on a trace far longer than its footprint.
func TestBoundCompacts(t *testing.T) {
	const pages, rounds = 1000, 4000
	accs := make([]tier.Access, pages)
	for i := range accs {
		accs[i] = tier.MakeAccess(placement.Page(i), tier.Read)
	}
	b := NewBound(101, 0)
	for range rounds {
		b.Run(accs, pages)
	}
	// In a loop over L pages MIN keeps frames-1 of them from round to round,
	// less the share that Belady's rotation costs: (L-1) accesses reuse
	// frames-1 intervals.
	want := uint64(pages*rounds) - savedInLoop(pages, 101, rounds)
	if got := b.Reads(); got != want {
		t.Errorf("reads %d, want %d", got, want)
	}
	if b.free.size() > 4*(pages+100)+boundSlack+64 {
		t.Errorf("%d slots for %d pages", b.free.size(), pages)
	}
}

// savedInLoop is MIN's hits in a cyclic scan: each of the frames-1 tracks
// serves one interval of length pages after another, back to back, and the
// tracks start in the first round, one access after another.
func savedInLoop(pages, frames, rounds int) uint64 {
	saved := uint64(0)
	ends := make([]int, frames-1) // track -> access from which it is free
	for t := pages; t < pages*rounds; t++ {
		for i, end := range ends {
			if end <= t-pages {
				ends[i] = t - 1
				saved++
				break
			}
		}
	}
	return saved
}

func BenchmarkBound(b *testing.B) {
	for _, pages := range []int{10_000, 200_000} {
		b.Run(fmt.Sprint(pages), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			accs := make([]tier.Access, 1<<20)
			for i := range accs {
				accs[i] = tier.MakeAccess(placement.Page(rng.IntN(1+rng.IntN(pages))), tier.Read)
			}
			for b.Loop() {
				NewBound(pages/10, 0).Run(accs, pages)
			}
			b.ReportMetric(float64(len(accs))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Maccess/s")
		})
	}
}

// The set agrees with a map whatever its number of levels.
func TestSlotSet(t *testing.T) {
	const seed = 21
	rng := rand.New(rand.NewPCG(seed, 4))
	for _, n := range []int{1, 64, 65, 4097, 300_000} {
		set, want := newSlotSet(n), map[uint32]bool{}
		naive := func(i uint32) (uint32, bool) {
			for j := int(i); j >= 0; j-- {
				if want[uint32(j)] {
					return uint32(j), true
				}
			}
			return 0, false
		}
		for range 2000 {
			i := uint32(rng.IntN(n))
			switch rng.IntN(4) {
			case 0:
				set.add(i)
				want[i] = true
			case 1:
				set.remove(i)
				delete(want, i)
			default:
				got, ok := set.upTo(i)
				if w, found := naive(i); got != w || ok != found {
					t.Fatalf("seed %d: of %d, up to %d: %d %v, want %d %v", seed, n, i, got, ok, w, found)
				}
			}
		}
	}
}
