package main

import (
	"math"
	"math/bits"
	"time"
)

// Latencies are counted in buckets of which each power of two has 128, so that
// a percentile is off by less than 0.8 %.
const (
	subBuckets    = 128
	subBits       = 7
	latencyLimit  = 44 // bits of nanoseconds: almost five hours
	latencyCounts = (latencyLimit - subBits + 1) * subBuckets
)

// latencies is a histogram of durations. The zero value is empty. Adding
// allocates nothing. It is not safe for concurrent use.
type latencies struct {
	counts [latencyCounts]uint64
	n      uint64
}

func (l *latencies) add(ns int64) {
	v := uint64(min(max(ns, 0), 1<<latencyLimit-1))
	i := v
	if v >= subBuckets {
		shift := bits.Len64(v) - subBits - 1
		i = uint64(shift)*subBuckets + v>>shift
	}
	l.counts[i]++
	l.n++
}

// merge adds another histogram.
func (l *latencies) merge(o *latencies) {
	for i, c := range o.counts {
		l.counts[i] += c
	}
	l.n += o.n
}

// percentile is the latency that a share p of all does not exceed; the middle of its bucket.
func (l *latencies) percentile(p float64) time.Duration {
	rank := max(uint64(math.Ceil(p*float64(l.n))), 1)
	for i, c := range l.counts {
		if rank <= c {
			return time.Duration(bucketMiddle(uint64(i)))
		}
		rank -= c
	}
	return 0 // empty
}

func bucketMiddle(i uint64) uint64 {
	if i < 2*subBuckets {
		return i
	}
	shift := i/subBuckets - 1
	return (i-shift*subBuckets)<<shift + 1<<shift/2
}
