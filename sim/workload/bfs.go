package workload

import (
	"math"

	"github.com/tritier/tritier/sim/trace"
)

// unreached is the level or distance of a vertex that no path leads to.
const unreached = math.MaxUint32

var bfsShape = &shape{
	name: "bfs",
	doc: "Breadth-first search, level by level, a launch each, over a power-law graph. Arrays: 0 offsets (8 bytes), 1 neighbours, 2 levels (4 bytes). " +
		"Every launch looks at the level of each vertex and expands those of the frontier.",
	params: graphParams(count("sources", "1", "searches, each from a random vertex", 1, 1<<20)),
	derive: deriveGraph(12, 0),
	open: openGraph(func(d *device, v values) {
		b, src := newBFS(d), newSource(v.uint("seed"), sourceStream)
		for i := uint64(0); i < v.uint("sources") && !d.closed; i++ {
			b.search(d.g.start(src))
		}
	}),
}

// bfs is a breadth-first search.
type bfs struct {
	*device
	column column
	levels []uint32
	found  []uint64 // scratch
}

func newBFS(d *device) *bfs {
	return &bfs{device: d, column: d.property(2, 4), levels: make([]uint32, d.g.vertices())}
}

// search sets the level of every vertex.
func (b *bfs) search(start uint32) {
	b.fill(b.column)
	for v := range b.levels {
		b.levels[v] = unreached
	}
	b.levels[start] = 0
	for depth, more := uint32(0), true; more && !b.closed; depth++ {
		more = b.expand(depth)
	}
}

// expand is the launch that finds level depth+1; it says whether there is one.
func (b *bfs) expand(depth uint32) (more bool) {
	b.warps(func(low, high uint64) {
		b.span(b.column, low, high, trace.Read)
		frontier := b.pick(low, high, func(v uint32) bool { return b.levels[v] == depth })
		b.walk(frontier, func(edges []edge) {
			b.targets(b.column, edges)
			b.found = b.found[:0]
			for _, e := range edges {
				if to := b.g.neighbours[e.at]; b.levels[to] == unreached {
					b.levels[to] = depth + 1
					b.found = append(b.found, uint64(to))
					more = true
				}
			}
			b.write(b.column, b.found, 0)
		})
	})
	return more
}
