package sim

import (
	"math"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// Sample is a miniature of a trace: the accesses of those pages alone whose
// hash lies below a rate (Waldspurger, Park, Garthwaite and Ahmad, FAST 2015,
// "SHARDS"). A tier that is smaller by the same rate does with it about what
// the whole tier does with the whole trace, under any policy (Waldspurger,
// Saemundsson, Ahmad and Park, USENIX ATC 2017). It is read-only, and safe for
// concurrent use as such.
type Sample struct {
	Trace *Trace  // pages are renumbered densely; Info describes the sample
	Rate  float64 // of the pages, as asked for
	Seed  uint64  // of the hash
	// Share is the sampled pages over all pages: what Rate came to. Tiers are
	// scaled by it, since that takes the chance out of how many pages there are.
	Share  float64
	Weight float64 // accesses of the whole over those of the sample
	Whole  TraceInfo
}

// SampledBelow is the threshold that SamplePoint is compared with at a rate
// from 0 to 1.
func SampledBelow(rate float64) uint64 {
	if rate >= 1 {
		return 1 << sampleBits
	}
	return uint64(math.Round(max(rate, 0) * (1 << sampleBits)))
}

// sampleBits is the width of a sample point: few enough that every rate's
// threshold is a float64 without rounding, more than pages can tell apart.
const sampleBits = 48

// SamplePoint is the place of p among the sampled pages under a seed, from 0 to
// 2^48-1: p is sampled at a rate when it is less than SampledBelow(rate), so
// that a sample at a lower rate is a part of one at a higher rate.
func SamplePoint(seed uint64, p placement.Page) uint64 {
	return placement.Hash(seed, sampleDomain, p) >> (64 - sampleBits)
}

// sampleDomain keeps the choice of pages apart from every other use of a seed:
// virtual times, which the policies hash, do not come near it.
const sampleDomain = 1<<63 + 0x5348

// Sample makes the miniature of t at a rate above 0 and up to 1; 1 is t itself,
// without a copy. At least one page is sampled, whatever the rate. Requests are
// dropped: of a prompt's pages a miniature has a few, so that its prefix hits
// would mean nothing.
func (t *Trace) Sample(rate float64, seed uint64) *Sample {
	s := &Sample{Trace: t, Rate: min(rate, 1), Seed: seed, Share: 1, Weight: 1, Whole: t.Info}
	if rate >= 1 || t.Info.Pages == 0 {
		return s
	}
	number, pages := t.choose(SampledBelow(rate), seed)
	s.Trace = t.restrict(number, pages)
	s.Share = float64(pages) / float64(t.Info.Pages)
	if n := s.Trace.Info.Accesses; n > 0 {
		s.Weight = float64(t.Info.Accesses) / float64(n)
	}
	return s
}

// choose numbers the pages whose point is below a threshold, in order of first
// appearance as every trace has them; the others have unsampled.
func (t *Trace) choose(below, seed uint64) (number []placement.Page, pages int) {
	number = make([]placement.Page, t.Info.Pages)
	first, lowest := 0, uint64(math.MaxUint64)
	for p := range number {
		number[p] = unsampled
		at := SamplePoint(seed, placement.Page(p))
		if at < lowest {
			first, lowest = p, at
		}
		if at < below {
			number[p] = placement.Page(pages)
			pages++
		}
	}
	if pages == 0 {
		number[first], pages = 0, 1
	}
	return number, pages
}

const unsampled = placement.None

// restrict is t with the numbered pages alone.
func (t *Trace) restrict(number []placement.Page, pages int) *Trace {
	n := 0
	for _, a := range t.Accesses {
		if number[a.Page()] != unsampled {
			n++
		}
	}
	r := &Trace{Info: t.Info, Accesses: make([]tier.Access, 0, n)}
	r.Info.Pages, r.Info.Requests, r.Info.Writes, r.Info.Prefetches = pages, 0, 0, 0
	for _, a := range t.Accesses {
		p := number[a.Page()]
		if p == unsampled {
			continue
		}
		r.Accesses = append(r.Accesses, tier.MakeAccess(p, a.Op()))
		switch a.Op() {
		case tier.Write, tier.Overwrite:
			r.Info.Writes++
		case tier.Prefetch:
			r.Info.Prefetches++
		}
	}
	r.Info.Accesses = uint64(n) - r.Info.Prefetches
	return r
}

// Frames is the size in the miniature of a tier of n frames: n times Share,
// rounded. A tier that is not there stays away, every other has a frame at
// least.
func (s *Sample) Frames(n int) int {
	if n <= 0 {
		return 0
	}
	return max(1, int(math.Round(float64(n)*s.Share)))
}

// Count estimates how often something happens on the whole trace that happened
// n times in the miniature: misses, write-backs, whatever a page's own
// accesses cause. It is n over Share, and not n times Weight: when the sample
// has fewer accesses than it should, then it lacks hot pages, which hardly miss
// (the correction that the authors of SHARDS call adj).
func (s *Sample) Count(n uint64) float64 { return float64(n) / s.Share }
