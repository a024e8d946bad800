package timed

import (
	"fmt"

	"github.com/tritier/tritier/internal/servicetime"
)

// Load is what Measure puts on the drives: requests of one size at random, so
// many in flight all the time, evenly over the drives.
type Load struct {
	Path     string // access path; empty: the model's default
	Drives   int    // 0: as many as the model has
	InFlight int    // 0: as many as the path keeps outstanding and the drives take
	Size     uint64 // bytes of a request
	Write    bool
	Requests int    // to measure, rounded up to whole rounds of InFlight; 0: enough for a per cent
	Seed     uint64 // of the latencies
}

// Measurement is a Load's outcome in steady state. Its figures are modelled.
type Measurement struct {
	Label          string  `json:"label"` // always "modelled"
	Model          string  `json:"model"`
	Path           string  `json:"path"`
	Drives         int     `json:"drives"`
	InFlight       int     `json:"in_flight"`
	Size           uint64  `json:"size"` // bytes
	Write          bool    `json:"write,omitempty"`
	Seed           uint64  `json:"seed"`
	Requests       int     `json:"requests"`
	Seconds        float64 `json:"modelled_seconds"`
	IOPS           float64 `json:"modelled_iops"`
	BytesPerSecond float64 `json:"modelled_bytes_per_second"`
	Latency        Latency `json:"modelled_latency"`
	Usage          []Usage `json:"utilisation"`
	Bottleneck     string  `json:"bottleneck"`
	Bill           Bill    `json:"bill"`
	BoundSeconds   float64 `json:"modelled_bound_seconds"` // closed form, of the same requests
}

// Label is what every figure of this package is.
const Label = "modelled"

// mostInFlight bounds what is in flight when nobody says how much: more would
// fill any drive, and needs memory.
const mostInFlight = 1 << 16

// leastRequests are measured when nobody says how many.
const leastRequests = 20_000

// Measure runs a load on m in virtual time. A payload that ends in host memory is
// not copied to the GPU. Errors are unknown paths and loads that cannot be.
func Measure(m *servicetime.Model, l Load) (Measurement, error) {
	if l.Drives < 0 || l.Drives > servicetime.MaxDrives || l.Requests < 0 || l.InFlight < 0 {
		return Measurement{}, fmt.Errorf("timed: %d drives, %d requests, %d in flight: none may be negative, and drives at most %d",
			l.Drives, l.Requests, l.InFlight, servicetime.MaxDrives)
	}
	if l.Drives > 0 {
		m = m.WithDrives(l.Drives)
	}
	if l.InFlight == 0 {
		_, _, p, err := m.By(l.Path)
		if err != nil {
			return Measurement{}, err
		}
		l.InFlight = min(p.Outstanding(m.Drives.Count), m.Drives.Count*int(slotsOf(&m.Drives.Read)), mostInFlight)
	}
	d, err := newDevice(m, l.Path, l.Size, l.Seed, l.InFlight)
	if err != nil {
		return Measurement{}, err
	}
	if l.Requests == 0 {
		l.Requests = max(leastRequests, 4*l.InFlight)
	}
	c := closedLoop{device: d, op: opRead}
	if l.Write {
		c.op = opWrite
	}
	d.user = &c
	for r := range int32(l.InFlight) {
		d.command(r, c.op, int(r)%d.drives)
		c.begin(r)
	}
	// Where nothing is drawn, requests go round in step: a part of a round would
	// have the wrong share of a burst.
	c.until(rounds(l.Requests/8, l.InFlight) + 2*l.InFlight) // the queues fill
	from := d.now
	d.forget()
	c.finished = 0
	c.until(rounds(l.Requests, l.InFlight))
	if d.overdue {
		return Measurement{}, ErrTooLong
	}
	return c.measurement(l, d.now-from), nil
}

// rounds is n rounded up to a multiple of round.
func rounds(n, round int) int { return (n + round - 1) / round * round }

// closedLoop starts each request again as soon as it has ended.
type closedLoop struct {
	*device
	op       uint8
	finished int
}

func (c *closedLoop) until(n int) {
	for c.finished < n && c.step() {
	}
}

func (c *closedLoop) moved(int32, uint8) {}

func (c *closedLoop) done(r int32) {
	c.finished++
	c.begin(r)
}

func (c *closedLoop) measurement(l Load, ns int64) Measurement {
	seconds := float64(ns) * 1e-9
	out := Measurement{Label: Label, Model: c.model.Name, Path: c.name, Drives: c.drives, InFlight: l.InFlight, Size: l.Size, Write: l.Write,
		Seed: l.Seed, Requests: c.finished, Seconds: seconds, IOPS: float64(c.finished) / seconds}
	out.BytesPerSecond = out.IOPS * float64(l.Size)
	out.Usage, out.Bottleneck = c.usage(ns)
	out.Bill = c.bill(seconds)
	edge, n := &c.edges[edgeRead], servicetime.Counts{PageSize: l.Size, T3Reads: uint64(c.finished)}
	if l.Write {
		edge, n.T3Reads, n.T3Writes = &c.edges[edgeWrite], 0, n.T3Reads
	}
	out.Latency = edge.latency(servicetime.EdgeT3Read)
	if l.Write {
		out.Latency.Name = servicetime.EdgeT3Write
	}
	out.BoundSeconds = c.model.Estimate(n).Seconds
	return out
}
