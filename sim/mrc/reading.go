package mrc

import (
	"slices"

	"github.com/tritier/tritier/sim"
)

// Reading is what a curve says about one size of the tiers: where its accesses
// are served now, and what more memory would change.
type Reading struct {
	Trace  sim.TraceInfo `json:"trace"`
	Policy string        `json:"policy"`
	Bound  bool          `json:"bound"`
	Kind   string        `json:"kind"`
	Now    Point         `json:"now"`
	Offers []Offer       `json:"offers"`
}

// Offer is more memory, and what it would come to.
type Offer struct {
	More  Pair  `json:"more"` // frames on top of those there are; either may be 0
	Then  Point `json:"then"`
	Saved int64 `json:"ssd_reads_saved"` // negative: there would be more
}

// PairsToRead are the points that a curve needs for a Reading.
func PairsToRead(now Pair, more []Pair) []Pair {
	out := []Pair{now}
	for _, m := range more {
		out = append(out, now.plus(m))
	}
	return out
}

func (p Pair) plus(more Pair) Pair { return Pair{GPU: p.GPU + more.GPU, Host: p.Host + more.Host} }

// At is the curve's point of a size; false if it has none.
func (c *Curve) At(p Pair) (Point, bool) {
	i := slices.IndexFunc(c.Points, func(pt Point) bool { return pt.Pair == p })
	if i < 0 {
		return Point{}, false
	}
	return c.Points[i], true
}

// Read reads what more memory would buy; false if the curve lacks the point of
// what there is. Offers whose points it lacks are left out.
func (c *Curve) Read(now Pair, more []Pair) (Reading, bool) {
	pt, ok := c.At(now)
	r := Reading{Trace: c.Trace, Policy: c.Policy, Bound: c.Bound, Kind: c.Kind, Now: pt}
	for _, m := range more {
		if then, found := c.At(now.plus(m)); found {
			r.Offers = append(r.Offers, Offer{More: m, Then: then, Saved: int64(pt.SSDReads) - int64(then.SSDReads)})
		}
	}
	return r, ok
}

// Only is the curve with the points of these sizes alone, in their order.
func (c *Curve) Only(pairs []Pair) Curve {
	out := *c
	out.Points = []Point{}
	for _, p := range pairs {
		if pt, ok := c.At(p); ok {
			out.Points = append(out.Points, pt)
		}
	}
	return out
}
