package workload

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/workload/kernels"
)

// Shape of the look-ups: rows of 64 float32, and bags of 32 rows that are summed up,
// as in DLRM.
const (
	rowWidth  = 64
	bagSize   = 32
	bagRatio  = 64   // rows of the table for a bag of an iteration
	zipfTheta = 1.05 // skew of the rows that are looked up
)

var embeddingKind = Kind{
	Name: "embedding-gather", Iterations: 4, Unit: "pass over the bags", Prefetches: true, make: newEmbedding, load: loading(kernels.LoadEmbedding),
	Doc: "Look-ups in an embedding table, as a recommender makes them: bags of 32 rows of 256 bytes, drawn from a zipf distribution (skew 1.05) over the whole table, are gathered and summed up; half as many rows are looked up in a pass as the table has.",
}

// row is a row of the table.
type row [rowWidth]float32

// embedding sums bags of rows up.
type embedding struct {
	base
	rows, bags uint64
	table, out *tritier.Array[row]
	// The same with elements that kernels take.
	flatTable, flatOut *tritier.Array[float32]
	arrays             plans
}

func newEmbedding(p Params) (Workload, error) {
	w := &embedding{base: base{Params: p}}
	w.rows = p.elements(4 * rowWidth * (1 + 1.0/bagRatio))
	w.bags = max(w.rows/bagRatio, 1)
	if p.Kernels {
		want(&w.arrays, &w.flatTable, "embedding.table", w.rows*rowWidth, units(w.Seed, 0, -1, 1))
		want(&w.arrays, &w.flatOut, "embedding.sums", w.bags*rowWidth, nil)
		return w, nil
	}
	want(&w.arrays, &w.table, "embedding.table", w.rows, w.values)
	want(&w.arrays, &w.out, "embedding.sums", w.bags, nil)
	return w, nil
}

// values are the table's rows from number first on.
func (w *embedding) values(first uint64, dst []row) {
	values := units(w.Seed, 0, -1, 1)
	for i := range dst {
		values((first+uint64(i))*rowWidth, dst[i][:])
	}
}

// scatterer keeps popular rows apart. It is prime (xxHash's first), so that it permutes
// the rows of every table.
const scatterer = 11400714785074694791

// draws gives the rows of a bag of a pass. Every bag has a generator of its own, so
// that Verify finds the same ones.
func (w *embedding) draws(pass int, bag uint64, dst []uint64) {
	pcg := rand.NewPCG(draw(w.Seed, 1, uint64(pass)), draw(w.Seed, 2, bag))
	z := rand.NewZipf(rand.New(pcg), zipfTheta, 1, w.rows-1)
	for i := range dst {
		high, low := bits.Mul64(z.Uint64(), scatterer)
		dst[i] = bits.Rem64(high, low, w.rows)
	}
}

// Describe implements Workload.
func (w *embedding) Describe() string {
	return fmt.Sprintf("%d rows of %d float32, %d bags of %d rows a pass, zipf %g, %d passes", w.rows, rowWidth, w.bags, bagSize, zipfTheta, w.Iterations)
}

// Size implements Workload.
func (w *embedding) Size() uint64 { return w.arrays.size() }

// Arrays implements Workload.
func (w *embedding) Arrays() []string { return w.arrays.names() }

// Setup implements Workload.
func (w *embedding) Setup(ctx context.Context, mem *tritier.Memory) error {
	return w.arrays.setup(ctx, mem, &w.base)
}

// bagsAtOnce is the bags whose threads, one a value of a row, are resident at a time.
func (w *embedding) bagsAtOnce() uint64 { return min(max(uint64(w.Batch)/rowWidth, 1), w.bags) }

// Run implements Workload.
func (w *embedding) Run(ctx context.Context, _ *tritier.Memory) error {
	w.expect(int64(w.bags) * int64(w.Iterations))
	size := w.bagsAtOnce()
	indices, rows, sums := make([]uint64, size*bagSize), make([]row, size*bagSize), make([]row, size)
	for pass := range w.Iterations {
		err := w.launch("gather", func() error {
			return batches(w.bags, size, func(low, high uint64) error {
				n := high - low
				return w.lookUp(ctx, pass, low, indices[:n*bagSize], rows[:n*bagSize], sums[:n])
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lookUp is the part of a launch that has bags from number low on.
func (w *embedding) lookUp(ctx context.Context, pass int, low uint64, indices []uint64, rows, sums []row) error {
	each := func(f func(bag, from, to uint64)) error {
		return parallel(ctx, uint64(len(sums)), 64, func(a, b uint64) {
			for i := a; i < b; i++ {
				f(i, i*bagSize, (i+1)*bagSize)
			}
		})
	}
	if err := each(func(i, from, to uint64) { w.draws(pass, low+i, indices[from:to]) }); err != nil {
		return err
	}
	if err := w.table.Gather(ctx, indices, rows); err != nil {
		return err
	}
	err := each(func(i, from, to uint64) {
		sums[i] = row{}
		for _, r := range rows[from:to] {
			for j, v := range r {
				sums[i][j] += v
			}
		}
	})
	if err != nil {
		return err
	}
	if next := low + uint64(len(sums)); w.Prefetch && next < w.bags {
		// What comes next is known: look-ups are a queue of requests.
		n := min(uint64(len(sums)), w.bags-next)
		for i := range n {
			w.draws(pass, next+i, indices[i*bagSize:(i+1)*bagSize])
		}
		if err := w.table.Prefetch(ctx, indices[:n*bagSize]); err != nil {
			return err
		}
	}
	w.step(uint64(len(sums)))
	return w.out.Write(ctx, low, sums)
}

// Verify implements Workload: the sums of the last pass, from rows generated anew.
func (w *embedding) Verify(ctx context.Context, _ *tritier.Memory) error {
	if w.Kernels {
		return compare(ctx, &w.base, w.flatOut, func() ([]float32, error) {
			sums, err := w.reference(ctx)
			flat := make([]float32, 0, len(sums)*rowWidth)
			for i := range sums {
				flat = append(flat, sums[i][:]...)
			}
			return flat, err
		})
	}
	return compare(ctx, &w.base, w.out, func() ([]row, error) { return w.reference(ctx) })
}

func (w *embedding) reference(ctx context.Context) ([]row, error) {
	return made(ctx, w.bags, func(first uint64, sums []row) {
		bag, one := make([]uint64, bagSize), make([]row, 1)
		for i := range sums {
			w.draws(w.Iterations-1, first+uint64(i), bag)
			for _, at := range bag {
				w.values(at, one)
				for j, v := range one[0] {
					sums[i][j] += v
				}
			}
		}
	})
}
