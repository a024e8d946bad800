package workload

import (
	"context"
	"fmt"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/workload/kernels"
)

// addends is the number of input vectors.
const addends = 3

var vectorAddKind = Kind{
	Name: "multi-vector-add", Iterations: 1, Unit: "pass over the vectors", Prefetches: true, make: newVectorAdd, load: loading(kernels.LoadVectorAdd),
	Doc: "d = a + b + c over float32 vectors: the inputs are read and the output is written in whole pages, from front to back.",
}

// vectorAdd is d = a + b + c.
type vectorAdd struct {
	base
	n      uint64
	in     [addends]*tritier.Array[float32]
	out    *tritier.Array[float32]
	arrays plans
}

func newVectorAdd(p Params) (Workload, error) {
	w := &vectorAdd{base: base{Params: p}, n: p.elements(4 * (addends + 1))}
	for i := range w.in {
		want(&w.arrays, &w.in[i], fmt.Sprintf("vectoradd.in%d", i), w.n, w.input(i))
	}
	want(&w.arrays, &w.out, "vectoradd.out", w.n, nil)
	return w, nil
}

func (w *vectorAdd) input(i int) func(uint64, []float32) {
	return units(w.Seed, uint64(i), -1, 1)
}

// Describe implements Workload.
func (w *vectorAdd) Describe() string {
	return fmt.Sprintf("%d vectors and their sum, %d float32 each, %d passes", addends, w.n, w.Iterations)
}

// Size implements Workload.
func (w *vectorAdd) Size() uint64 { return w.arrays.size() }

// Arrays implements Workload.
func (w *vectorAdd) Arrays() []string { return w.arrays.names() }

// Setup implements Workload.
func (w *vectorAdd) Setup(ctx context.Context, mem *tritier.Memory) error {
	return w.arrays.setup(ctx, mem, &w.base)
}

// Run implements Workload: a launch a pass, whose threads go over the vectors.
func (w *vectorAdd) Run(ctx context.Context, _ *tritier.Memory) error {
	w.expect(int64(w.n) * int64(w.Iterations))
	size := min(w.n, uint64(w.Batch))
	sum, term := make([]float32, size), make([]float32, size)
	for range w.Iterations {
		err := w.launch("add", func() error {
			return batches(w.n, size, func(low, high uint64) error { return w.add(ctx, low, sum[:high-low], term[:high-low]) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// add is the part of a launch that is resident at a time.
func (w *vectorAdd) add(ctx context.Context, low uint64, sum, term []float32) error {
	for i, a := range w.in {
		to := term
		if i == 0 {
			to = sum
		}
		if err := a.Read(ctx, low, to); err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		for j, v := range term {
			sum[j] += v
		}
	}
	for _, a := range w.in {
		if err := ahead(ctx, &w.base, a, low+uint64(len(sum)), uint64(w.Batch)); err != nil {
			return err
		}
	}
	w.step(uint64(len(sum)))
	return w.out.Write(ctx, low, sum)
}

// Verify implements Workload.
func (w *vectorAdd) Verify(ctx context.Context, _ *tritier.Memory) error {
	return compare(ctx, &w.base, w.out, func() ([]float32, error) {
		return made(ctx, w.n, func(first uint64, dst []float32) {
			w.input(0)(first, dst)
			term := make([]float32, len(dst))
			for i := 1; i < addends; i++ {
				w.input(i)(first, term)
				for j, v := range term {
					dst[j] += v
				}
			}
		})
	})
}
