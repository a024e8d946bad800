package mrc

import "math"

// tally holds weights of accesses by depth.
type tally struct {
	depths []float64
	sum    float64
}

func (t *tally) add(depth int, weight float64) {
	t.depths = extend(t.depths, depth+1)
	t.depths[depth] += weight
	t.sum += weight
}

// upTo sums the weights up to each depth.
func (t *tally) upTo() []float64 {
	c := make([]float64, max(len(t.depths), 1))
	sum := 0.0
	for d, w := range t.depths {
		sum += w
		c[d] = sum
	}
	return c
}

// goldenRatio spreads the fractions of its multiples evenly over 0 to 1.
const goldenRatio = 0.6180339887498949

// spread returns the bucket of a depth of a sample whose pages stand for so many.
func spread(depth uint32, pages float64, phase *float64) int {
	at := float64(depth)
	if pages > 1 {
		_, *phase = math.Modf(*phase + goldenRatio)
		at -= *phase
	}
	return bucketOf(uint64(math.Ceil(at * pages)))
}
