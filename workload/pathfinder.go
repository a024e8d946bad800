package workload

import (
	"context"
	"fmt"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/workload/kernels"
)

// Shape of the wall, as in Rodinia's script: 100 rows, of which a launch takes 20.
const (
	wallRows   = 100
	wallHeight = 20
)

var pathfinderKind = Kind{
	Name: "pathfinder", Iterations: 1, Unit: "search of the wall", make: newPathfinder, load: loading(kernels.LoadPathfinder),
	Doc: "Cheapest path down a wall of 100 rows by dynamic programming (Rodinia): a launch takes 20 rows, of which each tile of columns reads a trapezoid, from one row of results to the other.",
}

// pathfinder finds the cost of the cheapest path to each cell of the last row.
type pathfinder struct {
	base
	rows, cols uint64
	wall       *tritier.Array[int32]
	results    [2]*tritier.Array[int32]
	last       int // of results, that has the answer
	arrays     plans
}

func newPathfinder(p Params) (Workload, error) {
	w := &pathfinder{base: base{Params: p}, rows: wallRows}
	w.cols = max(p.elements(4*(1+2.0/wallRows))/wallRows, 2)
	want(&w.arrays, &w.wall, "pathfinder.wall", w.rows*w.cols, w.cells)
	for i := range w.results {
		want(&w.arrays, &w.results[i], fmt.Sprintf("pathfinder.result%d", i), w.cols, nil)
	}
	return w, nil
}

// cells are costs from 0 to 9.
func (w *pathfinder) cells(first uint64, dst []int32) {
	key := keyOf(w.Seed, 0)
	for i := range dst {
		dst[i] = int32(hash(key+first+uint64(i)) % 10)
	}
}

// Describe implements Workload.
func (w *pathfinder) Describe() string {
	return fmt.Sprintf("a wall of %d rows of %d int32, %d rows a launch, %d searches", w.rows, w.cols, wallHeight, w.Iterations)
}

// Size implements Workload.
func (w *pathfinder) Size() uint64 { return w.arrays.size() }

// Arrays implements Workload.
func (w *pathfinder) Arrays() []string { return w.arrays.names() }

// Setup implements Workload.
func (w *pathfinder) Setup(ctx context.Context, mem *tritier.Memory) error {
	return w.arrays.setup(ctx, mem, &w.base)
}

// Run implements Workload.
func (w *pathfinder) Run(ctx context.Context, _ *tritier.Memory) error {
	w.expect(int64(w.rows*w.cols) * int64(w.Iterations))
	size := min(w.cols, uint64(w.Batch))
	t := &wallTile{cost: make([]int32, size+2*wallHeight), next: make([]int32, size+2*wallHeight), row: make([]int32, size+2*wallHeight)}
	for range w.Iterations {
		if err := w.launch("first row", func() error { return w.first(ctx, size, t.row) }); err != nil {
			return err
		}
		w.last = 0
		for row := uint64(1); row < w.rows; row += wallHeight {
			height := min(wallHeight, w.rows-row)
			err := w.launch("rows", func() error {
				return batches(w.cols, size, func(low, high uint64) error { return w.tile(ctx, t, row, height, low, high) })
			})
			if err != nil {
				return err
			}
			w.last = 1 - w.last
		}
	}
	return nil
}

// first copies the wall's first row to the first result.
func (w *pathfinder) first(ctx context.Context, size uint64, buf []int32) error {
	return batches(w.cols, size, func(low, high uint64) error {
		if err := w.wall.Read(ctx, low, buf[:high-low]); err != nil {
			return err
		}
		w.step(high - low)
		return w.results[0].Write(ctx, low, buf[:high-low])
	})
}

// wallTile is the shared memory of a tile: costs of its columns and of its halo.
type wallTile struct{ cost, next, row []int32 }

// tile computes columns [low, high) of the row that is height rows further. The
// halo shrinks by a column on each side with every row.
func (w *pathfinder) tile(ctx context.Context, t *wallTile, row, height, low, high uint64) error {
	from, to := low-min(low, height), min(high+height, w.cols)
	if err := w.results[w.last].Read(ctx, from, t.cost[:to-from]); err != nil {
		return err
	}
	for k := range height {
		halo := height - 1 - k
		lo, hi := low-min(low, halo), min(high+halo, w.cols)
		if err := w.wall.Read(ctx, (row+k)*w.cols+lo, t.row[:hi-lo]); err != nil {
			return err
		}
		for x := lo; x < hi; x++ {
			best := t.cost[x-from]
			if x > 0 {
				best = min(best, t.cost[x-1-from])
			}
			if x+1 < w.cols {
				best = min(best, t.cost[x+1-from])
			}
			t.next[x-from] = best + t.row[x-lo]
		}
		t.cost, t.next = t.next, t.cost
	}
	w.step((high - low) * height)
	return w.results[1-w.last].Write(ctx, low, t.cost[low-from:high-from])
}

// Verify implements Workload.
func (w *pathfinder) Verify(ctx context.Context, _ *tritier.Memory) error {
	return compare(ctx, &w.base, w.results[w.last], func() ([]int32, error) { return w.reference(ctx) })
}

// reference takes one row after the other, each from the whole one above.
func (w *pathfinder) reference(ctx context.Context) ([]int32, error) {
	n := w.cols
	above, err := made(ctx, n, w.cells)
	here := make([]int32, n)
	for row := uint64(1); row < w.rows && err == nil; row++ {
		err = parallel(ctx, n, perPart, func(low, high uint64) {
			w.cells(row*n+low, here[low:high])
			descend(here, above, low, high)
		})
		above, here = here, above
	}
	return above, err
}

// descend adds to the cells [low, high) of a row what the cheapest way to each costs.
func descend(row, above []int32, low, high uint64) {
	part, last := row[low:high], uint64(len(above)-1)
	left, middle := above[low-min(low, 1)], above[low]
	for i := range part {
		right := above[min(low+uint64(i)+1, last)]
		part[i] += min(left, middle, right)
		left, middle = middle, right
	}
}
