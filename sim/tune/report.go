package tune

import (
	"errors"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
)

// reportVersion is the version of the report's JSON form.
const reportVersion = 1

var errNoCandidates = errors.New("tune: no policy of the space can be built at these sizes: allow others, or larger tiers")

// Report is what a Run found out. Scores are over those of LRU in both tiers
// at the first size, on the same part of the same trace; lower is better.
type Report struct {
	Version     int       `json:"version"`
	Interrupted bool      `json:"interrupted"` // what was known when the run was cut short
	Seed        uint64    `json:"seed"`
	Seeds       int       `json:"seeds"` // runs of a finalist that makes random choices: seed, seed+1, ...
	Objective   Objective `json:"objective"`
	Model       string    `json:"model,omitempty"`
	// MaxWriteBytesPerDay is the constraint on what is written to SSD; 0: none.
	MaxWriteBytesPerDay float64 `json:"max_ssd_write_bytes_per_day,omitempty"`

	Traces      []TraceReport `json:"traces"`
	Sizes       []SizeReport  `json:"sizes"`
	Rungs       []Rung        `json:"rungs"`
	Candidates  int           `json:"candidates"`  // different policies and sizes tried
	Evaluations int           `json:"evaluations"` // of these, on parts and miniatures of traces

	// Ranking lists the finalists and, for comparison, the placers' defaults, the
	// best in training first: the winner. Interrupted, it lists what was tried.
	Ranking []Ranked `json:"ranking"`
	// Regret is how much worse the winner is on the held-out part than the best
	// of the ranking there, as a share; nil when interrupted.
	Regret      *float64      `json:"held_out_regret,omitempty"`
	Sensitivity []Sensitivity `json:"sensitivity,omitempty"`
	WrongSizes  []WrongSize   `json:"wrong_sizes,omitempty"`
	SafeMinimum *SafeMinimum  `json:"safe_minimum,omitempty"`
}

// TraceReport describes a trace and how it was parted.
type TraceReport struct {
	sim.TraceInfo
	Hash    string  `json:"hash"`              // of its accesses
	Train   int     `json:"train"`             // accesses of the training part, the first
	HeldOut int     `json:"held_out"`          // of the rest
	Seconds float64 `json:"seconds,omitempty"` // how long the program took; 0: not known
}

// SizeReport is a choice of tier sizes.
type SizeReport struct {
	Name   string   `json:"name"`
	Frames [][2]int `json:"frames"` // GPU and host memory in pages, by trace
	Cost   float64  `json:"cost,omitempty"`
}

// Rung is a step of the halving.
type Rung struct {
	Rates      []float64 `json:"rates"`      // of each trace's miniature; 1: whole
	Candidates int       `json:"candidates"` // evaluated on it
}

// Ranked is a candidate with what is known of it.
type Ranked struct {
	Policy string `json:"policy"` // canonical
	Size   int    `json:"size"`   // index into Sizes
	// Default says that it is a placer with everything at its default.
	Default bool `json:"default,omitempty"`
	Rung    int  `json:"rung"` // index into Rungs: where its figures come from
	Runs    int  `json:"runs"` // with different seeds; 1 when no choice is random
	Train   Part `json:"train"`
	HeldOut Part `json:"held_out"` // empty when interrupted
	// Miniature is the range of the training scores of the largest miniatures,
	// over seeds of sampling; nil when there are none.
	Miniature *Range `json:"miniature,omitempty"`
}

// Part is what a candidate does on one part of the traces.
type Part struct {
	Score  Score `json:"score"`  // mean over the runs
	Spread Range `json:"spread"` // of the score that counts, over the runs
	// Bound is the score that no policy can beat at these sizes: of the fewest
	// possible SSD reads, no SSD writes and no moves between T1 and T2.
	Bound  float64     `json:"bound,omitempty"`
	Traces []TracePart `json:"traces,omitempty"`
}

// Range is the least and the greatest of several values.
type Range struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

func (r *Range) add(v float64, first bool) {
	if first {
		*r = Range{v, v}
	}
	r.Min, r.Max = min(r.Min, v), max(r.Max, v)
}

// TracePart is what a candidate does on one part of one trace, the mean over
// the runs.
type TracePart struct {
	Metrics
	Score         float64 `json:"score"`
	BoundSSDReads float64 `json:"bound_ssd_reads"` // the fewest possible, Belady's
	WritesPerDay  float64 `json:"ssd_write_bytes_per_day,omitempty"`
}

// OverBound is by which share the SSD reads exceed the fewest possible; ok is
// false when these are none.
func (t *TracePart) OverBound() (share float64, ok bool) {
	if t.BoundSSDReads == 0 {
		return 0, false
	}
	return t.SSDReads/t.BoundSSDReads - 1, true
}

// Sensitivity says what changing one thing about the winner does in training.
type Sensitivity struct {
	Key    string  `json:"key"`   // placer, t1, t2, size, or a parameter such as t1.small
	Value  string  `json:"value"` // the winner's
	Points []Point `json:"points"`
}

// Point is another value and the change of the score, as a share: 0.1 is 10 %
// worse.
type Point struct {
	Value  string  `json:"value"`
	Change float64 `json:"change"`
	// Traffic is the change of the pages read from and written to SSD, each
	// over LRU's, as a share.
	Traffic float64 `json:"ssd_traffic_change"`
	Excess  float64 `json:"excess,omitempty"` // of a constraint
}

// WrongSize says what the winner does in training when the tiers are not as
// large as assumed.
type WrongSize struct {
	What   string   `json:"what"`
	Frames [][2]int `json:"frames"`            // by trace
	Change *float64 `json:"change,omitempty"`  // of the score, as a share; nil: it cannot be built
	Refuse string   `json:"refusal,omitempty"` // why not
}

// SafeMinimum is the smallest sizes for the winner.
type SafeMinimum struct {
	// BuildsT1 and BuildsT2 are the fewest frames that it can be built with.
	BuildsT1 int `json:"builds_t1"`
	BuildsT2 int `json:"builds_t2"`
	// Frames are the smallest of the chosen sizes and their halves, quarters and
	// so on, by trace, down to which its score is within Tolerance of that of LRU
	// at the same sizes, in training and on every trace.
	Frames    [][2]int `json:"frames"`
	Tolerance float64  `json:"tolerance"`
	// Fails are the first sizes where it is not; nil: it holds down to where it
	// can be built.
	Fails [][2]int `json:"fails,omitempty"`
}

func newReport(p *Problem, ladder []rung) *Report {
	r := &Report{Version: reportVersion, Seed: p.Seed, Seeds: p.Seeds, Objective: p.Objective, MaxWriteBytesPerDay: p.MaxWriteBytesPerDay}
	if p.Model != nil {
		r.Model = p.Model.Name
	}
	for i := range p.Traces {
		in := &p.Traces[i]
		r.Traces = append(r.Traces, TraceReport{TraceInfo: in.Trace.Info, Hash: in.hash, Train: in.Train,
			HeldOut: len(in.Trace.Accesses) - in.Train, Seconds: in.Seconds})
	}
	for _, s := range p.Sizes {
		r.Sizes = append(r.Sizes, SizeReport(s))
	}
	for _, rates := range ladder {
		r.Rungs = append(r.Rungs, Rung{Rates: rates})
	}
	return r
}

// Winner is the best of the ranking, nil when nothing is known.
func (r *Report) Winner() *Ranked {
	if len(r.Ranking) == 0 {
		return nil
	}
	return &r.Ranking[0]
}

// Spec is the policy of a Ranked, to save or to run.
func (r *Ranked) Spec() (placement.Spec, error) { return placement.Parse(r.Policy) }

// rankSoFar ranks what was tried, the candidates of the largest miniatures
// first.
func (s *search) rankSoFar(r *Report) {
	for at := len(s.ladder) - 1; at >= 0; at-- {
		for _, c := range s.ranked(at) {
			if s.reached[c.key()] != at {
				continue // it is there already
			}
			score, _ := s.score(c, at)
			ranked := Ranked{Policy: c.Policy.String(), Size: c.Size, Rung: at, Runs: 1, Default: s.isDefault(c)}
			ranked.Train = Part{Score: score}
			ranked.Train.Spread.add(score.over(&s.p.Objective), true)
			r.Ranking = append(r.Ranking, ranked)
		}
	}
}

// isDefault says whether c is a placer as it comes.
func (s *search) isDefault(c Candidate) bool {
	for _, d := range s.p.placerDefaults(c.Size) {
		if d.key() == c.key() {
			return true
		}
	}
	return false
}
