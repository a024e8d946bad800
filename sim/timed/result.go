package timed

import (
	"errors"
	"slices"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// Result is what a Replay took in virtual time. Its figures are modelled.
type Result struct {
	Label    string `json:"label"` // always "modelled"
	Model    string `json:"model"`
	Path     string `json:"path"`
	InFlight int    `json:"in_flight"`
	Seed     uint64 `json:"seed"`
	// Seconds is the time of the trace and of the flush that follows it;
	// FlushSeconds the part of the flush.
	Seconds      float64 `json:"modelled_seconds"`
	FlushSeconds float64 `json:"modelled_flush_seconds"`
	// BoundSeconds is what the closed form says of the same moves by the same
	// path, which no number in flight can be faster than.
	BoundSeconds      float64   `json:"modelled_bound_seconds"`
	AccessesPerSecond float64   `json:"modelled_accesses_per_second"`
	Delayed           uint64    `json:"delayed_hits"` // hits that waited for their page
	Accesses          []Latency `json:"modelled_access_latency"`
	Edges             []Latency `json:"modelled_edge_latency"`
	Usage             []Usage   `json:"utilisation"`
	Bottleneck        string    `json:"bottleneck"`
	Bill              Bill      `json:"bill"`
}

// ErrTooLong means that virtual time has passed what can be counted.
var ErrTooLong = errors.New("timed: the run takes longer than 70 days of virtual time")

// errStuck would be a fault of this package: accesses that wait for each other.
var errStuck = errors.New("timed: accesses wait for ever: please report this with the trace and the model")

// Flush writes what m has that T3 lacks, after all accesses, with as many writes
// in flight as there were accesses. It ends the replay.
func (r *Replay) Flush(m *tier.Machine) {
	r.drain()
	begun := r.now
	m.Unsaved(func(p placement.Page, inT1 bool) {
		w := r.take()
		if w == none {
			return
		}
		r.kind[w] = waitNothing
		op := opWriteHost
		if inT1 {
			op = r.fromT1(w)
		}
		r.write(w, p, op)
		r.launch(w)
	})
	r.drain()
	r.flushed = r.now - begun
}

// drain lets everything under way end.
func (r *Replay) drain() {
	for r.engine.step() {
	}
}

// Result ends the replay, letting everything under way end, and describes it.
func (r *Replay) Result(seed uint64) (Result, error) {
	r.drain()
	if r.overdue {
		return Result{}, ErrTooLong
	}
	if r.stuck || r.ended != r.began {
		return Result{}, errStuck
	}
	seconds := float64(r.now) * 1e-9
	out := Result{Label: Label, Model: r.model.Name, Path: r.name, InFlight: len(r.requests), Seed: seed, Seconds: seconds,
		FlushSeconds: float64(r.flushed) * 1e-9, BoundSeconds: r.model.Estimate(r.did).Seconds, Delayed: r.waits[waitDelayed].n,
		Edges: r.edgeLatencies((*histogram).withHistogram), Bill: r.bill(seconds)}
	var accesses uint64
	for i, name := range waitNames {
		if h := &r.waits[i]; h.n > 0 {
			out.Accesses = append(out.Accesses, h.withHistogram(name))
		}
		if i != waitPrefetch {
			accesses += r.waits[i].n
		}
	}
	if run := r.now - r.flushed; run > 0 {
		out.AccessesPerSecond = float64(accesses) / (float64(run) * 1e-9)
	}
	out.Usage, out.Bottleneck = r.usage(r.now)
	slices.SortStableFunc(out.Usage, func(a, b Usage) int {
		switch {
		case a.Share > b.Share:
			return -1
		case a.Share < b.Share:
			return 1
		}
		return 0
	})
	return out, nil
}
