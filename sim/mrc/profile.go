package mrc

import "math"

// Profile is what LRU of any size does with a trace, as it was measured exactly
// or from a sample. It is immutable and safe for concurrent use.
type Profile struct {
	Method       Method
	Accesses     uint64 // of the whole trace, as far as it was read
	Prefetches   uint64 // likewise
	Pages        int    // distinct pages of the whole trace, likewise
	SampledPages int    // at the end, of a sample that shrank
	// SampledAccesses are those of the sample, prefetches included.
	SampledAccesses uint64
	// Uncorrected scales what the sample counts by the number of its accesses.
	// Otherwise the accesses that the sample has too few or too many are taken
	// for hits at any size, since it is a few hot pages that make the
	// difference: SHARDS-adj.
	Uncorrected bool

	// upTo[kind][i] counts accesses at depths up to i frames of a miniature, or
	// up to the end of bucket i; first[kind] those at their page's first use.
	upTo   [kinds][]float64
	first  [kinds]float64
	share  float64 // frames of the miniature for one of the whole
	bucket bool    // upTo is by buckets of frames of the whole; counts are scaled already
}

// Tally is what one size of the tiers does with a whole trace: counts of
// accesses. Those of a sampled profile are estimates.
type Tally struct {
	T1Hits, T2Hits float64
	Fetches        float64 // accesses that read the SSD
	Overwrites     float64 // whole-page writes of pages in no tier
	PrefetchReads  float64 // prefetches that read the SSD
}

// SSDReads is the number of pages read from T3, prefetches included.
func (t Tally) SSDReads() float64 { return t.Fetches + t.PrefetchReads }

// At is what tier-order over LRU in both tiers does with T1 and T2 of so many
// frames; host 0 is LRU in T1 alone. Both tiers are one stack, so that T1 hits
// are those of LRU over gpu frames, and T1 and T2 hits together those over gpu
// and host frames.
func (p *Profile) At(gpu, host int) Tally {
	missed := p.misses(gpu)
	all := p.misses(gpu + host)
	accesses := float64(p.Accesses)
	t1 := accesses - missed[fetches] - missed[overwrites]
	return Tally{T1Hits: t1, T2Hits: accesses - t1 - all[fetches] - all[overwrites],
		Fetches: all[fetches], Overwrites: all[overwrites], PrefetchReads: all[prefetches]}
}

// misses estimates the misses of LRU over so many frames, by kind.
func (p *Profile) misses(frames int) (m [kinds]float64) {
	scale := p.scale()
	for kind := range m {
		c := p.upTo[kind]
		total := p.first[kind] + c[len(c)-1]
		m[kind] = scale * (total - p.hits(c, frames))
	}
	// What a sample has too many cannot miss more often than there are accesses.
	accesses := float64(p.Accesses)
	if sum := m[fetches] + m[overwrites]; sum > accesses {
		m[fetches] *= accesses / sum
		m[overwrites] *= accesses / sum
	}
	m[prefetches] = min(m[prefetches], float64(p.Prefetches))
	return m
}

// scale turns counts of the sample into counts of the whole.
func (p *Profile) scale() float64 {
	total := 0.0
	for kind, c := range p.upTo {
		total += p.first[kind] + c[len(c)-1]
	}
	switch {
	case p.Uncorrected && total > 0:
		return float64(p.Accesses+p.Prefetches) / total
	case p.bucket || p.share == 0:
		return 1
	}
	return 1 / p.share
}

// hits counts accesses at depths up to so many frames. Between two sizes of the
// miniature it interpolates: an access at depth k of the sample lies at any depth
// from k-1 to k sizes of the whole.
func (p *Profile) hits(c []float64, frames int) float64 {
	x := float64(frames) * p.share
	if p.bucket {
		x = bucketPlace(frames)
	}
	i := math.Floor(x)
	if i >= float64(len(c)-1) {
		return c[len(c)-1]
	}
	at := c[int(i)]
	return at + (x-i)*(c[int(i)+1]-at)
}

// Frames is the size from which on LRU has no more hits: that of the deepest
// access. Beyond it only first uses miss.
func (p *Profile) Frames() int {
	deepest := 0
	for _, c := range p.upTo {
		for i := len(c) - 1; i > 0; i-- {
			if c[i] != c[i-1] {
				deepest = max(deepest, i)
				break
			}
		}
	}
	if p.bucket {
		return bucketEnd(deepest)
	}
	return int(math.Ceil(float64(deepest) / p.share))
}
