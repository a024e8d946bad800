package host

import (
	"math/bits"
	"time"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// edge is a way between two tiers.
type edge int

const (
	t3ToT2 edge = iota
	t2ToT3
	t1ToT2
	t2ToT1
	edges
)

// EdgeNames are the names of Stats.Edges, by place.
var EdgeNames = [edges]string{"t3-t2", "t2-t3", "t1-t2", "t2-t1"}

// Buckets is the number of a Histogram's buckets.
const Buckets = 40

// Histogram counts durations: bucket i those of 2^(i-1) to 2^i ns, the last all longer.
type Histogram [Buckets]uint64

func (h *Histogram) add(d time.Duration) {
	h[min(bits.Len64(uint64(max(d, 0))), Buckets-1)]++
}

// EdgeStats is what passed between two tiers.
type EdgeStats struct {
	Pages uint64
	Bytes uint64
	Moves Histogram     // how long each set of pages that moved together took
	Time  time.Duration // of all of them; sets may overlap. With engine gpu an estimate: each counts as the middle of its bucket
}

func (e *EdgeStats) add(pages, size int, d time.Duration) {
	e.Pages += uint64(pages)
	e.Bytes += uint64(pages) * uint64(size)
	e.Time += d
	e.Moves.add(d)
}

// Stats is what a memory has done so far.
type Stats struct {
	Counters   tier.Counters
	Edges      [edges]EdgeStats // by EdgeNames
	Flushed    uint64           // pages written by Flush and Close
	Retries    uint64           // requests to T3 that were repeated
	Recoveries uint64           // times that requests to T3 had to be ended for good, after time-outs
	Failed     uint64           // requests to T3 that failed, repeated ones included

	Reuse *placement.ReuseReport // what gmt-reuse has learnt and decided; nil: another placer
}

// transferred counts requests that ended.
func (s *Stats) transferred(list []Request, size int, d time.Duration) {
	var reads, writes int
	for i := range list {
		switch {
		case list[i].Err != nil:
			s.Failed++
		case list[i].Write:
			writes++
		default:
			reads++
		}
	}
	if reads > 0 {
		s.Edges[t3ToT2].add(reads, size, d)
	}
	if writes > 0 {
		s.Edges[t2ToT3].add(writes, size, d)
	}
}

// Stats returns the counts so far.
func (m *Memory) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Leave()
	s := m.stats
	s.Counters = m.plan.Counters()
	if g, ok := m.placer.(*placement.GMTReuse); ok {
		r := g.Report()
		s.Reuse = &r
	}
	return s
}
