package mrc

import (
	"fmt"
	"math"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/sim"
)

// Pair is a size of the tiers in frames.
type Pair struct {
	GPU  int `json:"gpu_frames"`  // T1, at least 1
	Host int `json:"host_frames"` // T2; 0: no host tier
}

// Frames is the size of both tiers.
func (p Pair) Frames() int { return p.GPU + p.Host }

// The kinds of curves: how their points come about.
const (
	Exact     = "exact"      // LRU, every page: stack distances
	FixedRate = "shards"     // LRU, a share of the pages
	MaxPages  = "shards-max" // LRU, at most so many pages
	Simulated = "simulated"  // every point a simulation of the whole trace
	Miniature = "miniature"  // every point a simulation of a share of the pages
)

// Curve is what sizes of the tiers do with one trace under one policy, or the
// least that any policy can do. Its JSON names are stable.
type Curve struct {
	Trace    sim.TraceInfo `json:"trace"`
	Policy   string        `json:"policy"` // canonical; of a bound: "belady"
	Bound    bool          `json:"bound"`  // Belady's MIN: no policy reads less
	Kind     string        `json:"kind"`   // Exact, FixedRate, MaxPages, Simulated or Miniature
	Complete bool          `json:"complete"`

	Method
	PolicySeed   uint64 `json:"policy_seed"`   // of the policy's own random choices, where it is simulated
	SampledPages int    `json:"sampled_pages"` // of Trace.Pages
	// ExpectedError is the mean absolute error of the miss ratios that 9 of 10
	// samples of so many pages stay below; 0 when every page was measured.
	ExpectedError float64  `json:"expected_error"`
	Warnings      []string `json:"warnings,omitempty"`

	Points []Point `json:"points"`
}

// Point is one size of a curve. Counts are of the whole trace, and estimates
// where a sample was measured.
type Point struct {
	Pair
	Bytes     uint64  `json:"bytes"`      // of both tiers
	MissRatio float64 `json:"miss_ratio"` // SSD reads over accesses
	SSDReads  uint64  `json:"ssd_reads"`  // fetches, and prefetches that read

	// Of a bound these are nil: it says nothing about where pages are.
	T1Hits     *uint64 `json:"t1_hits,omitempty"`
	T2Hits     *uint64 `json:"t2_hits,omitempty"`
	Overwrites *uint64 `json:"overwrites,omitempty"` // whole-page writes of pages in no tier
}

// newPoint makes a point from counts of a trace.
func newPoint(p Pair, t Tally, info sim.TraceInfo) Point {
	pt := boundPoint(p, t.SSDReads(), info)
	t1, t2, over := whole(t.T1Hits), whole(t.T2Hits), whole(t.Overwrites)
	pt.T1Hits, pt.T2Hits, pt.Overwrites = &t1, &t2, &over
	return pt
}

func boundPoint(p Pair, reads float64, info sim.TraceInfo) Point {
	pt := Point{Pair: p, Bytes: uint64(p.Frames()) * info.PageSize, SSDReads: whole(reads)}
	if info.Accesses > 0 {
		pt.MissRatio = reads / float64(info.Accesses)
	}
	return pt
}

func whole(x float64) uint64 { return uint64(math.Round(max(x, 0))) }

// sampled notes how many of a trace's pages a curve comes from, and what to
// think of it.
func (c *Curve) sampled(pages int) {
	c.SampledPages = pages
	if c.Kind == Exact || c.Kind == Simulated || c.Whole() {
		return
	}
	c.ExpectedError = c.Correction.ExpectedError(pages)
	if pages < MinSampled {
		c.warn("only %s of %s pages were sampled: below %s, miss ratios may be off by more than %.2g on average",
			units.FormatCount(uint64(pages)), pagesOf(c.Trace), units.FormatCount(MinSampled), c.ExpectedError)
	}
}

// Whole says whether the sample was of every page in the end.
func (c *Curve) Whole() bool { return c.Rate >= 1 && c.SampledPages == c.Trace.Pages }

func pagesOf(info sim.TraceInfo) string { return units.FormatCount(uint64(info.Pages)) }

func (c *Curve) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
}

// Curve reads sizes off a profile. info describes the trace that was measured.
func (p *Profile) Curve(info sim.TraceInfo, policy string, pairs []Pair) Curve {
	info.Accesses, info.Prefetches = p.Accesses, p.Prefetches
	c := Curve{Trace: info, Policy: policy, Kind: FixedRate, Complete: true, Method: p.Method, Points: []Point{}}
	switch {
	case p.Method.exact():
		c.Kind = Exact
	case p.Method.MaxPages > 0:
		c.Kind = MaxPages
	}
	c.sampled(p.SampledPages)
	if p.PagesEstimated {
		c.warn("the trace's number of distinct pages is an estimate, like all that is told of them")
	}
	if p.Prefetches > 0 {
		c.warn("the trace has %s prefetches, which count as uses here; a simulation at one size leaves a page's age alone when it is in T1 already",
			units.FormatCount(p.Prefetches))
	}
	for _, pair := range pairs {
		c.Points = append(c.Points, newPoint(pair, p.At(pair.GPU, pair.Host), info))
	}
	return c
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
		size := min(high, int(math.Round(float64(low)*math.Exp(ratio*float64(i)/float64(n-1)))))
		if len(out) == 0 || size > out[len(out)-1] {
			out = append(out, size)
		}
	}
	return out
}

// Pairs gives each size of T1 a T2 of factor times as many frames.
func Pairs(gpu []int, factor float64) []Pair {
	out := make([]Pair, len(gpu))
	for i, n := range gpu {
		out[i] = Pair{GPU: n, Host: int(math.Round(factor * float64(n)))}
	}
	return out
}
