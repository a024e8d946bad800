package placement

import "fmt"

// RandomPlacer sends a victim of T1 to T2 with a fixed probability and else to
// T3 (GMT-Random, ASPLOS 2024). The draw is a Hash of seed, virtual time and
// page, so that a replay and the GPU draw the same.
type RandomPlacer struct {
	seed  uint64
	below uint64 // a draw of 53 bits below it is T2
}

// drawBits is the width of a draw: what a float64 holds exactly.
const drawBits = 53

// draw is a number of drawBits bits that seed, virtual time and page decide.
func draw(seed, now uint64, p Page) uint64 { return Hash(seed, now, p) >> (64 - drawBits) }

// drawsBelow is the bound that a draw is below with probability p.
func drawsBelow(p float64) uint64 { return uint64(p * (1 << drawBits)) }

// NewRandomPlacer makes a RandomPlacer: p is the probability of T2, 0 to 1.
func NewRandomPlacer(p float64, seed uint64) (*RandomPlacer, error) {
	if !(p >= 0 && p <= 1) {
		return nil, fmt.Errorf("a probability of %v is not within 0 and 1", p)
	}
	return &RandomPlacer{seed: seed, below: drawsBelow(p)}, nil
}

// Name is random.
func (*RandomPlacer) Name() string { return "random" }

// Grow has nothing to prepare.
func (*RandomPlacer) Grow(int) {}

// Fate draws ToT2 or ToT3.
func (r *RandomPlacer) Fate(v Victim) Fate {
	if draw(r.seed, v.Now, v.Page) < r.below {
		return ToT2
	}
	return ToT3
}

// Below is the bound that a victim's draw, the upper 53 bits of its Hash, has to be
// below to go to T2: for whoever draws elsewhere, such as a GPU.
func (r *RandomPlacer) Below() uint64 { return r.below }
