package workload

import (
	"container/heap"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tritier/tritier/sim/trace"
)

// counter makes a stream that only counts its records.
func counter(n *int) *stream {
	s := &stream{batch: make([]trace.Record, 64)}
	s.suspend = func() bool { *n += s.n; s.n = 0; return true }
	return s
}

// testDevice is a device over a generated graph, for algorithms run directly.
func testDevice(t *testing.T, text string) (*device, uint64) {
	t.Helper()
	v := mustParse(t, text).values
	g, err := newGraph(t.Context(), uint(v.uint("scale")), v.uint("degree"), v.uint("seed"))
	if err != nil {
		t.Fatal(err)
	}
	n := new(int)
	return newDevice(counter(n), g, v), v.uint("seed")
}

var graphSpecs = []string{
	"bfs{scale=1,degree=1,seed=2}", "bfs{scale=5,degree=2,seed=1}", "bfs{scale=9,degree=16,seed=3}", "bfs{scale=11,degree=1,seed=4,edges=thread}",
	"bfs{scale=10,degree=8,seed=5,edges=thread,page-size=128B}",
}

func TestGraphIsWellFormed(t *testing.T) {
	for _, spec := range graphSpecs {
		d, _ := testDevice(t, spec)
		g := d.g
		if g.offsets[0] != 0 || g.offsets[g.vertices()] != uint64(len(g.neighbours)) {
			t.Fatalf("%s: offsets %d to %d of %d", spec, g.offsets[0], g.offsets[g.vertices()], len(g.neighbours))
		}
		for v := range uint32(g.vertices()) {
			for i, u := range g.list(v) {
				if i > 0 && u <= g.list(v)[i-1] {
					t.Fatalf("%s: list of %d is not ascending: %v", spec, v, g.list(v))
				}
				if _, back := slices.BinarySearch(g.list(u), v); u == v || !back {
					t.Fatalf("%s: edge %d to %d has no way back, or is a self-loop", spec, v, u)
				}
			}
		}
	}
}

// TestGraphIsSkewed compares the generator with R-MAT's theory: the share of
// edges whose ends agree in the top bit of the recursion, and the hub.
func TestGraphIsSkewed(t *testing.T) {
	r := &rmat{12, hash(1), newPermutation(1<<12, 1)}
	quadrants := [4]float64{}
	const n = 200_000
	inverse := make([]uint32, 1<<12)
	for x := range inverse {
		inverse[r.labels.at(uint64(x))] = uint32(x)
	}
	for i := range uint64(n) {
		u, v := r.edge(i)
		quadrants[inverse[u]>>11<<1|inverse[v]>>11]++
	}
	for q, p := range []float64{0.57, 0.19, 0.19, 0.05} {
		if math.Abs(quadrants[q]-n*p) > 5*math.Sqrt(n*p*(1-p)) {
			t.Errorf("quadrant %d has %v of %d edges, want %v", q, quadrants[q], n, n*p)
		}
	}
	d, _ := testDevice(t, "bfs{scale=12}")
	degrees := make([]uint64, d.g.vertices())
	for v := range degrees {
		degrees[v] = d.g.degree(uint32(v))
	}
	slices.Sort(degrees)
	median, hub := degrees[len(degrees)/2], degrees[len(degrees)-1]
	if hub < 20*max(median, 1) {
		t.Errorf("median degree %d, largest %d: no power law", median, hub)
	}
}

func TestBFSLevels(t *testing.T) {
	for _, spec := range graphSpecs {
		d, seed := testDevice(t, spec)
		b := newBFS(d)
		for _, start := range []uint32{d.g.start(newSource(seed, sourceStream)), 0} {
			want := make([]uint32, d.g.vertices())
			for v := range want {
				want[v] = unreached
			}
			want[start] = 0
			for queue := []uint32{start}; len(queue) > 0; queue = queue[1:] {
				for _, u := range d.g.list(queue[0]) {
					if want[u] == unreached {
						want[u] = want[queue[0]] + 1
						queue = append(queue, u)
					}
				}
			}
			if b.search(start); !slices.Equal(b.levels, want) {
				t.Errorf("%s from %d: levels differ from a queue's", spec, start)
			}
		}
	}
}

// byDistance is a heap for Dijkstra's algorithm.
type byDistance [][2]uint32

func (h byDistance) Len() int           { return len(h) }
func (h byDistance) Less(i, j int) bool { return h[i][0] < h[j][0] }
func (h byDistance) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byDistance) Push(x any)        { *h = append(*h, x.([2]uint32)) }
func (h *byDistance) Pop() any {
	x := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return x
}

func TestSSSPDistances(t *testing.T) {
	for _, spec := range graphSpecs {
		d, seed := testDevice(t, strings.Replace(spec, "bfs", "sssp", 1))
		p := newSSSP(d, seed)
		start := d.g.start(newSource(seed, sourceStream))
		want := make([]uint32, d.g.vertices())
		for v := range want {
			want[v] = unreached
		}
		want[start] = 0
		for h := (byDistance{{0, start}}); len(h) > 0; {
			at := heap.Pop(&h).([2]uint32)
			for _, u := range d.g.list(at[1]) {
				if to := at[0] + weight(seed, at[1], u); at[0] == want[at[1]] && to < want[u] {
					want[u] = to
					heap.Push(&h, [2]uint32{to, u})
				}
			}
		}
		if p.search(start); !slices.Equal(p.cost, want) {
			t.Errorf("%s: distances differ from Dijkstra's", spec)
		}
	}
	counts := map[uint32]int{}
	for v := range uint32(100_000) {
		counts[weight(1, v, v+1)]++
		if weight(1, v, v+1) != weight(1, v+1, v) {
			t.Fatal("a weight depends on the direction")
		}
	}
	if len(counts) != 255 || counts[0] != 0 || counts[256] != 0 {
		t.Errorf("%d different weights", len(counts))
	}
}

func TestPagerankRanks(t *testing.T) {
	for _, spec := range graphSpecs {
		d, _ := testDevice(t, strings.Replace(spec, "bfs", "pagerank", 1))
		p := newPagerank(d)
		p.iterate(20)
		n := d.g.vertices()
		rank := make([]float64, n)
		for v := range rank {
			rank[v] = 1 / float64(n)
		}
		for range 20 {
			next := make([]float64, n)
			for v := range next {
				next[v] = 0.15 / float64(n)
			}
			for v := range uint32(n) { // pushed here, pulled there
				for _, u := range d.g.list(v) {
					next[u] += 0.85 * rank[v] / float64(d.g.degree(v))
				}
			}
			rank = next
		}
		for v := range rank {
			if math.Abs(float64(p.rank[v])/rank[v]-1) > 1e-4 {
				t.Fatalf("%s: rank of %d is %v, want %v", spec, v, p.rank[v], rank[v])
			}
		}
	}
}

// path is the graph 0-1-2-3 with a vertex 4 apart.
func path() *graph {
	return &graph{offsets: []uint64{0, 1, 3, 5, 6, 6}, neighbours: []uint32{1, 0, 2, 1, 3, 2}}
}

// TestGraphAccessesByHand runs on a path of four vertices, with pages of 8
// bytes: one offset, two neighbours, two levels, eight mask bytes a page.
func TestGraphAccessesByHand(t *testing.T) {
	for _, c := range []struct {
		name, spec, want string
		run              func(d *device)
	}{
		{"bfs from 1: clear the levels; level 0 finds 0 and 2; level 1 finds 3; level 2 finds nothing", "bfs{page-size=8B}",
			"*Wc0:24 " +
				"*Rc0:20 Ra8:8 +Ra16:8 Rb4:4 +Rb8:4 Rc0:4 +Rc8:4 Wc0:4 +Wc8:4 " +
				"*Rc0:20 Ra0:8 +Ra8:8 +Ra16:8 +Ra24:8 Rb0:4 Rc4:4 Rb12:4 +Rb16:4 Rc4:4 +Rc12:4 Wc12:4 " +
				"*Rc0:20 Ra24:8 +Ra32:8 Rb20:4 Rc8:4",
			func(d *device) { newBFS(d).search(1) }},
		{"the same by threads: the two vertices of level 1 step together", "bfs{page-size=8B,edges=thread}",
			"*Wc0:24 " +
				"*Rc0:20 Ra8:8 +Ra16:8 Rb4:4 Rc0:4 Wc0:4 Rb8:4 Rc8:4 Wc8:4 " +
				"*Rc0:20 Ra0:8 +Ra8:8 +Ra16:8 +Ra24:8 Rb0:4 +Rb12:4 Rc4:4 Rb16:4 Rc12:4 Wc12:4 " +
				"*Rc0:20 Ra24:8 +Ra32:8 Rb20:4 Rc8:4",
			func(d *device) { newBFS(d).search(1) }},
		{"one iteration of pagerank, everything on one page but the graph's own arrays", "pagerank{page-size=32B,edges=thread}",
			"*Wc0:32 *Rc0:20 Ra0:48 Wd0:20 *Ra0:32 +Ra32:16 Rb0:24 Rd0:12 Rb8:12 Rd8:8 Wc0:20",
			func(d *device) { newPagerank(d).iterate(1) }},
		{"shortest paths from 3, first round: relax offers 2 a distance, settle masks it", "sssp{page-size=64B}",
			"*Wd0:64 *We0:64 *Wf0:64 *Rf0:5 Wf3:1 Rd12:4 Ra24:16 Rb20:4 Rc20:4 Re8:4 Ue8:4 *Rd0:20 Re0:20 Wd8:4 Wf2:1",
			func(d *device) {
				p := newSSSP(d, 1)
				for _, c := range []column{p.costs, p.nexts, p.mask} {
					p.fill(c)
				}
				for v := range p.cost {
					p.cost[v], p.next[v] = unreached, unreached
				}
				p.cost[3], p.next[3], p.masked[3] = 0, 0, true
				p.relax()
				p.settle()
			}},
	} {
		s := &stream{batch: make([]trace.Record, 1000)}
		c.run(newDevice(s, path(), mustParse(t, c.spec).values))
		if got := script(s.batch[:s.n]); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestCoarserPages: a trace made for small pages and split into larger ones is
// the trace made for the larger ones.
func TestCoarserPages(t *testing.T) {
	for _, shape := range []string{
		"bfs{scale=12,degree=4", "sssp{scale=12,degree=4", "pagerank{scale=12,degree=4,iterations=2",
		"bfs{scale=12,degree=4,edges=thread", "hotspot{rows=64,cols=64,tile=128B", "srad{rows=64,cols=64,tile=4KiB,iterations=2",
	} {
		fine := accesses(t, shape+",page-size=512B}", 4096)
		coarse := accesses(t, shape+",page-size=4KiB}", 4096)
		if !slices.Equal(fine, coarse) {
			t.Errorf("%s: %d accesses from fine pages, %d from coarse, or in another order", shape, len(fine), len(coarse))
		}
	}
}

func TestGraphRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"bfs{bytes=1KiB,scale=3}":    "bytes and scale",
		"bfs{bytes=10B}":             "scale=0 is out of range",
		"bfs{page-size=4B}":          "smaller than an element",
		"bfs{index=5B}":              "valid are 4B, 8B",
		"sssp{scale=30,degree=1024}": "more than",
		"pagerank{edges=block}":      "valid are warp, thread",
	} {
		if _, err := Parse(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%s): %v, want %q", in, err, want)
		}
	}
	if s := mustParse(t, "bfs{bytes=1GiB}").String(); !strings.Contains(s, "{scale=22,") {
		t.Errorf("1 GiB gives %s", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := mustParse(t, "bfs").Open(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Open after cancel: %v", err)
	}
}
