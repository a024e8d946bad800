package workload

import (
	"container/heap"
	"context"
	"fmt"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/workload/kernels"
)

var ssspKind = Kind{
	Name: "sssp", Iterations: 1, Unit: "search, each from another vertex", make: newSSSP, load: loading(kernels.LoadSSSP),
	Doc: "Single-source shortest paths over a weighted Kronecker graph by rounds of relaxation (Bellman-Ford with a mask; Harish and Narayanan, HiPC 2007): a launch offers the distance of every masked vertex to its neighbours, another one takes over what is better and masks it for the next round.",
}

// sssp finds the distance of every vertex.
type sssp struct {
	graphBase
	weights, costs, nexts *tritier.Array[uint32]
	mask                  *tritier.Array[uint8]
}

func newSSSP(p Params) (Workload, error) {
	w := &sssp{}
	return w, w.plan(p, 9, 4, "sssp.weights", "sssp.costs", "sssp.nexts", "sssp.mask")
}

// Describe implements Workload.
func (w *sssp) Describe() string {
	return w.describe(fmt.Sprintf("weights 1 to 255, %d searches", w.Iterations))
}

// Setup implements Workload.
func (w *sssp) Setup(ctx context.Context, mem *tritier.Memory) error {
	if err := w.load(ctx); err != nil {
		return err
	}
	n := w.g.vertices()
	want(&w.arrays, &w.weights, "sssp.weights", uint64(len(w.g.edges)), w.weigh)
	want(&w.arrays, &w.costs, "sssp.costs", n, nil)
	want(&w.arrays, &w.nexts, "sssp.nexts", n, nil)
	want(&w.arrays, &w.mask, "sssp.mask", n, nil)
	return w.arrays.setup(ctx, mem, &w.base)
}

// weigh gives the weights of edges from number first on.
func (w *sssp) weigh(first uint64, dst []uint32) {
	v := vertexOf(w.g.offsets, first)
	for i := range dst {
		at := first + uint64(i)
		for at >= w.g.offsets[v+1] {
			v++
		}
		dst[i] = weightOf(w.Seed, uint32(v), w.g.edges[at])
	}
}

// vertexOf is the vertex whose list edge number at is in.
func vertexOf(offsets []uint64, at uint64) int {
	low, high := 0, len(offsets)-1
	for low < high {
		if mid := (low + high) / 2; offsets[mid+1] <= at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// ssspTile is what the threads that are resident at a time hold.
type ssspTile struct {
	walker
	mask, marks         []uint8
	costs, nexts        []uint32
	active, better      []uint64
	from, weights, seen []uint32
	values              []uint32
	cost                map[uint32]uint32 // of active vertices
	best                map[uint64]uint32 // what the atomic minimum has come to in a batch
}

// Run implements Workload.
func (w *sssp) Run(ctx context.Context, _ *tritier.Memory) error {
	w.expect(0)
	t := &ssspTile{walker: walker{w: &w.graphBase}, cost: map[uint32]uint32{}, best: map[uint64]uint32{}}
	for i := range w.Iterations {
		if err := w.search(ctx, t, w.source(i)); err != nil {
			return err
		}
	}
	return nil
}

func (w *sssp) search(ctx context.Context, t *ssspTile, source uint32) error {
	err := w.launch("clear", func() error {
		if err := clearTo(ctx, &w.base, w.costs, unreached); err != nil {
			return err
		}
		if err := clearTo(ctx, &w.base, w.nexts, unreached); err != nil {
			return err
		}
		return clearTo(ctx, &w.base, w.mask, 0)
	})
	if err != nil {
		return err
	}
	at := []uint64{uint64(source)}
	for _, a := range []*tritier.Array[uint32]{w.costs, w.nexts} {
		if err := a.Scatter(ctx, at, []uint32{0}); err != nil {
			return err
		}
	}
	if err := w.mask.Scatter(ctx, at, []uint8{1}); err != nil {
		return err
	}
	for more := true; more; {
		err := w.launch("relax", func() error {
			return batches(w.g.vertices(), uint64(w.Batch), func(low, high uint64) error { return w.relax(ctx, t, low, high) })
		})
		if err != nil {
			return err
		}
		more = false
		err = w.launch("settle", func() error {
			return batches(w.g.vertices(), uint64(w.Batch), func(low, high uint64) error {
				found, err := w.settle(ctx, t, low, high)
				more = more || found
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// relax is the part of the first launch that has vertices [low, high).
func (w *sssp) relax(ctx context.Context, t *ssspTile, low, high uint64) (err error) {
	t.mask = sized(t.mask, int(high-low))
	if err := w.mask.Read(ctx, low, t.mask); err != nil {
		return err
	}
	t.active = t.active[:0]
	for i, m := range t.mask {
		if m != 0 {
			t.active = append(t.active, low+uint64(i))
		}
	}
	if len(t.active) == 0 {
		return nil
	}
	if t.marks, err = repeat(ctx, w.mask, t.active, 0, t.marks); err != nil {
		return err
	}
	if t.from, err = gather(ctx, w.costs, t.active, t.from); err != nil {
		return err
	}
	clear(t.cost)
	for i, v := range t.active {
		t.cost[uint32(v)] = t.from[i]
	}
	return t.walk(ctx, t.active, func() error { return w.offer(ctx, t) })
}

// offer offers the distances of a batch of edges to the vertices that they lead to,
// with an atomic minimum where they are better.
func (w *sssp) offer(ctx context.Context, t *ssspTile) (err error) {
	if t.weights, err = gather(ctx, w.weights, t.edges, t.weights); err != nil {
		return err
	}
	if t.seen, err = gather(ctx, w.nexts, t.heads, t.seen); err != nil {
		return err
	}
	clear(t.best)
	t.better = t.better[:0]
	for i, to := range t.heads {
		d := t.cost[t.sources[i]] + t.weights[i]
		best, known := t.best[to]
		if !known {
			best = t.seen[i]
		}
		if d >= best {
			continue
		}
		if !known {
			t.better = append(t.better, to)
		}
		t.best[to] = d
	}
	t.values = t.values[:0]
	for _, to := range t.better {
		t.values = append(t.values, t.best[to])
	}
	return w.nexts.Scatter(ctx, t.better, t.values)
}

// settle is the part of the second launch that has vertices [low, high); it says
// whether any is better than before.
func (w *sssp) settle(ctx context.Context, t *ssspTile, low, high uint64) (more bool, err error) {
	t.costs, t.nexts = sized(t.costs, int(high-low)), sized(t.nexts, int(high-low))
	if err := w.costs.Read(ctx, low, t.costs); err != nil {
		return false, err
	}
	if err := w.nexts.Read(ctx, low, t.nexts); err != nil {
		return false, err
	}
	t.better, t.values = t.better[:0], t.values[:0]
	for i, next := range t.nexts {
		if next < t.costs[i] {
			t.better, t.values = append(t.better, low+uint64(i)), append(t.values, next)
		}
	}
	if len(t.better) == 0 {
		return false, nil
	}
	if err := w.costs.Scatter(ctx, t.better, t.values); err != nil {
		return false, err
	}
	t.marks, err = repeat(ctx, w.mask, t.better, 1, t.marks)
	return true, err
}

// Verify implements Workload: Dijkstra's algorithm, from the last source; for large
// graphs a proof.
func (w *sssp) Verify(ctx context.Context, _ *tritier.Memory) error {
	if w.g != nil && w.g.vertices() >= provedFrom {
		return w.prove(ctx, w.costs, w.source(w.Iterations-1), func(u, v uint32) uint32 { return weightOf(w.Seed, u, v) })
	}
	return compare(ctx, &w.base, w.costs, func() ([]uint32, error) { return w.reference(), nil })
}

func (w *sssp) reference() []uint32 {
	costs := make([]uint32, w.g.vertices())
	for v := range costs {
		costs[v] = unreached
	}
	source := w.source(w.Iterations - 1)
	costs[source] = 0
	for todo := (&reached{{0, source}}); len(*todo) > 0; {
		at := heap.Pop(todo).(vertexAt)
		if at.cost > costs[at.v] {
			continue
		}
		for _, to := range w.g.of(at.v) {
			if d := at.cost + weightOf(w.Seed, at.v, to); d < costs[to] {
				costs[to] = d
				heap.Push(todo, vertexAt{d, to})
			}
		}
	}
	return costs
}

// vertexAt is a vertex and a distance at which it can be reached.
type vertexAt struct{ cost, v uint32 }

// reached is a heap of vertices, the nearest first.
type reached []vertexAt

func (r reached) Len() int           { return len(r) }
func (r reached) Less(i, j int) bool { return r[i].cost < r[j].cost }
func (r reached) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }

// Push implements heap.Interface.
func (r *reached) Push(x any) { *r = append(*r, x.(vertexAt)) }

// Pop implements heap.Interface.
func (r *reached) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}
