package workload

import (
	"context"
	"fmt"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/workload/kernels"
)

// damping of PageRank, as in GAP.
const damping = 0.85

var pagerankKind = Kind{
	Name: "pagerank", Iterations: 5, Unit: "iteration", make: newPagerank, load: loading(kernels.LoadPagerank),
	Doc: "PageRank by pulling over a Kronecker graph (as GAP's pr), two launches an iteration: one divides the rank of each vertex by its degree, the other reads all lists of neighbours from front to back and gathers what each neighbour contributes.",
}

// pagerank computes ranks in single precision.
type pagerank struct {
	graphBase
	ranks, contributions *tritier.Array[float32]
}

func newPagerank(p Params) (Workload, error) {
	w := &pagerank{}
	return w, w.plan(p, 8, 0, "pagerank.ranks", "pagerank.contributions")
}

// Describe implements Workload.
func (w *pagerank) Describe() string { return w.describe(fmt.Sprintf("%d iterations", w.Iterations)) }

// Setup implements Workload.
func (w *pagerank) Setup(ctx context.Context, mem *tritier.Memory) error {
	if err := w.load(ctx); err != nil {
		return err
	}
	n := w.g.vertices()
	want(&w.arrays, &w.ranks, "pagerank.ranks", n, func(_ uint64, dst []float32) {
		for i := range dst {
			dst[i] = 1 / float32(n)
		}
	})
	want(&w.arrays, &w.contributions, "pagerank.contributions", n, nil)
	return w.arrays.setup(ctx, mem, &w.base)
}

// rankTile is what the threads that are resident at a time hold.
type rankTile struct {
	offsets      []uint64
	ranks, sums  []float32
	targets      []uint32
	heads        []uint64
	contribution []float32
}

// Run implements Workload.
func (w *pagerank) Run(ctx context.Context, _ *tritier.Memory) error {
	w.expect(int64(len(w.g.edges)) * int64(w.Iterations))
	n := w.g.vertices()
	size := min(n, uint64(w.Batch))
	t := &rankTile{offsets: make([]uint64, size+1), ranks: make([]float32, size), sums: make([]float32, size)}
	for range w.Iterations {
		err := w.launch("contribute", func() error {
			return batches(n, size, func(low, high uint64) error { return w.contribute(ctx, t, low, high) })
		})
		if err != nil {
			return err
		}
		err = w.launch("pull", func() error {
			return batches(n, size, func(low, high uint64) error { return w.pull(ctx, t, low, high) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// contribute divides the ranks of vertices [low, high) by their degrees.
func (w *pagerank) contribute(ctx context.Context, t *rankTile, low, high uint64) error {
	ranks, offsets := t.ranks[:high-low], t.offsets[:high-low+1]
	if err := w.ranks.Read(ctx, low, ranks); err != nil {
		return err
	}
	if err := w.offsets.Read(ctx, low, offsets); err != nil {
		return err
	}
	for i := range ranks {
		// A vertex without neighbours gives its rank to nobody, as in GAP.
		ranks[i] /= float32(max(offsets[i+1]-offsets[i], 1))
	}
	return w.contributions.Write(ctx, low, ranks)
}

// pull sums up what the neighbours of vertices [low, high) contribute. Their lists
// follow each other, so that edges are read in runs.
func (w *pagerank) pull(ctx context.Context, t *rankTile, low, high uint64) error {
	sums, offsets := t.sums[:high-low], t.offsets[:high-low+1]
	if err := w.offsets.Read(ctx, low, offsets); err != nil {
		return err
	}
	clear(sums)
	v := 0
	first, last := offsets[0], offsets[high-low]
	err := batches(last-first, uint64(w.Batch), func(from, to uint64) (err error) {
		t.targets = sized(t.targets, int(to-from))
		if err := w.edges.Read(ctx, first+from, t.targets); err != nil {
			return err
		}
		t.heads = sized(t.heads, int(to-from))
		for i, target := range t.targets {
			t.heads[i] = uint64(target)
		}
		if t.contribution, err = gather(ctx, w.contributions, t.heads, t.contribution); err != nil {
			return err
		}
		for i, c := range t.contribution {
			for first+from+uint64(i) >= offsets[v+1] {
				v++
			}
			sums[v] += c
		}
		w.step(to - from)
		return nil
	})
	if err != nil {
		return err
	}
	for i, s := range sums {
		sums[i] = rankOf(s, w.g.vertices())
	}
	return w.ranks.Write(ctx, low, sums)
}

// rankOf is the rank of one of n vertices whose neighbours contribute sum.
func rankOf(sum float32, n uint64) float32 {
	return float32(1-damping)/float32(n) + float32(damping*sum)
}

// Verify implements Workload. The reference adds in the order of the lists, as the
// program does, so that the ranks are equal to the last bit.
func (w *pagerank) Verify(ctx context.Context, _ *tritier.Memory) error {
	return compare(ctx, &w.base, w.ranks, func() ([]float32, error) { return w.reference(ctx) })
}

func (w *pagerank) reference(ctx context.Context) ([]float32, error) {
	n := w.g.vertices()
	ranks, contributions := make([]float32, n), make([]float32, n)
	for v := range ranks {
		ranks[v] = 1 / float32(n)
	}
	for range w.Iterations {
		err := parallel(ctx, n, perPart, func(low, high uint64) {
			for v := low; v < high; v++ {
				contributions[v] = ranks[v] / float32(max(w.g.degree(uint32(v)), 1))
			}
		})
		if err != nil {
			return nil, err
		}
		err = parallel(ctx, n, perPart, func(low, high uint64) {
			for v := low; v < high; v++ {
				var sum float32
				for _, u := range w.g.of(uint32(v)) {
					sum += contributions[u]
				}
				ranks[v] = rankOf(sum, n)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return ranks, nil
}
