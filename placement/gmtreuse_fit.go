package placement

import (
	"fmt"
	"math"
)

// ReuseFit is a least-squares fit of VTD = Slope*RD + Offset over one ring of
// samples, with the judgement on it.
type ReuseFit struct {
	Slope   float64 `json:"slope"` // 0 when there was nothing to fit
	Offset  float64 `json:"offset"`
	R2      float64 `json:"r2"`      // share of VTD's variance that the line explains
	Samples int     `json:"samples"` // in the ring
	Used    int     `json:"used"`    // of these, possible ones (RD <= VTD)
	Trusted bool    `json:"trusted"`
	Reason  string  `json:"reason"` // why it is not trusted
}

// reuseSample is one reuse of a sampled page.
type reuseSample struct {
	vtd uint64 // accesses since its last use
	rd  uint64 // distinct pages in between: its LRU stack distance
}

// minFitSamples is the fewest samples that a line is drawn through: below
// about 30, the slope's standard error says more about the draw than about
// the program.
const minFitSamples = 32

// fitReuse fits samples, without those that are impossible, and judges the
// result. It is trusted when
//   - at least half of the ring, and 32 samples, could be used: what is left of
//     a ring of mostly impossible ones is a biased choice;
//   - the slope is finite and at least 1: RD <= VTD holds for every page, so a
//     flatter line must cross into the impossible;
//   - R2 is at least minR2. At 0.75, the default, the residuals are half as
//     wide as VTD itself: enough to tell tiers apart whose sizes differ by a
//     factor of 4, as GMT's do.
//
// A fit that fails is reported as it is, never bent into shape.
func fitReuse(samples []reuseSample, minR2 float64) ReuseFit {
	f := leastSquares(samples)
	switch {
	case f.Used < max(minFitSamples, (f.Samples+1)/2):
		f.Reason = fmt.Sprintf("only %d of %d samples are possible (RD <= VTD)", f.Used, f.Samples)
	case math.IsNaN(f.Slope):
		f.Slope, f.Reason = 0, "all samples have the same reuse distance"
	case math.IsInf(f.Slope, 0) || math.IsInf(f.Offset, 0) || math.IsNaN(f.Offset):
		f.Reason = "slope or offset is not finite"
	case f.Slope < 1:
		f.Reason = fmt.Sprintf("slope %.4g is below 1: reuse distances would exceed virtual time", f.Slope)
	case f.R2 < minR2:
		f.Reason = fmt.Sprintf("R2 %.3f is below %g", f.R2, minR2)
	default:
		f.Trusted = true
	}
	return f
}

// leastSquares fits the possible samples in two passes: sums of squares about
// the means, which lose no digits to large virtual times. Slope is NaN when
// all distances are equal.
func leastSquares(samples []reuseSample) ReuseFit {
	f := ReuseFit{Samples: len(samples)}
	var sumX, sumY float64
	for _, s := range samples {
		if s.rd <= s.vtd {
			f.Used++
			sumX += float64(s.rd)
			sumY += float64(s.vtd)
		}
	}
	if f.Used == 0 {
		return f
	}
	meanX, meanY := sumX/float64(f.Used), sumY/float64(f.Used)
	var xx, xy, yy float64
	for _, s := range samples {
		if s.rd <= s.vtd {
			dx, dy := float64(s.rd)-meanX, float64(s.vtd)-meanY
			xx += float64(dx * dx)
			xy += float64(dx * dy)
			yy += float64(dy * dy)
		}
	}
	if xx == 0 {
		f.Slope = math.NaN()
		return f
	}
	f.Slope = xy / xx
	f.Offset = meanY - float64(f.Slope*meanX)
	if yy > 0 {
		f.R2 = f.Slope * xy / yy
	}
	return f
}
