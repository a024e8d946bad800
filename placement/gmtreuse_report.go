package placement

import "fmt"

// ReuseReport is what gmt-reuse has learnt and decided so far. Classes are in
// the order short, medium, long.
type ReuseReport struct {
	Params ReuseParams `json:"params"` // in force now

	Fits       uint64   `json:"fits"`       // made so far
	Trusted    uint64   `json:"trusted"`    // of these
	Last       ReuseFit `json:"last"`       // the last one, with the reason if it is not trusted
	Refused    uint64   `json:"refused"`    // fits that were not trusted since one was
	Samples    uint64   `json:"samples"`    // reuses measured, those for the next fit included
	Impossible uint64   `json:"impossible"` // of these, discarded by a fit: RD > VTD

	First     uint64       `json:"first"`     // evictions of a page without history
	Predicted [3]uint64    `json:"predicted"` // evictions by predicted class
	Kept      uint64       `json:"kept"`      // victims that T1 kept: their eviction is still to come
	Granted   uint64       `json:"granted"`   // evictions bound for T3 that went to T2 against starvation
	Classes   [3]uint64    `json:"classes"`   // judged evictions by the class that was right
	Outcomes  [3][3]uint64 `json:"outcomes"`  // the same by predicted and right class, where there was a prediction
}

// Report returns the figures so far.
func (g *GMTReuse) Report() ReuseReport {
	r := g.report
	r.Params = g.params
	r.Samples += uint64(len(g.ring))
	r.First = g.predicted[reuseUnknown]
	copy(r.Predicted[:], g.predicted[:])
	for p, row := range g.outcomes {
		for c := range reuseClasses {
			r.Classes[c] += row[c]
			if p < reuseClasses {
				r.Outcomes[p][c] = row[c]
			}
		}
	}
	return r
}

// Fallback says whether something stands in for the last fit, because it is not
// trusted or there was none yet: the last trusted one or, before there was one,
// virtual-time distances.
func (r ReuseReport) Fallback() bool { return !r.Last.Trusted }

// Accuracy is the share of predictions that turned out right, 0 without any.
func (r ReuseReport) Accuracy() float64 {
	var right, all uint64
	for p, row := range r.Outcomes {
		for c, n := range row {
			all += n
			if p == c {
				right += n
			}
		}
	}
	if all == 0 {
		return 0
	}
	return float64(right) / float64(all)
}

// String is the report in one line: which distances are in force and why.
func (r ReuseReport) String() string {
	const vtd = "virtual-time distance stands in for reuse distance"
	line := fmt.Sprintf("VTD = %.4g*RD%+.4g", r.Params.Slope, r.Params.Offset)
	var fit string
	switch {
	case r.Fits == 0:
		fit = fmt.Sprintf("no fit yet (%d samples): %s", r.Samples, vtd)
	case r.Trusted == 0:
		fit = fmt.Sprintf("fit not trusted (%s): %s", r.Last.Reason, vtd)
	case r.Fallback():
		fit = fmt.Sprintf("fit not trusted (%s; %d in a row): the last trusted one stays, %s", r.Last.Reason, r.Refused, line)
	default:
		fit = fmt.Sprintf("%s (R2 %.3f)", line, r.Last.R2)
	}
	return fmt.Sprintf("%s; %d of %d fits trusted; %.1f%% of predictions right; %d kept, %d granted to T2",
		fit, r.Trusted, r.Fits, 100*r.Accuracy(), r.Kept, r.Granted)
}

// addFit counts a fit.
func (r *ReuseReport) addFit(f ReuseFit) {
	r.Fits++
	r.Samples += uint64(f.Samples)
	r.Impossible += uint64(f.Samples - f.Used)
	r.Last = f
	r.Refused++
	if f.Trusted {
		r.Trusted++
		r.Refused = 0
	}
}

// FitEvery is the number of samples between two fits.
func (g *GMTReuse) FitEvery() int { return cap(g.ring) }
