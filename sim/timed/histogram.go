package timed

import "math/bits"

// subBits makes 16 buckets an octave: a quantile is right to 6 %.
const subBits = 4

// histogram counts times in buckets whose width grows with the time.
type histogram struct {
	counts [(64 - subBits) << subBits]uint64
	n      uint64
	sum    float64
	max    int64
}

// bucketOf is exact below 16 ns and then keeps the first five binary digits.
func bucketOf(ns int64) int {
	v := uint64(max(ns, 0))
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return shift<<subBits + int(v>>shift)
}

// upperOf is the largest time in a bucket.
func upperOf(bucket int) int64 {
	if bucket < 2<<subBits {
		return int64(bucket)
	}
	shift := bucket>>subBits - 1
	return int64((uint64(bucket&(1<<subBits-1)+1<<subBits)+1)<<shift - 1)
}

func (h *histogram) add(ns int64) {
	h.counts[bucketOf(ns)]++
	h.n++
	h.sum += float64(ns)
	h.max = max(h.max, ns)
}

// quantile is the least bucket's end that at least q of the times do not pass.
func (h *histogram) quantile(q float64) int64 {
	need := uint64(q * float64(h.n))
	var seen uint64
	for b, c := range h.counts {
		if seen += c; c > 0 && seen >= need {
			return min(upperOf(b), h.max)
		}
	}
	return h.max
}

// Latency describes the times of one kind of move or access, in nanoseconds.
// Quantiles are upper ends of buckets, at most 6 % above the true ones.
type Latency struct {
	Name   string  `json:"name"`
	Count  uint64  `json:"count"`
	MeanNS float64 `json:"mean_ns"`
	P50NS  int64   `json:"p50_ns"`
	P90NS  int64   `json:"p90_ns"`
	P99NS  int64   `json:"p99_ns"`
	P999NS int64   `json:"p999_ns"`
	MaxNS  int64   `json:"max_ns"`
	// Histogram has a bucket for each octave that occurs; only a Replay's
	// latencies have one.
	Histogram []Bucket `json:"histogram,omitempty"`
}

// Bucket counts the times from above the bucket before it up to its end.
type Bucket struct {
	UpToNS int64  `json:"up_to_ns"` // a power of two, less 1
	Count  uint64 `json:"count"`
}

// octaves sums the histogram up by powers of two.
func (h *histogram) octaves() (out []Bucket) {
	var sum uint64
	for b, c := range h.counts {
		sum += c
		if up := upperOf(b); up&(up+1) == 0 && up > 0 && sum > 0 { // the octave's last
			out = append(out, Bucket{up, sum})
			sum = 0
		}
	}
	return out
}

func (h *histogram) latency(name string) Latency {
	return Latency{Name: name, Count: h.n, MeanNS: h.sum / float64(max(h.n, 1)),
		P50NS: h.quantile(0.5), P90NS: h.quantile(0.9), P99NS: h.quantile(0.99), P999NS: h.quantile(0.999), MaxNS: h.max}
}

func (h *histogram) withHistogram(name string) Latency {
	l := h.latency(name)
	l.Histogram = h.octaves()
	return l
}
