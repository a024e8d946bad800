package placement_test

import (
	"fmt"
	"testing"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/placement/policytest"
)

// marked marks pages on their way into a T2 as unwanted, and those that it holds
// as copies, by a draw.
type marked struct {
	placement.Evictor
	calls uint64
}

func (m *marked) draw(p placement.Page) uint64 {
	m.calls++
	return placement.Hash(9, m.calls, p)
}

func (m *marked) Insert(p placement.Page) {
	placement.UnwantedIn(m.Evictor, p, m.draw(p)%2 == 0)
	m.Evictor.Insert(p)
}

func (m *marked) Hit(p placement.Page) {
	if m.draw(p)%3 == 0 {
		placement.UsedIn(m.Evictor, p)
		return
	}
	placement.UnwantedIn(m.Evictor, p, m.draw(p)%2 == 0)
	m.Evictor.Hit(p)
}

// TestAdaptiveT2Conformance runs the suite of evictors on the T2 of adaptive,
// whether it gives up unwanted pages first or not.
func TestAdaptiveT2Conformance(t *testing.T) {
	for _, inside := range []string{"fifo", "lru", "clock", "random", "arc", "s3-fifo"} {
		for _, early := range []bool{true, false} {
			if inside != "fifo" && !early {
				continue // the inner evictor's own business
			}
			spec, err := placement.Parse("adaptive{t2=" + inside + "}")
			if err != nil {
				t.Fatal(err)
			}
			t.Run(fmt.Sprintf("%s early %t", inside, early), func(t *testing.T) {
				smallest := 1
				if inside == "s3-fifo" {
					smallest = placement.MinFramesS3FIFO
				}
				policytest.Run(t, func(frames, pages int, seed uint64) (placement.Evictor, error) {
					p, err := spec.Build(placement.Env{T1Frames: 1, T2Frames: frames, Pages: pages, Seed: seed})
					switch {
					case err != nil:
						return nil, err
					case frames == 0:
						return nil, fmt.Errorf("without a T2 there is nothing to test: %s needs %d frames", inside, smallest)
					}
					placement.GiveEarly(p.T2, early)
					return &marked{Evictor: p.T2}, nil
				}, policytest.Options{Smallest: smallest})
			})
		}
	}
}
