package workload

import "github.com/tritier/tritier/sim/trace"

// warpSize is the number of threads that execute an instruction together.
const warpSize = 32

// column is an array that a graph algorithm has in device memory.
type column struct {
	id     uint32
	elem   uint64 // bytes of an element
	length uint64
}

// device turns the instructions of warps into accesses: one for each distinct
// page that the lanes of a warp touch with one instruction.
type device struct {
	*stream
	g          *graph
	pageSize   uint64
	byThread   bool // each thread walks the neighbours of its own vertex
	offsets    column
	neighbours column

	active []uint32 // scratch: vertices of a warp that have work
	lanes  []uint64 // scratch: element of each lane
	edges  []edge   // scratch: edge of each lane
}

// edge is a place in the array of neighbours and the vertex that it belongs to.
type edge struct {
	from uint32
	at   uint64
}

func newDevice(s *stream, g *graph, v values) *device {
	return &device{
		stream: s, g: g, pageSize: v.uint("page-size"), byThread: v.word("edges") == "thread",
		offsets:    column{0, 8, g.vertices() + 1},
		neighbours: column{1, v.uint("index"), uint64(len(g.neighbours))},
	}
}

// property is the column of a value for each vertex. Columns 0 and 1 are the
// graph's own.
func (d *device) property(id uint32, elem uint64) column { return column{id, elem, d.g.vertices()} }

// span is one instruction of consecutive lanes on the elements [low, high).
func (d *device) span(c column, low, high uint64, op trace.Op) {
	d.put(trace.Record{Addr: low * c.elem, Bytes: (high - low) * c.elem, Array: c.id, Op: op})
}

// gather is one instruction whose lanes touch the given elements, in any
// order: a group with a range for each distinct page, in the order of the
// lanes. An element never straddles two pages.
func (d *device) gather(c column, elements []uint64, op trace.Op, flags uint8) {
	var pages, low, high [2 * warpSize]uint64
	n := 0
lanes:
	for _, e := range elements {
		addr := e * c.elem
		page := addr / d.pageSize
		for i := n - 1; i >= 0; i-- {
			if pages[i] == page {
				low[i], high[i] = min(low[i], addr), max(high[i], addr)
				continue lanes
			}
		}
		pages[n], low[n], high[n] = page, addr, addr
		n++
	}
	for i := range n {
		d.put(trace.Record{Addr: low[i], Bytes: high[i] + c.elem - low[i], Array: c.id, Op: op, Flags: flags})
		flags |= trace.SameGroup
	}
}

// fill writes a column from end to end in whole pages, as a launch of its own.
func (d *device) fill(c column) {
	d.request()
	size := (c.length*c.elem + d.pageSize - 1) / d.pageSize * d.pageSize
	d.put(trace.Record{Bytes: size, Array: c.id, Op: trace.Write})
}

// warps calls f for the vertices [low, high) of each warp, a launch with a
// thread for each vertex.
func (d *device) warps(f func(low, high uint64)) {
	d.request()
	for low, n := uint64(0), d.g.vertices(); low < n && !d.closed; low += warpSize {
		f(low, min(low+warpSize, n))
	}
}

// pick collects the vertices of [low, high) for which f holds; valid until the
// next pick.
func (d *device) pick(low, high uint64, f func(v uint32) bool) []uint32 {
	d.active = d.active[:0]
	for v := low; v < high; v++ {
		if f(uint32(v)) {
			d.active = append(d.active, uint32(v))
		}
	}
	return d.active
}

// vertices is one instruction on the elements of the given vertices.
func (d *device) vertices(c column, list []uint32, op trace.Op) {
	d.lanes = d.lanes[:0]
	for _, v := range list {
		d.lanes = append(d.lanes, uint64(v))
	}
	if len(list) > 0 {
		d.gather(c, d.lanes, op, 0)
	}
}

// walk reads the bounds of the lists of some vertices of one warp, then their
// neighbours, and calls f for the edges of each step, 32 at most. f sees the
// edges after the neighbours were loaded, and must not keep them.
func (d *device) walk(list []uint32, f func(edges []edge)) {
	if len(list) == 0 {
		return
	}
	d.lanes = d.lanes[:0]
	for _, v := range list {
		d.lanes = append(d.lanes, uint64(v), uint64(v)+1)
	}
	d.gather(d.offsets, d.lanes, trace.Read, 0)
	if d.byThread {
		d.walkByThread(list, f)
		return
	}
	for _, v := range list {
		for at, end := d.g.offsets[v], d.g.offsets[v+1]; at < end && !d.closed; at += warpSize {
			d.edges = d.edges[:0]
			for e := at; e < min(at+warpSize, end); e++ {
				d.edges = append(d.edges, edge{v, e})
			}
			d.step(f)
		}
	}
}

// walkByThread has each lane walk its own list, in lockstep with the others.
func (d *device) walkByThread(list []uint32, f func(edges []edge)) {
	for i := uint64(0); !d.closed; i++ {
		d.edges = d.edges[:0]
		for _, v := range list {
			if i < d.g.degree(v) {
				d.edges = append(d.edges, edge{v, d.g.offsets[v] + i})
			}
		}
		if len(d.edges) == 0 {
			return
		}
		d.step(f)
	}
}

// step loads the neighbours at the lanes' edges and hands the edges on.
func (d *device) step(f func(edges []edge)) {
	d.along(d.neighbours, d.edges)
	f(d.edges)
}

// along is one load of a column that runs parallel to the neighbours.
func (d *device) along(c column, edges []edge) {
	d.lanes = d.lanes[:0]
	for _, e := range edges {
		d.lanes = append(d.lanes, e.at)
	}
	d.gather(c, d.lanes, trace.Read, 0)
}

// targets is one load of a property of the vertices that the edges lead to.
func (d *device) targets(c column, edges []edge) {
	d.lanes = d.lanes[:0]
	for _, e := range edges {
		d.lanes = append(d.lanes, uint64(d.g.neighbours[e.at]))
	}
	d.gather(c, d.lanes, trace.Read, 0)
}

// write is one store, or atomic with trace.Update, to the elements that were
// collected; none is no instruction.
func (d *device) write(c column, elements []uint64, flags uint8) {
	if len(elements) > 0 {
		d.gather(c, elements, trace.Write, flags)
	}
}
