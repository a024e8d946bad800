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
	// PagesEstimated says that Pages comes from the sample.
	PagesEstimated bool
	// SampledAccesses are those of the sampled pages, prefetches included.
	SampledAccesses uint64

	kinds  [kinds]kindProfile
	share  float64 // sampled pages for one of the whole
	bucket bool    // depths are in buckets of frames of the whole, else in sampled pages
}

// kindProfile is about the accesses of one kind.
type kindProfile struct {
	all    float64 // in the whole trace
	hotAll float64 // of these, of pages that are counted apart
	first  float64 // at their page's first use
	again  depths  // at any further one
	hot    depths  // of pages that are counted apart
}

// depths are accesses by depth.
type depths struct {
	upTo  []float64 // weights at depths up to i, or up to the end of bucket i
	scale float64   // accesses of the whole trace for one
}

func (d *depths) total() float64 { return d.upTo[len(d.upTo)-1] }

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

// sum counts accesses and prefetches from those of each kind.
func (p *Profile) sum() {
	p.Accesses = uint64(p.kinds[fetches].all + p.kinds[overwrites].all)
	p.Prefetches = uint64(p.kinds[prefetches].all)
	if p.Method.exact() {
		p.SampledAccesses = p.Accesses + p.Prefetches
	}
}

// correct chooses what an access of the sample stands for.
func (p *Profile) correct() {
	var firsts, all, seen float64
	for i := range p.kinds {
		k := &p.kinds[i]
		firsts, all, seen = firsts+k.first, all+k.all, seen+k.first+k.again.total()
	}
	for i := range p.kinds {
		k := &p.kinds[i]
		switch {
		case p.Method.Correction == CorrectHot:
			if firsts > 0 {
				k.first *= float64(p.Pages) / firsts
			} else if all > 0 { // not a page was sampled
				k.first = float64(p.Pages) * k.all / all
			}
			k.correctHot()
		case p.Method.Correction == CorrectNone && seen > 0:
			k.first, k.again.scale = k.first*all/seen, all/seen
		case p.bucket:
			k.again.scale = 1
		case p.share > 0:
			k.first, k.again.scale = k.first/p.share, 1/p.share
		}
	}
}

// correctHot makes the accesses of each sort as many as they are: first uses, of
// hot pages, and the rest.
func (k *kindProfile) correctHot() {
	k.first = min(k.first, k.all)
	if t := k.again.total(); t > 0 {
		k.again.scale = max(0, k.all-k.first-k.hotAll) / t
	}
	if t := k.hot.total(); t > 0 {
		k.hot.scale = k.hotAll / t
	}
}

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

// misses estimates the misses of LRU over so many frames, by kind. What a sample
// has too many of cannot miss more often than there are accesses.
func (p *Profile) misses(frames int) (m [kinds]float64) {
	for i := range m {
		k := &p.kinds[i]
		m[i] = min(k.all, k.first+p.deeper(&k.again, frames)+p.deeper(&k.hot, frames))
	}
	return m
}

// deeper is the number of accesses at depths beyond so many frames.
func (p *Profile) deeper(d *depths, frames int) float64 {
	if len(d.upTo) == 0 {
		return 0
	}
	return d.scale * (d.total() - p.hits(d.upTo, frames))
}

// hits counts accesses at depths up to so many frames. Between two sizes of the
// miniature it interpolates: an access at depth k of the sample lies at any depth
// from k-1 to k sizes of the whole.
func (p *Profile) hits(upTo []float64, frames int) float64 {
	x := float64(frames) * p.share
	if p.bucket {
		x = bucketPlace(frames)
	}
	i := math.Floor(x)
	if i >= float64(len(upTo)-1) {
		return upTo[len(upTo)-1]
	}
	at := upTo[int(i)]
	return at + (x-i)*(upTo[int(i)+1]-at)
}

// Frames is the size from which on LRU has no more hits: that of the deepest
// access. Beyond it only first uses miss.
func (p *Profile) Frames() int {
	deepest := 0
	for _, k := range p.kinds {
		for _, d := range []depths{k.again, k.hot} {
			for i := len(d.upTo) - 1; i > deepest; i-- {
				if d.upTo[i] != d.upTo[i-1] {
					deepest = i
				}
			}
		}
	}
	if p.bucket {
		return bucketEnd(deepest)
	}
	return int(math.Ceil(float64(deepest) / p.share))
}
