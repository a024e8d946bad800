package tune

import (
	"errors"
	"fmt"
	"math"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/tier"
)

// Problem is what to tune. Zero fields of effort have defaults.
type Problem struct {
	Traces    []Input
	Sizes     []Size // the first one is the reference's
	Space     Space
	Objective Objective
	Model     *servicetime.Model // nil: no times
	// MaxWriteBytesPerDay bounds what is written to SSD, on each trace; 0: no
	// bound. It needs the traces' Seconds.
	MaxWriteBytesPerDay float64
	Seed                uint64

	Candidates int // drawn; 200
	Finalists  int // replayed in full on both parts; 8
	Seeds      int // runs of each finalist, with different seeds; 5
	MinPages   int // sampled pages of the smallest miniature; 4,096
	MinFrames  int // frames of its smallest tier; 128
}

// Input is a trace to tune for.
type Input struct {
	Trace *sim.Trace
	// Train is how many accesses (prefetches counted) are the training part; 0:
	// half of them.
	Train int
	// Seconds is how long the program took for all accesses; 0: not known.
	Seconds float64

	hash  string
	pages int // distinct pages of the training part
}

// Size is a choice of tier sizes.
type Size struct {
	Name   string   // for people
	Frames [][2]int // GPU and host memory in pages, by trace
	Cost   float64  // of the memory; 0: not known
}

func (s *Size) frames(trace int) (gpu, host int) { return s.Frames[trace][0], s.Frames[trace][1] }

// Defaults of a Problem's effort.
const (
	DefaultCandidates = 200
	DefaultFinalists  = 8
	DefaultSeeds      = 5
	DefaultMinPages   = 4096
	DefaultMinFrames  = 128
)

// fill checks p and sets what is not set.
func (p *Problem) fill() error {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&p.Candidates, DefaultCandidates)
	set(&p.Finalists, DefaultFinalists)
	set(&p.Seeds, DefaultSeeds)
	set(&p.MinPages, DefaultMinPages)
	set(&p.MinFrames, DefaultMinFrames)
	for _, i := range placement.Evictors() {
		p.MinFrames = max(p.MinFrames, 2*i.MinFrames) // every policy can be built, however the share is rounded
	}
	o := &p.Objective
	switch {
	case len(p.Traces) == 0 || len(p.Sizes) == 0:
		return errors.New("tune: no traces or no sizes")
	case !(o.Time >= 0 && o.SSDReads >= 0 && o.SSDWrites >= 0) || o.Time+o.SSDReads+o.SSDWrites == 0 || math.IsInf(o.Time+o.SSDReads+o.SSDWrites, 1):
		return errors.New("tune: the objective's weights must not be negative, and one of them must be above 0")
	case o.Time > 0 && p.Model == nil:
		return errors.New("tune: modelled time needs a model")
	}
	for i := range p.Traces {
		if err := p.fillTrace(i); err != nil {
			return fmt.Errorf("tune: %s: %w", p.Traces[i].Trace.Info.Name, err)
		}
	}
	if err := p.Space.Fill(); err != nil {
		return fmt.Errorf("tune: %w", err)
	}
	return nil
}

func (p *Problem) fillTrace(i int) error {
	in := &p.Traces[i]
	n := len(in.Trace.Accesses)
	if in.Train == 0 {
		in.Train = n / 2
	}
	if in.Train < 1 || in.Train >= n {
		return fmt.Errorf("training on %d of %d accesses leaves nothing to train on or nothing to report on: take a longer trace, or another share of it", in.Train, n)
	}
	if p.MaxWriteBytesPerDay > 0 && !(in.Seconds > 0) {
		return errors.New("a limit of bytes written a day needs to know how long the program ran: the trace has no times, so give a rate of accesses (--access-rate)")
	}
	for _, s := range p.Sizes {
		if len(s.Frames) != len(p.Traces) {
			return fmt.Errorf("size %q has no frames for it", s.Name)
		}
		if gpu, host := s.frames(i); gpu < 1 || host < 0 || gpu > placement.MaxPages || host > placement.MaxPages {
			return fmt.Errorf("size %q has %d and %d frames: want at least 1 and 0, and at most %d", s.Name, gpu, host, placement.MaxPages)
		}
	}
	in.hash = HashTrace(in.Trace)
	in.pages = distinct(in.Trace.Accesses[:in.Train], in.Trace.Info.Pages)
	return nil
}

func distinct(accs []tier.Access, pages int) (n int) {
	seen := make([]bool, pages)
	for _, a := range accs {
		if p := a.Page(); !seen[p] {
			seen[p] = true
			n++
		}
	}
	return n
}

// Hashes are the names of the traces in tasks, in order; of a Problem that was
// not run yet they are computed.
func (p *Problem) Hashes() []string {
	var out []string
	for i := range p.Traces {
		if p.Traces[i].hash == "" {
			p.Traces[i].hash = HashTrace(p.Traces[i].Trace)
		}
		out = append(out, p.Traces[i].hash)
	}
	return out
}

// ByHash are the traces as NewLocal takes them.
func (p *Problem) ByHash() map[string]*sim.Trace {
	out := map[string]*sim.Trace{}
	for i, h := range p.Hashes() {
		out[h] = p.Traces[i].Trace
	}
	return out
}

// rung is the sampling rate of each trace at one step of the halving.
type rung []float64

// full says whether nothing is sampled.
func (r rung) full() bool {
	for _, rate := range r {
		if rate < 1 {
			return false
		}
	}
	return true
}

// rungStep is the factor between the rates of two rungs.
const rungStep = 4

// maxRungs bounds the ladder.
const maxRungs = 4

// ladder lists the rungs from the smallest miniatures to whole traces. On none
// of them a trace has fewer pages, or a tier fewer frames, than asked for.
func (p *Problem) ladder() []rung {
	var out []rung
	rate := math.Pow(rungStep, 1-maxRungs)
	for range maxRungs {
		r := make(rung, len(p.Traces))
		for i := range r {
			if r[i] = max(rate, p.floor(i)); r[i] > 0.5 {
				r[i] = 1 // half a trace costs as much as one is worth
			}
		}
		if n := len(out); n > 0 && near(out[n-1], r) {
			out = out[:n-1] // a rung that is hardly smaller saves nothing
		}
		out = append(out, r)
		rate *= rungStep
	}
	return out
}

// near says whether no trace's rate grows by half of the usual step from a to b.
func near(a, b rung) bool {
	for i := range a {
		if b[i] >= a[i]*rungStep/2 {
			return false
		}
	}
	return true
}

// floor is the smallest rate for a trace.
func (p *Problem) floor(i int) float64 {
	rate := float64(p.MinPages) / float64(p.Traces[i].pages)
	for _, s := range p.Sizes {
		gpu, host := s.frames(i)
		rate = max(rate, float64(p.MinFrames)/float64(gpu))
		if host > 0 {
			rate = max(rate, float64(p.MinFrames)/float64(host))
		}
	}
	return min(rate, 1)
}

// writesPerDay is the rate of bytes written that a window's writes come to.
func (p *Problem) writesPerDay(i int, m Metrics) float64 {
	in := &p.Traces[i]
	if in.Seconds <= 0 || m.Accesses <= 0 {
		return 0
	}
	seconds := in.Seconds * m.Accesses / float64(in.Trace.Info.Accesses)
	return m.SSDWrites * float64(in.Trace.Info.PageSize) / seconds * secondsPerDay
}

const secondsPerDay = 24 * 60 * 60
