package workload

import "github.com/tritier/tritier/sim/trace"

var pagerankShape = &shape{
	name: "pagerank",
	doc: "PageRank by pulling, with damping 0.85, two launches an iteration over a power-law graph. Arrays: 0 offsets (8 bytes), 1 neighbours, 2 ranks (4), " +
		"3 contributions (rank over degree, 4).",
	params: graphParams(count("iterations", "10", "iterations", 1, 1<<20)),
	derive: deriveGraph(16, 0),
	open: openGraph(func(d *device, v values) {
		newPagerank(d).iterate(v.uint("iterations"))
	}),
}

const damping = 0.85

// pagerank computes ranks in single precision, as GPU programs do. The
// accesses do not depend on them.
type pagerank struct {
	*device
	ranks, contributions column
	rank, contribution   []float32
}

func newPagerank(d *device) *pagerank {
	n := d.g.vertices()
	return &pagerank{device: d, ranks: d.property(2, 4), contributions: d.property(3, 4),
		rank: make([]float32, n), contribution: make([]float32, n)}
}

func (p *pagerank) iterate(iterations uint64) {
	p.fill(p.ranks)
	for v := range p.rank {
		p.rank[v] = 1 / float32(len(p.rank))
	}
	for i := uint64(0); i < iterations && !p.closed; i++ {
		p.contribute()
		if !p.closed {
			p.pull()
		}
	}
}

// contribute is the launch that divides each rank among the neighbours.
func (p *pagerank) contribute() {
	p.warps(func(low, high uint64) {
		p.span(p.ranks, low, high, trace.Read)
		p.span(p.offsets, low, high+1, trace.Read)
		for v := low; v < high; v++ {
			// A vertex without neighbours gives its rank to nobody, as in GAP.
			p.contribution[v] = p.rank[v] / float32(max(p.g.degree(uint32(v)), 1))
		}
		p.span(p.contributions, low, high, trace.Write)
	})
}

// pull is the launch that sums the contributions up.
func (p *pagerank) pull() {
	base := (1 - float32(damping)) / float32(len(p.rank))
	p.warps(func(low, high uint64) {
		var sums [warpSize]float32
		all := p.pick(low, high, func(uint32) bool { return true })
		p.walk(all, func(edges []edge) {
			p.targets(p.contributions, edges)
			for _, e := range edges {
				sums[uint64(e.from)-low] += p.contribution[p.g.neighbours[e.at]]
			}
		})
		for v := low; v < high; v++ {
			p.rank[v] = base + damping*sums[v-low]
		}
		p.span(p.ranks, low, high, trace.Write)
	})
}
