package timed

import (
	"github.com/tritier/tritier/internal/servicetime"
)

// Usage is the share of the time that a resource was busy, 0 to 1. Of several
// drives it is the mean.
type Usage struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
}

// The bottleneck when no resource is busy enough to be one.
const (
	// BoundInFlight: more requests in flight would be faster.
	BoundInFlight = "in flight"
	// slotsSuffix follows the name of an edge all of whose slots are taken.
	slotsSuffix = " concurrency"
)

// busyShare is how busy the bottleneck is at least. A resource that is busy
// nine tenths of the time can give at most a ninth more.
const busyShare = 0.9

// usage lists the resources that the run has used, over so many nanoseconds,
// and names the bottleneck.
func (d *device) usage(ns int64) ([]Usage, string) {
	var out []Usage
	bottleneck, most := BoundInFlight, busyShare
	add := func(name string, busyNS, of float64) {
		if busyNS <= 0 || ns <= 0 {
			return
		}
		share := min(busyNS/(float64(ns)*of), 1) // what was reserved may lie ahead
		out = append(out, Usage{name, share})
		if share >= most {
			bottleneck, most = name, share
		}
	}
	server := func(name string, first, n int) {
		var used uint64
		for _, s := range d.servers[first : first+n] {
			used += s.used
		}
		add(name, float64(used)/psPerNS, float64(n))
	}
	server(servicetime.EdgeT1, atT1, 1)
	server(servicetime.EdgeT2T1, atPromote, 1)
	server(servicetime.EdgeT1T2, atDemote, 1)
	server(servicetime.EdgeInitiator, atIssue, 1)
	server(servicetime.EdgeController, atServe, 1)
	server(servicetime.EdgeT3Drives, atDrives, d.drives)
	for i, name := range d.links {
		server(servicetime.LinkName(name), atDrives+d.drives+i, 1)
	}
	if bottleneck == BoundInFlight { // a place whose slots are all taken, though it does not work all the time
		d.slotUsage(add)
	}
	return out, bottleneck
}

// slotUsage adds the places whose slots limit how many requests they take.
func (d *device) slotUsage(add func(name string, busyNS, of float64)) {
	group := func(name string, first, n int) {
		var held int64
		slots := 0.0
		for _, s := range d.stations[first : first+n] {
			held += s.held
			slots += float64(s.slots)
		}
		add(name+slotsSuffix, float64(held), slots)
	}
	group(servicetime.EdgeInitiator, atIssue, 1)
	group(servicetime.EdgeT2T1, atPromote, 1)
	group(servicetime.EdgeT1T2, atDemote, 1)
	group(servicetime.EdgeT3Read, atDrives, d.drives)
	group(servicetime.EdgeT3Write, atDrives+d.drives, d.drives)
}

// Bill is what a path takes of the processors while it runs. What a model does
// not say is absent.
type Bill struct {
	Initiator   string   `json:"initiator"`              // gpu or cpu
	Ends        string   `json:"payload_ends"`           // gpu or host
	LogicalCPUs *float64 `json:"logical_cpus,omitempty"` // taken as long as the run lasts
	CPUSeconds  *float64 `json:"modelled_cpu_seconds,omitempty"`
	GPUShare    *float64 `json:"gpu_share,omitempty"` // of the SMs' time
	GPUThreads  *float64 `json:"gpu_threads,omitempty"`
	// ThreadSeconds is the time that the threads which initiate were at work.
	ThreadSeconds float64 `json:"modelled_initiator_seconds"`
}

// bill reckons the path's bill for a run of so many seconds.
func (d *device) bill(seconds float64) Bill {
	b := Bill{Initiator: string(servicetime.ByGPU), Ends: string(d.path.Ends)}
	if i := d.model.Initiator; i != nil {
		if i.Who != "" {
			b.Initiator = string(i.Who)
		}
		b.ThreadSeconds = float64(d.servers[atIssue].used) * 1e-12 * i.Threads.Value
	}
	of := func(f *servicetime.Figure) *float64 {
		if f == nil {
			return nil
		}
		v := f.Value
		return &v
	}
	b.LogicalCPUs, b.GPUShare, b.GPUThreads = of(d.path.Bill.LogicalCPUs), of(d.path.Bill.GPUShare), of(d.path.Bill.GPUThreads)
	if b.LogicalCPUs != nil {
		s := *b.LogicalCPUs * seconds
		b.CPUSeconds = &s
	}
	return b
}

// edgeLatencies lists the edges that were used, as of describes them.
func (d *device) edgeLatencies(of func(h *histogram, name string) Latency) []Latency {
	var out []Latency
	for i := range d.edges {
		if d.edges[i].n > 0 {
			out = append(out, of(&d.edges[i], edgeNames[i]))
		}
	}
	return out
}

// forget drops what has been counted, so that a measurement begins in the
// midst of a run.
func (d *device) forget() {
	for i := range d.servers {
		d.servers[i].used = 0
	}
	for i := range d.stations {
		d.stations[i].held = 0
	}
	for i := range d.edges {
		d.edges[i] = histogram{}
	}
	for i := range d.requests { // of slots held now, only the rest counts
		d.requests[i].started = max(d.requests[i].started, d.now)
	}
}
