package timed

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tritier/tritier/internal/servicetime"
)

// The edges whose latencies are counted.
const (
	edgeT1 = iota
	edgeT2T1
	edgeT1T2
	edgeRead
	edgeWrite
	edges
)

var edgeNames = [edges]string{servicetime.EdgeT1, servicetime.EdgeT2T1, servicetime.EdgeT1T2, servicetime.EdgeT3Read, servicetime.EdgeT3Write}

// The operations. Those of the GPU are missing in a model without one.
const (
	opT1 uint8 = iota
	opPromote
	opDemote
	opIssue // by the threads that initiate
	opServe // by a software controller's threads
	opRead
	opWrite     // from where the path's writes come from
	opWriteHost // of a page of T2
	operations
)

// The lanes.
const (
	laneT1 = iota
	laneIssue
	laneServe
	lanes
)

// The stations and servers before those of the drives; servers of links come
// last.
const (
	atT1 = iota
	atPromote
	atDemote
	atIssue
	atServe
	atDrives
)

// device is a model's machine, by one of its paths, for requests of one size.
type device struct {
	engine
	model  *servicetime.Model // by the path
	name   string             // of the path
	path   servicetime.Path
	drives int
	links  []string // names, in the order of their servers
	size   uint64
}

// maxNS bounds a request's time at one place.
const maxNS = 60e9

var errSize = errors.New("timed: requests need a size of 1 byte or more")

func newDevice(m *servicetime.Model, path string, size, seed uint64, requests int) (*device, error) {
	by, name, p, err := m.By(path)
	if err != nil {
		return nil, err
	}
	if size == 0 {
		return nil, errSize
	}
	if requests < 1 || requests > maxRequests {
		return nil, fmt.Errorf("timed: %d in flight; it must be 1 to %d", requests, maxRequests)
	}
	d := &device{model: by, name: name, path: p, drives: by.Drives.Count, size: size}
	for link := range by.Links {
		d.links = append(d.links, link)
	}
	slices.Sort(d.links)
	d.seed = mix(seed)
	d.requests = make([]request, requests)
	d.servers = make([]server, atDrives+d.drives+len(d.links))
	d.makeStations()
	d.ops = make([]operation, operations)
	for i := range d.ops {
		d.ops[i].frees, d.ops[i].lane = none, none
	}
	d.makeOperations()
	return d, d.check()
}

// check refuses figures with which nothing could be reckoned.
func (d *device) check() error {
	for i := range d.ops {
		o := &d.ops[i]
		worst := float64(max(o.bytes+o.command+o.spread, o.least)) / costUnit
		for _, l := range o.latency {
			worst = max(worst, float64(l))
		}
		for _, l := range o.links {
			worst = max(worst, float64(l.cost)/costUnit)
		}
		if worst > maxNS || o.extra > maxNS {
			return fmt.Errorf("timed: model %s: %d bytes take more than a minute at one place: use smaller pages or requests, or other figures", d.model.Name, d.size)
		}
	}
	return nil
}

func (d *device) makeStations() {
	d.stations = make([]station, atDrives+2*d.drives)
	for i := range d.stations {
		d.stations[i] = station{slots: math.MaxInt32, head: none, tail: none, server: int32(i)}
	}
	if g := d.model.GPU; g != nil {
		d.stations[atPromote].slots, d.stations[atDemote].slots = slotsOf(&g.T2T1), slotsOf(&g.T1T2)
	}
	d.stations[atIssue].slots = int32(min(d.path.Outstanding(d.drives), math.MaxInt32))
	for i := range d.drives {
		read, write := &d.stations[atDrives+i], &d.stations[atDrives+d.drives+i]
		read.slots, write.slots = slotsOf(&d.model.Drives.Read), slotsOf(&d.model.Drives.Write)
		write.server = read.server // reads and writes share a drive's time
	}
}

func slotsOf(e *servicetime.Edge) int32 { return int32(max(1, e.Concurrency.Value)) }

func (d *device) makeOperations() {
	if g := d.model.GPU; g != nil {
		d.ops[opT1] = d.access(&g.T1)
		d.ops[opPromote] = d.move(edgeT2T1, &g.T2T1, g.T2T1.Links)
		d.ops[opDemote] = d.move(edgeT1T2, &g.T1T2, g.T1T2.Links)
	}
	d.ops[opIssue] = d.pool(d.model.Initiator, laneIssue, false)
	d.ops[opIssue].keeps = true
	d.ops[opServe] = d.pool(d.model.Controller, laneServe, true)
	drives := &d.model.Drives
	d.ops[opRead] = d.drive(edgeRead, &drives.Read, drives.Read.Links)
	d.ops[opWrite] = d.drive(edgeWrite, &drives.Write, drives.Write.Links)
	d.ops[opWriteHost] = d.drive(edgeWrite, &drives.Write, d.hostLinks())
}

// hostLinks are those that a write from host memory crosses: not the GPU's.
func (d *device) hostLinks() []string {
	var out []string
	for _, l := range d.model.Drives.Write.Links {
		if d.model.GPU == nil || !slices.Contains(d.model.GPU.T1T2.Links, l) {
			out = append(out, l)
		}
	}
	return out
}

// access is one access to T1: its concurrency is a share of the time, since no
// queue of a GPU's memory is worth an event.
func (d *device) access(e *servicetime.Edge) operation {
	o := operation{edge: edgeT1, frees: none, lane: laneT1, latency: latencies(e.LatencyNS.Value, 0)}
	o.bytes = costOf(e.AccessBytes.Value / e.Bandwidth.Value * 1e9)
	o.least = max(leastOf(e), costOf(e.LatencyNS.Value/e.Concurrency.Value))
	return o
}

// move is one move of d.size bytes over an edge.
func (d *device) move(edge uint8, e *servicetime.Edge, links []string) operation {
	size := float64(d.size)
	if e.AccessBytes != nil {
		size = e.AccessBytes.Value
	}
	o := operation{edge: edge, frees: none, lane: none, least: leastOf(e), bytes: costOf(size / e.Bandwidth.Value * 1e9)}
	sigma := 0.0
	if e.LatencySigma != nil {
		sigma = e.LatencySigma.Value
	}
	o.latency = latencies(min(e.LatencyNS.Value, 2*maxNS), sigma)
	if e.ControllerNS != nil {
		o.command = costOf(e.ControllerNS.Value)
		if e.ControllerUnits != nil {
			o.spread = costOf(e.ControllerNS.Value * max(e.ControllerUnits.Value-1, 0))
			// A second command shares the units, but each has one of them for as long.
			o.alone = int64(math.Ceil(min(float64(o.bytes+o.command+o.spread)/costUnit, 2*maxNS)))
		}
	}
	for _, l := range links {
		ns := size / d.model.Links[l].Bandwidth.Value * 1e9
		o.links = append(o.links, linkUse{d.linkServer(l), costOf(ns)})
		o.linkNS = max(o.linkNS, int64(math.Floor(min(ns, 2*maxNS))))
	}
	return o
}

func leastOf(e *servicetime.Edge) cost {
	if e.IOPS == nil {
		return 0
	}
	return costOf(1e9 / e.IOPS.Value)
}

// drive is one command of a drive.
func (d *device) drive(edge uint8, e *servicetime.Edge, links []string) operation {
	o := d.move(edge, e, links)
	o.joined = true // with the threads that issue it
	o.frees = atIssue
	o.extra = int64(math.Ceil(min(d.path.CrossingNS(d.size), 2*maxNS)))
	return o
}

// pool is the work of threads on a command. A model without such threads has a
// pool that takes no time.
func (d *device) pool(p *servicetime.Initiator, lane int8, joined bool) operation {
	o := operation{frees: none, lane: lane, joined: joined, silent: true}
	if p != nil {
		ns := min(p.CommandNS(d.size), 2*maxNS)
		o.latency = latencies(ns, 0)
		o.bytes = costOf(ns / p.Threads.Value)
	}
	return o
}

func (d *device) linkServer(name string) int32 {
	return int32(atDrives + d.drives + slices.Index(d.links, name))
}

// add appends a stage to r's chain.
func (d *device) add(r int32, op uint8, station int) {
	q := &d.requests[r]
	q.stages[q.n] = stage{op: op, station: int32(station)}
	q.n++
}

// command appends a drive's command to r's chain.
func (d *device) command(r int32, op uint8, drive int) {
	at := atDrives + drive
	if op != opRead {
		at += d.drives
	}
	d.add(r, opIssue, atIssue)
	if d.model.Controller != nil {
		d.add(r, opServe, atServe)
	}
	d.add(r, op, at)
}
