package sim

import (
	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim/timed"
	"github.com/tritier/tritier/tier"
)

// TraceInfo describes the trace of a Result: what it is, and how it was read.
type TraceInfo struct {
	Name        string `json:"name"`
	Format      string `json:"format"`
	Compression string `json:"compression,omitempty"`
	Order       string `json:"order,omitempty"` // how sessions were joined
	PageSize    uint64 `json:"page_size"`       // bytes
	Accesses    uint64 `json:"accesses"`        // in the whole trace, as far as it was read
	Pages       int    `json:"pages"`           // distinct pages
	Requests    uint64 `json:"requests,omitempty"`
	Writes      uint64 `json:"writes,omitempty"` // overwrites included
	Prefetches  uint64 `json:"prefetches,omitempty"`
}

// Job is one simulation: a policy at a size.
type Job struct {
	Policy     placement.Spec
	GPUFrames  int    // T1, at least 1
	HostFrames int    // T2; 0: no host tier
	Seed       uint64 // of every random choice of the policy
}

// Result is what one Job counted on one trace.
type Result struct {
	Trace      TraceInfo `json:"trace"`
	Policy     string    `json:"policy"` // canonical, fully expanded
	GPUFrames  int       `json:"gpu_frames"`
	HostFrames int       `json:"host_frames"`
	Seed       uint64    `json:"seed"`
	Complete   bool      `json:"complete"` // false: interrupted, counts so far

	tier.Counters

	SSDReads uint64 `json:"ssd_reads"` // t3_fetches + prefetch_reads
	// BoundReads is the fewest SSD reads that any policy can reach with
	// gpu_frames + host_frames frames (Belady); nil when it was not asked for.
	BoundReads *uint64 `json:"bound_ssd_reads,omitempty"`
	// PrefixHits counts the accesses before the first one of their request that
	// needed the SSD; nil for a trace without requests.
	PrefixHits *uint64 `json:"prefix_hits,omitempty"`

	// Modelled times come from a preset, not from a clock; absent without one.
	Model           string                 `json:"model,omitempty"`
	ModelledSeconds *float64               `json:"modelled_seconds,omitempty"` // edges overlap: the slowest binds
	ModelledSerial  *float64               `json:"modelled_serial_seconds,omitempty"`
	ModelledEdges   []servicetime.EdgeTime `json:"modelled_edges,omitempty"`

	// Timed is what the accesses took in virtual time, with so many in flight; nil
	// when nobody asked for it.
	Timed *timed.Result `json:"timed,omitempty"`

	// Placer is what the placer reports of itself: a placement.ReuseReport
	// (fits, fallbacks) for gmt-reuse, a placement.AdaptiveReport (whom it
	// followed, what its shadows counted) for adaptive, nil for placers that
	// learn nothing.
	Placer any `json:"placer,omitempty"`

	positions uint64 // trace positions run
}

// MissRatio is SSD fetches over accesses: 0 for an empty trace.
func (r *Result) MissRatio() float64 {
	if r.Accesses == 0 {
		return 0
	}
	return float64(r.T3Fetches) / float64(r.Accesses)
}
