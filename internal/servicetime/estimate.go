package servicetime

// Counts is what a run did, from a simulator's or a live Memory's counters.
type Counts struct {
	Accesses  uint64 // coalesced page accesses; each touches T1
	T1Hits    uint64 // for reports; an access costs T1 time, hit or not
	T2Hits    uint64 // pages moved T2 -> T1
	T3Reads   uint64 // pages read from T3
	T3Writes  uint64 // pages written to T3
	Demotions uint64 // pages moved T1 -> T2
	// T3WritesFromT2 is the part of T3Writes whose page was in T2 and so did
	// not cross the GPU's link again. Zero, an upper bound of the time, when
	// not known.
	T3WritesFromT2 uint64
	PageSize       uint64 // bytes
}

// Bound says which resource limits an edge.
type Bound string

// The bounds of an edge.
const (
	BoundLatency   Bound = "latency"
	BoundBandwidth Bound = "bandwidth"
	BoundIOPS      Bound = "iops"
)

// EdgeTime is the modelled time of one edge, of a shared link ("link:NAME") or
// of the drives as a whole ("t3-drives").
type EdgeTime struct {
	Name    string  `json:"name"`
	Count   uint64  `json:"count"`
	Bytes   uint64  `json:"bytes"`
	Seconds float64 `json:"seconds"`
	Bound   Bound   `json:"bound"`
}

// Estimate is the modelled time of Counts. It is not a measurement.
type Estimate struct {
	// Seconds is the time when everything overlaps: that of the busiest edge.
	Seconds float64 `json:"modelled_seconds"`
	// SerialSeconds is the time when nothing overlaps: the sum of the edges.
	SerialSeconds float64 `json:"modelled_serial_seconds"`
	// Bottleneck names the edge that Seconds comes from; empty for no work.
	Bottleneck string     `json:"bottleneck"`
	Edges      []EdgeTime `json:"edges"`
	// Unmodelled names the edges that Counts uses and the model lacks: a
	// model of drives alone knows no GPU. Their time is not in the sums.
	Unmodelled []string `json:"unmodelled,omitempty"`
}

// Names of the edges in an Estimate.
const (
	EdgeT1        = "t1"
	EdgeT2T1      = "t2->t1"
	EdgeT1T2      = "t1->t2"
	EdgeT3Read    = "t3-read"
	EdgeT3Write   = "t3-write"
	EdgeT3Drives  = "t3-drives"
	EdgeInitiator = "initiator"
	// EdgeController is a software controller's threads.
	EdgeController = "controller"
	linkPrefix     = "link:"
)

// LinkName is the name of a shared link in an Estimate.
func LinkName(link string) string { return linkPrefix + link }

// Estimate gives the modelled time of c, in closed form:
//
//	edge      max(n*latency/concurrency, n*(bytes/bandwidth + controller), n/IOPS); n is split evenly over the drives
//	link      the bytes of all edges that cross it over its bandwidth
//	t3-drives bandwidth, controller and IOPS of t3-read + those of t3-write, since reads and writes share a
//	          drive's time; their latencies may overlap, as they do in a Queue
//	initiator commands * cost / threads; likewise the controller, a software one's threads
//	Seconds   the largest of these; SerialSeconds the sum of the edges, each at the speed of its slowest link
//
// It is monotone in every count and ignores queueing noise, so the live system
// can only be slower than Seconds says for true figures.
func (m *Model) Estimate(c Counts) Estimate {
	s := sum{model: m, linkBytes: map[string]uint64{}, linkCount: map[string]uint64{}}
	if m.GPU != nil {
		s.edge(EdgeT1, m.GPU.T1, 1, c.Accesses, uint64(m.GPU.T1.AccessBytes.Value), 0)
		s.edge(EdgeT2T1, m.GPU.T2T1, 1, c.T2Hits, c.PageSize, 0)
		s.edge(EdgeT1T2, m.GPU.T1T2, 1, c.Demotions, c.PageSize, 0)
	} else {
		s.missing(EdgeT1, c.Accesses)
		s.missing(EdgeT2T1, c.T2Hits)
		s.missing(EdgeT1T2, c.Demotions)
	}
	read := s.edge(EdgeT3Read, m.Drives.Read, m.Drives.Count, c.T3Reads, c.PageSize, 0)
	write := s.edge(EdgeT3Write, m.Drives.Write, m.Drives.Count, c.T3Writes, c.PageSize, c.T3WritesFromT2)
	commands := c.T3Reads + c.T3Writes
	s.record(m.Drives.shared(read, write))
	s.pool(EdgeInitiator, m.Initiator, commands, c.PageSize)
	s.pool(EdgeController, m.Controller, commands, c.PageSize)
	s.links()
	return s.out
}

// sum gathers the edges of one estimate and the load on the shared links.
type sum struct {
	model     *Model
	linkBytes map[string]uint64
	linkCount map[string]uint64
	out       Estimate
}

func (s *sum) missing(name string, n uint64) {
	if n > 0 {
		s.out.Unmodelled = append(s.out.Unmodelled, name)
	}
}

// edge adds n moves of size bytes; offLink of them cross none of its links.
func (s *sum) edge(name string, e Edge, parallel int, n, size, offLink uint64) EdgeTime {
	t := e.time(n, size, parallel)
	t.Name = name
	onLink := n - min(offLink, n)
	serial := t.Seconds
	for _, l := range e.Links {
		s.linkBytes[l] += onLink * size
		s.linkCount[l] += onLink
		serial = max(serial, float64(onLink*size)/s.model.Links[l].Bandwidth.Value)
	}
	s.out.SerialSeconds += serial
	s.record(t)
	return t
}

// pool adds the time of threads that every command passes.
func (s *sum) pool(name string, p *Initiator, commands, size uint64) {
	if p == nil {
		return
	}
	t := EdgeTime{Name: name, Count: commands, Bound: BoundLatency,
		Seconds: float64(commands) * p.CommandNS(size) * 1e-9 / p.Threads.Value}
	s.record(t)
	s.out.SerialSeconds += t.Seconds
}

func (s *sum) links() {
	for _, name := range sortedKeys(s.model.Links) {
		s.record(EdgeTime{Name: linkPrefix + name, Count: s.linkCount[name], Bytes: s.linkBytes[name],
			Seconds: float64(s.linkBytes[name]) / s.model.Links[name].Bandwidth.Value, Bound: BoundBandwidth})
	}
}

func (s *sum) record(t EdgeTime) {
	s.out.Edges = append(s.out.Edges, t)
	if t.Seconds > s.out.Seconds {
		s.out.Seconds, s.out.Bottleneck = t.Seconds, t.Name
	}
}

// time is the modelled time of n moves of size bytes over parallel equal
// resources.
func (e Edge) time(n, size uint64, parallel int) EdgeTime {
	if e.AccessBytes != nil {
		size = uint64(e.AccessBytes.Value)
	}
	t := EdgeTime{Count: n, Bytes: n * size, Bound: BoundLatency}
	share := float64(n) / float64(parallel)
	t.Seconds = share * e.LatencyNS.Value * 1e-9 / e.Concurrency.Value
	if s, bound := e.shared(float64(size)); share*s > t.Seconds {
		t.Seconds, t.Bound = share*s, bound
	}
	return t
}

// shared is the time in seconds that a move of size bytes takes of the one that
// all moves of the edge share, and what it goes to.
func (e Edge) shared(size float64) (seconds float64, bound Bound) {
	bytes, command := size/e.Bandwidth.Value, e.controllerNS()*1e-9
	seconds, bound = bytes+command, BoundBandwidth
	if command > bytes {
		bound = BoundIOPS
	}
	if e.IOPS != nil && 1/e.IOPS.Value > seconds {
		seconds, bound = 1/e.IOPS.Value, BoundIOPS
	}
	return seconds, bound
}

// shared is the time of drives that read and write.
func (d *Drives) shared(read, write EdgeTime) EdgeTime {
	t := EdgeTime{Name: EdgeT3Drives, Count: read.Count + write.Count, Bytes: read.Bytes + write.Bytes}
	most := -1.0
	for _, part := range []struct {
		edge *Edge
		EdgeTime
	}{{&d.Read, read}, {&d.Write, write}} {
		if part.Count == 0 {
			continue
		}
		one, bound := part.edge.shared(float64(part.Bytes) / float64(part.Count))
		s := one * float64(part.Count) / float64(d.Count)
		t.Seconds += s
		if s > most {
			most, t.Bound = s, bound
		}
	}
	if t.Bound == "" {
		t.Bound = read.Bound
	}
	return t
}

// controllerNS is the controller's time for one command, in nanoseconds.
func (e Edge) controllerNS() float64 {
	if e.ControllerNS == nil {
		return 0
	}
	return e.ControllerNS.Value
}
