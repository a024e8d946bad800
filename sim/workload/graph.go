package workload

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// graph is an undirected graph in compressed sparse rows: the neighbours of
// vertex v are neighbours[offsets[v]:offsets[v+1]], ascending and distinct.
type graph struct {
	offsets    []uint64
	neighbours []uint32
}

func (g *graph) vertices() uint64       { return uint64(len(g.offsets) - 1) }
func (g *graph) degree(v uint32) uint64 { return g.offsets[v+1] - g.offsets[v] }
func (g *graph) list(v uint32) []uint32 { return g.neighbours[g.offsets[v]:g.offsets[v+1]] }

// The quadrant probabilities of R-MAT as the Graph 500 and GAP benchmarks set
// them, times 2^32: a = 0.57, b = c = 0.19.
const (
	rmatA   = 57 * (1 << 32) / 100
	rmatAB  = 76 * (1 << 32) / 100
	rmatABC = 95 * (1 << 32) / 100
)

// rmat draws the edges of a Kronecker graph (Chakrabarti, Zhan and Faloutsos,
// SDM 2004). Edge i is a function of the seed and i, so that a second run over
// the edges needs no list of them.
type rmat struct {
	scale  uint
	seed   uint64
	labels permutation // hides the recursion, as GAP does
}

func (r *rmat) edge(i uint64) (u, v uint32) {
	var draws uint64
	own := hash(r.seed + i)
	for level := range r.scale {
		if level%2 == 0 {
			draws = hash(own + uint64(level))
		}
		draw := draws & math.MaxUint32
		draws >>= 32
		u, v = u<<1, v<<1
		switch {
		case draw < rmatA:
		case draw < rmatAB:
			v |= 1
		case draw < rmatABC:
			u |= 1
		default:
			u, v = u|1, v|1
		}
	}
	return uint32(r.labels.at(uint64(u))), uint32(r.labels.at(uint64(v)))
}

// edges calls f for both directions of every edge but self-loops. It looks at
// ctx every now and then.
func (r *rmat) edges(ctx context.Context, n uint64, f func(from, to uint32)) error {
	for i := range n {
		if i%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if u, v := r.edge(i); u != v {
			f(u, v)
			f(v, u)
		}
	}
	return nil
}

// newGraph generates 2^scale vertices and degree edges for each of them, of
// which self-loops and duplicates are dropped. At its peak it holds 16 bytes a
// vertex and 8 bytes an edge.
func newGraph(ctx context.Context, scale uint, degree, seed uint64) (*graph, error) {
	n := uint64(1) << scale
	r := &rmat{scale, hash(seed), newPermutation(n, seed)}
	g := &graph{offsets: make([]uint64, n+1)}
	if err := r.edges(ctx, n*degree, func(from, _ uint32) { g.offsets[from+1]++ }); err != nil {
		return nil, err
	}
	for v := range n {
		g.offsets[v+1] += g.offsets[v]
	}
	g.neighbours = make([]uint32, g.offsets[n])
	at := slices.Clone(g.offsets[:n])
	err := r.edges(ctx, n*degree, func(from, to uint32) {
		g.neighbours[at[from]] = to
		at[from]++
	})
	if err != nil {
		return nil, err
	}
	return g, g.tidy(ctx)
}

// tidy sorts every list and drops duplicates.
func (g *graph) tidy(ctx context.Context) error {
	kept, low := uint64(0), uint64(0)
	for v := range g.vertices() {
		if v%(1<<12) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		list := g.neighbours[low:g.offsets[v+1]]
		low = g.offsets[v+1]
		slices.Sort(list)
		kept += uint64(copy(g.neighbours[kept:], slices.Compact(list)))
		g.offsets[v+1] = kept
	}
	g.neighbours = g.neighbours[:kept]
	return nil
}

// weight is the weight of an edge, 1 to 255 as in GAP, the same both ways.
func weight(seed uint64, u, v uint32) uint32 {
	return uint32(hash(seed^hash(uint64(min(u, v))<<32|uint64(max(u, v))))%255) + 1
}

// start picks the vertex that a search begins at: the first one from a random
// place that has a neighbour.
func (g *graph) start(src source) uint32 {
	v := src.below(g.vertices())
	for g.degree(uint32(v)) == 0 {
		v = (v + 1) % g.vertices()
	}
	return uint32(v)
}

// maxEntries bounds the neighbours of a graph, 4 bytes each in memory.
const maxEntries = 1 << 33

// graphParams are the parameters of every graph algorithm.
func graphParams(own ...Param) []Param {
	return append([]Param{
		count("scale", "14", "2^scale vertices", 1, 30),
		bytesParam("scale", "size that the arrays may have; the largest graph that fits is taken"),
		count("degree", "16", "edges for each vertex, before duplicates and self-loops are dropped", 1, 1024),
		choice("edges", "warp", "who walks the neighbours of a vertex: its whole warp, 32 at a time, or its own thread, one at a time", "warp", "thread"),
		size("index", "4B", "bytes of a vertex number in the array of neighbours", 4, 8),
		pageSizeParam, seedParam,
	}, own...)
}

// deriveGraph derives the scale from the total size of the arrays, where
// vertexBytes and entryBytes are what one vertex and one neighbour take.
func deriveGraph(vertexBytes, entryBytes uint64) func(values) error {
	return func(v values) error {
		if v.has("bytes") {
			scale := uint64(0)
			one := vertexBytes + 2*v.uint("degree")*(entryBytes+v.uint("index"))
			for scale < 30 && one<<(scale+1) <= v.uint("bytes") {
				scale++
			}
			v.set("scale", scale)
		}
		if v.uint("page-size") < 8 {
			return fmt.Errorf("page-size=%d is smaller than an element, 8 bytes", v.uint("page-size"))
		}
		if index := v.uint("index"); index != 4 && index != 8 {
			return fmt.Errorf("index=%d: valid are 4B, 8B", index)
		}
		if n := v.uint("degree") << v.uint("scale"); n > maxEntries/2 {
			return fmt.Errorf("scale=%d and degree=%d: the graph has more than %d edges", v.uint("scale"), v.uint("degree"), maxEntries/2)
		}
		return nil
	}
}

// openGraph is the open function of a graph algorithm.
func openGraph(run func(d *device, v values)) func(context.Context, values) (func(*stream), error) {
	return func(ctx context.Context, v values) (func(*stream), error) {
		g, err := newGraph(ctx, uint(v.uint("scale")), v.uint("degree"), v.uint("seed"))
		if err != nil {
			return nil, err
		}
		if len(g.neighbours) == 0 {
			return nil, fmt.Errorf("the graph has no edge; give a larger scale or degree")
		}
		return func(s *stream) { run(newDevice(s, g, v), v) }, nil
	}
}
