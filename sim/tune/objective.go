package tune

import (
	"cmp"
	"math"

	"github.com/tritier/tritier/internal/servicetime"
)

// Metrics is what a window of a whole trace comes to. Of a miniature it is an
// estimate.
type Metrics struct {
	Accesses  float64 `json:"accesses"`
	Seconds   float64 `json:"modelled_seconds"` // 0 without a model
	SSDReads  float64 `json:"ssd_reads"`        // pages
	SSDWrites float64 `json:"ssd_writes"`       // pages
}

// Objective is what is made small: a weighted sum of modelled time, SSD reads
// and SSD writes, each over what plain LRU in both tiers has of it on the same
// trace. A trace's score is that sum over the sum of the weights: 1 is as good
// as LRU, 0.5 needs half.
type Objective struct {
	Time      float64 `json:"time"`       // weight of the modelled time
	SSDReads  float64 `json:"ssd_reads"`  // of the pages read from SSD
	SSDWrites float64 `json:"ssd_writes"` // of the pages written to SSD
	// Worst makes a candidate's score over several traces the worst of
	// theirs; otherwise it is the mean.
	Worst bool `json:"worst"`
}

// metrics is the one place where counts become what is to be made small: a
// time that comes from another model goes in here.
func metrics(m *servicetime.Model, c Counts, o *Outcome, pageSize uint64) Metrics {
	events := func(n uint64) uint64 { return uint64(float64(n)/o.Share + 0.5) }
	out := Metrics{
		Accesses: float64(c.Accesses) * o.Weight,
		SSDReads: float64(c.SSDReads) / o.Share, SSDWrites: float64(c.SSDWrites) / o.Share,
	}
	if m != nil {
		out.Seconds = m.Estimate(servicetime.Counts{
			Accesses: uint64(out.Accesses + 0.5), T1Hits: uint64(float64(c.T1Hits)*o.Weight + 0.5), T2Hits: events(c.T2Hits),
			T3Reads: events(c.SSDReads), T3Writes: events(c.SSDWrites), Demotions: events(c.Demotions), PageSize: pageSize,
		}).Seconds
	}
	return out
}

// score is the weighted sum for one trace, over that of the reference.
func (o *Objective) score(m, ref Metrics) float64 {
	sum := o.Time*ratio(m.Seconds, ref.Seconds) + o.SSDReads*ratio(m.SSDReads, ref.SSDReads) + o.SSDWrites*ratio(m.SSDWrites, ref.SSDWrites)
	return sum / (o.Time + o.SSDReads + o.SSDWrites)
}

// ratio is v over ref; where the reference has nothing, each unit counts as
// one more.
func ratio(v, ref float64) float64 {
	if ref == 0 {
		return 1 + v
	}
	return v / ref
}

// Score is a candidate's score over the traces.
type Score struct {
	Mean  float64 `json:"mean"`
	Worst float64 `json:"worst"` // the largest of the traces'
	// Excess is by how much a constraint is broken, as a share of its limit;
	// 0 when all hold. Candidates with less of it come first.
	Excess float64 `json:"excess,omitempty"`

	traffic float64 // SSD reads and writes over the reference's, which decide between equal scores
}

// over is the score that counts.
func (s Score) over(o *Objective) float64 {
	if o.Worst {
		return s.Worst
	}
	return s.Mean
}

// compare orders scores, the better first. Scores that differ by less than about
// a thousandth count as equal, since a model is not more exact than that; of these
// the one with less SSD traffic is better, by 5 % or so: less is not worth a more
// complicated policy. A machine whose link to the GPU binds, whether pages come
// from host memory or from drives, has many such.
func (s Score) compare(t Score, o *Objective) int {
	return cmp.Or(cmp.Compare(s.Excess, t.Excess), cmp.Compare(grade(s.over(o), 1000), grade(t.over(o), 1000)),
		cmp.Compare(grade(s.traffic, 20), grade(t.traffic, 20)))
}

// grade parts the positive numbers into steps of one in n. Steps, unlike a
// tolerance, leave an order an order.
func grade(v, n float64) float64 { return math.Round(n * math.Log(max(v, 1e-12))) }
