package workload

import "github.com/tritier/tritier/sim/trace"

var ssspShape = &shape{
	name: "sssp",
	doc: "Single-source shortest paths by rounds of relaxation (Bellman-Ford with a mask; Harish and Narayanan, HiPC 2007), two launches a round. Arrays: 0 offsets (8 bytes), " +
		"1 neighbours, 2 weights (4 bytes, 1 to 255), 3 distances (4), 4 distances of the next round (4), 5 mask (1).",
	params: graphParams(count("sources", "1", "searches, each from a random vertex", 1, 1<<20)),
	derive: deriveGraph(17, 4),
	open: openGraph(func(d *device, v values) {
		p, src := newSSSP(d, v.uint("seed")), newSource(v.uint("seed"), sourceStream)
		for i := uint64(0); i < v.uint("sources") && !d.closed; i++ {
			p.search(d.g.start(src))
		}
	}),
}

// sssp is a shortest-path search.
type sssp struct {
	*device
	seed                        uint64
	weights, costs, nexts, mask column
	cost, next                  []uint32
	masked                      []bool
	better                      []uint64 // scratch
}

func newSSSP(d *device, seed uint64) *sssp {
	n := d.g.vertices()
	return &sssp{
		device: d, seed: seed,
		weights: column{2, 4, d.neighbours.length}, costs: d.property(3, 4), nexts: d.property(4, 4), mask: d.property(5, 1),
		cost: make([]uint32, n), next: make([]uint32, n), masked: make([]bool, n),
	}
}

// search sets the distance of every vertex.
func (p *sssp) search(start uint32) {
	for _, c := range []column{p.costs, p.nexts, p.mask} {
		p.fill(c)
	}
	for v := range p.cost {
		p.cost[v], p.next[v], p.masked[v] = unreached, unreached, false
	}
	p.cost[start], p.next[start], p.masked[start] = 0, 0, true
	for more := true; more && !p.closed; {
		p.relax()
		more = !p.closed && p.settle()
	}
}

// relax is the launch that offers every masked vertex's distance to its
// neighbours, with an atomic minimum where it is better.
func (p *sssp) relax() {
	p.warps(func(low, high uint64) {
		p.span(p.mask, low, high, trace.Read)
		active := p.pick(low, high, func(v uint32) bool { return p.masked[v] })
		p.vertices(p.mask, active, trace.Write)
		p.vertices(p.costs, active, trace.Read)
		for _, v := range active {
			p.masked[v] = false
		}
		p.walk(active, func(edges []edge) {
			p.along(p.weights, edges)
			p.targets(p.nexts, edges)
			p.better = p.better[:0]
			for _, e := range edges {
				to := p.g.neighbours[e.at]
				if d := p.cost[e.from] + weight(p.seed, e.from, to); d < p.next[to] {
					p.next[to] = d
					p.better = append(p.better, uint64(to))
				}
			}
			p.write(p.nexts, p.better, trace.Update)
		})
	})
}

// settle is the launch that takes the better distances over and masks their
// vertices for the next round; it says whether there are any.
func (p *sssp) settle() (more bool) {
	p.warps(func(low, high uint64) {
		p.span(p.costs, low, high, trace.Read)
		p.span(p.nexts, low, high, trace.Read)
		better := p.pick(low, high, func(v uint32) bool { return p.next[v] < p.cost[v] })
		for _, v := range better {
			p.cost[v], p.masked[v] = p.next[v], true
			more = true
		}
		p.vertices(p.costs, better, trace.Write)
		p.vertices(p.mask, better, trace.Write)
	})
	return more
}
