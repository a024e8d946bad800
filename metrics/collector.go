// Package metrics gives the counts of a Memory to Prometheus.
//
// Names have their unit at the end, _total for what only grows. Labels: memory, the
// name given to New; tier, src and dst (t1, t2, t3); outcome, fate, direction and path,
// each from a fixed set. Ratios are left to queries.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/tier/host"
)

// Collector is a prometheus.Collector over a Memory. It reads the Memory when it is
// collected, and takes turns with its batches; any goroutine may collect.
type Collector struct {
	name string
	mem  *tritier.Memory
}

// New makes a collector. name tells several memories of a process apart.
func New(name string, mem *tritier.Memory) *Collector { return &Collector{name, mem} }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("tritier_"+name, help, append([]string{"memory"}, labels...), nil)
}

var (
	accesses  = desc("accesses_total", "Page accesses by what they found; conserved: the outcomes add up to all accesses.", "outcome")
	victims   = desc("victims_total", "Pages that T1's evictor proposed, by what became of them.", "fate")
	t2Victims = desc("t2_evictions_total", "Pages and clean copies that T2 dropped for room.")
	crowded   = desc("crowded_victims_total", "Victims meant for T2 that went to T3, since T2's oldest pages or all spare slots were in motion (engine gpu).")
	compacted = desc("t2_order_compaction_seconds_total", "Time in which pages had to wait for a place in T2's order (engine gpu).")
	prefetch  = desc("prefetches_total", "Prefetches that moved a page, by where it was.", "src")
	pages     = desc("moved_pages_total", "Pages that passed between two tiers.", "src", "dst")
	bytes     = desc("moved_bytes_total", "Bytes that passed between two tiers.", "src", "dst")
	seconds   = desc("move_duration_seconds", "Time of each set of pages that moved together between two tiers; of a read by engine gpu with what was written beside it.", "src", "dst")
	copies    = desc("copied_bytes_total", "Bytes copied between T1 and T2 by path of the copy engine.", "direction", "path")
	flushed   = desc("flushed_pages_total", "Pages written by flushes.")
	failed    = desc("t3_requests_failed_total", "Reads and writes of T3 that failed, repeated ones included.")
	retried   = desc("t3_requests_retried_total", "Reads and writes of T3 that were repeated.")
	dirty     = desc("dirty_pages", "Pages whose newest bytes T3 lacks.")
	size      = desc("tier_size_bytes", "Size of a tier.", "tier")
	info      = desc("info", "What the memory is made of; always 1.", "policy", "engine", "t1", "modelled")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{accesses, victims, t2Victims, crowded, compacted, prefetch, pages, bytes, seconds, copies, flushed, failed, retried, dirty, size, info} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s := c.mem.Stats()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, append([]string{c.name}, labels...)...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		send(d, prometheus.CounterValue, float64(v), labels...)
	}
	n := s.Counters
	count(accesses, n.T1Hits, "t1_hit")
	count(accesses, n.T2Hits, "t2_hit")
	count(accesses, n.T3Fetches, "t3_fetch")
	count(accesses, n.Overwrites, "overwrite")
	count(accesses, n.Errors, "error")
	count(victims, n.Demotions, "t2")
	count(victims, n.Bypasses, "t3")
	count(victims, n.Keeps, "kept")
	count(t2Victims, n.T2Evictions)
	count(crowded, s.Crowded)
	send(compacted, prometheus.CounterValue, s.Compacting.Seconds())
	count(prefetch, n.PrefetchReads, "t3")
	count(prefetch, n.Prefetches-n.PrefetchReads, "t2")
	count(flushed, s.Flushed)
	count(failed, s.Failed)
	count(retried, s.Retries)
	send(dirty, prometheus.GaugeValue, float64(n.FinalDirty))
	for i, e := range s.Edges {
		src, dst := host.EdgeNames[i][:2], host.EdgeNames[i][3:]
		count(pages, e.Pages, src, dst)
		count(bytes, e.Bytes, src, dst)
		out <- c.histogram(&e, src, dst)
	}
	paths := func(direction string, m map[copyeng.Path]copyeng.PathStats) {
		for path, x := range m {
			count(copies, uint64(x.Bytes), direction, string(path))
		}
	}
	paths("to-device", s.Copies.ToDevice)
	paths("to-host", s.Copies.ToHost)
	d := c.mem.Describe()
	send(size, prometheus.GaugeValue, float64(d.T1.Bytes), "t1")
	send(size, prometheus.GaugeValue, float64(d.T2.Bytes), "t2")
	send(info, prometheus.GaugeValue, 1, d.Policy, d.Engine, d.T1.Where, d.Modelled)
}

// histogram gives the durations in buckets of a factor of four, from 1 us to 17 s.
func (c *Collector) histogram(e *host.EdgeStats, src, dst string) prometheus.Metric {
	buckets := map[float64]uint64{}
	var below uint64
	for i, n := range e.Moves {
		if below += n; i >= 10 && i <= 34 && i%2 == 0 {
			buckets[float64(uint64(1)<<i)/1e9] = below
		}
	}
	return prometheus.MustNewConstHistogram(seconds, below, e.Time.Seconds(), buckets, c.name, src, dst)
}
