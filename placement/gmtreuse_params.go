package placement

import "math"

// ReuseParams is the parameter block of gmt-reuse: all that a decision needs
// beside a page's own record. It is plain data, replaced as a whole after each
// fit, so that a GPU works from a copy of it.
type ReuseParams struct {
	Version uint64  `json:"version"` // trusted fits so far: the last of them is in force
	Slope   float64 `json:"slope"`   // of VTD = Slope*RD + Offset; 1 before the first
	Offset  float64 `json:"offset"`  // in accesses; 0 before the first
	Direct  uint64  `json:"direct"`  // a VTD below it is its own reuse distance

	T1     uint64 `json:"t1"`     // frames of T1: a shorter reuse distance is short
	T1T2   uint64 `json:"t1_t2"`  // frames of T1 and T2: a shorter one is medium
	Short  uint64 `json:"short"`  // the same bounds for a VTD of Direct or more,
	Medium uint64 `json:"medium"` // turned into virtual time by the fit

	Seed        uint64 `json:"seed"`         // of the draw for a clean page without history:
	FirstBelow  uint64 `json:"first_below"`  // T2 when the upper 53 bits of its Hash are below this
	Window      uint32 `json:"window"`       // evictions that the anti-starvation rule looks back on
	StarveAbove uint32 `json:"starve_above"` // it grants when more of these were bound for T3
}

// class is the class of an eviction after which the page was away for vtd.
func (p *ReuseParams) class(vtd uint64) reuseClass {
	short, medium := p.Short, p.Medium
	if vtd < p.Direct {
		short, medium = p.T1, p.T1T2
	}
	return reuseClass(one(vtd >= short) + one(vtd >= medium))
}

// one is 1 for true: classes are hard to foresee for a branch predictor, so
// that they are computed without branches.
func one(b bool) uint64 {
	var n uint64
	if b {
		n = 1
	}
	return n
}

// use publishes a fit that is trusted. Otherwise the last one that was stays in
// force, or before the first, Slope 1 and Offset 0: virtual time itself, the one
// estimate that needs no model and is never too short. A ring that shows no
// line is mostly one without long distances, which says nothing against the
// line that was seen before: to go back to virtual time would then send to T3
// what a program with many hits in T1 is about to use again.
func (p *ReuseParams) use(f ReuseFit) {
	if !f.Trusted {
		return
	}
	p.Version++
	p.Slope, p.Offset = f.Slope, f.Offset
	p.setBounds()
}

// setBounds turns the bounds of the classes into virtual time, once per fit:
// (vtd-Offset)/Slope < T is vtd < Slope*T+Offset. Decisions then need no
// floating point, and host and GPU cannot round differently. The estimate is
// held to at most vtd, since no page sees more distinct pages than accesses
// while it is away; hence the bounds are at least T.
func (p *ReuseParams) setBounds() {
	bound := func(frames uint64) uint64 {
		// The conversion of the product keeps a compiler from fusing it with
		// the addition, which would make the result depend on the machine.
		t := math.Ceil(float64(p.Slope*float64(frames)) + p.Offset)
		switch {
		case t >= 1<<63:
			return 1 << 63
		case t > float64(frames):
			return uint64(t)
		}
		return frames
	}
	p.Short, p.Medium = bound(p.T1), bound(p.T1T2)
}
