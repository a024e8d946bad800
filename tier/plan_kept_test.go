package tier

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tritier/tritier/placement"
)

// TestPlanKept: when a wave breaks the plan before anything is in a frame, every page's newest bytes
// are on T3 or where Kept says, whatever the wave was to move, and writes that had failed before.
func TestPlanKept(t *testing.T) {
	for _, spec := range planPolicies {
		for _, size := range [][3]int{{1, 0, 2}, {1, 1, 2}, {2, 1, 2}, {2, 3, 3}, {4, 2, 8}, {5, 1, 32}, {8, 16, 64}} {
			for seed := range seeds(40) {
				t.Run(fmt.Sprintf("%s/%v/%d", spec, size, seed), func(t *testing.T) { planKept(t, spec, size, seed) })
			}
		}
	}
}

func planKept(t *testing.T, spec string, size [3]int, seed uint64) {
	const pages = 40
	s, p := newStore(t, spec, size[0], size[1], pages, size[2], seed, 0.1)
	rng := rand.New(rand.NewPCG(seed, 5))
	for s.breaks = 1 + rng.IntN(60); p.Broken() == nil; {
		page, op := randomAccess(rng, pages)
		if rng.IntN(3) == 0 {
			op = Write
		}
		if err := p.Access(page, op, 0); err == nil && rng.IntN(30) == 0 {
			err = p.Finish()
			if err != nil && !errors.Is(err, errInjected) {
				t.Fatal(err)
			}
		}
	}
	kept := map[placement.Page]bool{}
	p.Kept(func(at Place) {
		from := s.frames
		if at.InT2 {
			from = s.slots
		}
		if got := from[at.Index]; got != (stamp{at.Page, s.want[at.Page]}) {
			t.Errorf("page %d of version %d is at %+v, where %v is", at.Page, s.want[at.Page], at, got)
		}
		if kept[at.Page] {
			t.Errorf("page %d is named twice", at.Page)
		}
		kept[at.Page] = true
	})
	for page := range placement.Page(pages) {
		if s.t3[page] != s.want[page] && !kept[page] {
			t.Errorf("page %d of version %d is nowhere: T3 has %d", page, s.want[page], s.t3[page])
		}
	}
}
