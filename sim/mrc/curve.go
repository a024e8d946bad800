package mrc

import "math"

// Pair is a size of the tiers in frames.
type Pair struct {
	GPU  int `json:"gpu_frames"`  // T1, at least 1
	Host int `json:"host_frames"` // T2; 0: no host tier
}

// Grid is at most n sizes from low to high on a logarithmic scale, both ends
// included.
func Grid(low, high, n int) []int {
	low = max(low, 1)
	if high <= low || n < 2 {
		return []int{max(low, high)}
	}
	var out []int
	ratio := math.Log(float64(high) / float64(low))
	for i := range n {
		size := int(math.Round(float64(low) * math.Exp(ratio*float64(i)/float64(n-1))))
		if len(out) == 0 || size > out[len(out)-1] {
			out = append(out, min(size, high))
		}
	}
	return out
}
