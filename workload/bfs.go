package workload

import (
	"context"
	"fmt"
	"math"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/workload/kernels"
)

// unreached is the level or distance of a vertex that no path leads to.
const unreached = math.MaxUint32

var bfsKind = Kind{
	Name: "bfs", Iterations: 1, Unit: "search, each from another vertex", make: newBFS, load: loading(kernels.LoadBFS),
	Doc: "Breadth-first search over a Kronecker graph (as GAP's kron), level by level: every launch looks at the level of each vertex and expands those of the frontier along their lists of neighbours.",
}

// bfs finds the level of every vertex.
type bfs struct {
	graphBase
	levels *tritier.Array[uint32]
}

func newBFS(p Params) (Workload, error) {
	w := &bfs{}
	return w, w.plan(p, 4, 0, "bfs.levels")
}

// Describe implements Workload.
func (w *bfs) Describe() string { return w.describe(fmt.Sprintf("%d searches", w.Iterations)) }

// Setup implements Workload.
func (w *bfs) Setup(ctx context.Context, mem *tritier.Memory) error {
	if err := w.load(ctx); err != nil {
		return err
	}
	want(&w.arrays, &w.levels, "bfs.levels", w.g.vertices(), nil)
	return w.arrays.setup(ctx, mem, &w.base)
}

// Run implements Workload.
func (w *bfs) Run(ctx context.Context, _ *tritier.Memory) error {
	w.expect(0)
	t := &bfsTile{walker: walker{w: &w.graphBase}}
	for i := range w.Iterations {
		if err := w.search(ctx, t, w.source(i)); err != nil {
			return err
		}
	}
	return nil
}

// bfsTile is what the threads that are resident at a time hold.
type bfsTile struct {
	walker
	levels   []uint32
	frontier []uint64
	seen     []uint32
	found    []uint64
	values   []uint32
}

func (w *bfs) search(ctx context.Context, t *bfsTile, source uint32) error {
	err := w.launch("clear", func() error { return clearTo(ctx, &w.base, w.levels, unreached) })
	if err != nil {
		return err
	}
	if err := w.levels.Write(ctx, uint64(source), []uint32{0}); err != nil {
		return err
	}
	for depth, more := uint32(0), true; more; depth++ {
		more = false
		err := w.launch("expand", func() error {
			return batches(w.g.vertices(), uint64(w.Batch), func(low, high uint64) error {
				found, err := w.expand(ctx, t, depth, low, high)
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

// clearTo sets every element of an array.
func clearTo[T any](ctx context.Context, b *base, a *tritier.Array[T], v T) error {
	return fill(ctx, b, a, func(_ uint64, dst []T) {
		for i := range dst {
			dst[i] = v
		}
	})
}

// expand is the part of a launch that has vertices [low, high); it says whether
// it has found a vertex of the next level.
func (w *bfs) expand(ctx context.Context, t *bfsTile, depth uint32, low, high uint64) (more bool, err error) {
	t.levels = sized(t.levels, int(high-low))
	if err := w.levels.Read(ctx, low, t.levels); err != nil {
		return false, err
	}
	t.frontier = t.frontier[:0]
	for i, level := range t.levels {
		if level == depth {
			t.frontier = append(t.frontier, low+uint64(i))
		}
	}
	err = t.walk(ctx, t.frontier, func() (err error) {
		if t.seen, err = gather(ctx, w.levels, t.heads, t.seen); err != nil {
			return err
		}
		t.found = t.found[:0]
		for i, level := range t.seen {
			if level == unreached {
				t.found = append(t.found, t.heads[i])
			}
		}
		more = more || len(t.found) > 0
		t.values, err = repeat(ctx, w.levels, t.found, depth+1, t.values)
		return err
	})
	return more, err
}

// Verify implements Workload: a search with a queue, from the last source; for large
// graphs a proof.
func (w *bfs) Verify(ctx context.Context, _ *tritier.Memory) error {
	if w.g != nil && w.g.vertices() >= provedFrom {
		return w.prove(ctx, w.levels, w.source(w.Iterations-1), func(_, _ uint32) uint32 { return 1 })
	}
	return compare(ctx, &w.base, w.levels, func() ([]uint32, error) { return w.reference(), nil })
}

func (w *bfs) reference() []uint32 {
	levels := make([]uint32, w.g.vertices())
	for v := range levels {
		levels[v] = unreached
	}
	queue := []uint32{w.source(w.Iterations - 1)}
	levels[queue[0]] = 0
	for at := 0; at < len(queue); at++ {
		v := queue[at]
		for _, to := range w.g.of(v) {
			if levels[to] == unreached {
				levels[to] = levels[v] + 1
				queue = append(queue, to)
			}
		}
	}
	return levels
}
