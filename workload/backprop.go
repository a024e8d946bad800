package workload

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/workload/kernels"
)

// Shape of the network, as in Rodinia: 16 hidden units and an output; a block of the
// kernels has 16 input units.
const (
	hiddenUnits = 16
	weightCols  = hiddenUnits + 1 // column 0 is the bias's
	blockInputs = 16
	eta         = 0.3
	momentum    = 0.3
)

var backpropKind = Kind{
	Name: "backprop", Iterations: 1, Unit: "epoch", make: newBackprop, load: loading(kernels.LoadBackprop),
	Doc: "Training of a two-layer network with 16 hidden units (Rodinia): a launch reads the inputs and their weights and writes partial sums of each block of 16 inputs, the CPU sums them and does the small layer, and another launch changes the weights and their momentum.",
}

// backprop trains a network.
type backprop struct {
	base
	n        uint64 // input units, without the bias
	inputs   *tritier.Array[float32]
	weights  *tritier.Array[float32]
	partial  *tritier.Array[float32]
	previous *tritier.Array[float32] // changes of the weights
	arrays   plans
}

func newBackprop(p Params) (Workload, error) {
	w := &backprop{base: base{Params: p}}
	// An input costs itself, two rows of weights and a row of partial sums for 16.
	w.n = p.elements(4 * (1 + 2*weightCols + float64(hiddenUnits)/blockInputs))
	if p.Scale > 0 {
		w.n = w.n / weightCols // the weights are the largest array
	}
	w.n = max(w.n/blockInputs, 1) * blockInputs
	want(&w.arrays, &w.inputs, "backprop.inputs", w.n+1, w.input)
	want(&w.arrays, &w.weights, "backprop.weights", (w.n+1)*weightCols, w.weight)
	want(&w.arrays, &w.partial, "backprop.partial", w.n/blockInputs*hiddenUnits, nil)
	want(&w.arrays, &w.previous, "backprop.previous", (w.n+1)*weightCols, nil)
	return w, nil
}

// input units hold 0 to 1; unit 0 is the bias.
func (w *backprop) input(first uint64, dst []float32) {
	units(w.Seed, 0, 0, 1)(first, dst)
	if first == 0 && len(dst) > 0 {
		dst[0] = 1
	}
}

// weight keeps the sums of any number of inputs where the sigmoid has a slope.
func (w *backprop) weight(first uint64, dst []float32) {
	bound := float32(1 / math.Sqrt(float64(w.n)))
	units(w.Seed, 1, -bound, bound)(first, dst)
}

// Describe implements Workload.
func (w *backprop) Describe() string {
	return fmt.Sprintf("%d inputs, %d hidden units, 1 output, float32, %d epochs", w.n, hiddenUnits, w.Iterations)
}

// Size implements Workload.
func (w *backprop) Size() uint64 { return w.arrays.size() }

// Arrays implements Workload.
func (w *backprop) Arrays() []string { return w.arrays.names() }

// Setup implements Workload.
func (w *backprop) Setup(ctx context.Context, mem *tritier.Memory) error {
	return w.arrays.setup(ctx, mem, &w.base)
}

// Run implements Workload.
func (w *backprop) Run(ctx context.Context, _ *tritier.Memory) error {
	w.expect(2 * int64(w.n) * int64(w.Iterations))
	rows := w.rowsAtOnce()
	t := &netTile{in: make([]float32, rows), weights: make([]float32, rows*weightCols), previous: make([]float32, rows*weightCols),
		partial: make([]float32, max(rows/blockInputs, 1)*hiddenUnits)}
	output := newOutputLayer(w.Seed)
	for range w.Iterations {
		err := w.launch("forward", func() error {
			return batches(w.n, rows, func(low, high uint64) error { return w.forward(ctx, t, low, high) })
		})
		if err != nil {
			return err
		}
		var delta [hiddenUnits]float32
		err = w.launch("sums", func() error {
			sums, err := w.sums(ctx, t)
			delta = output.train(sums)
			return err
		})
		if err != nil {
			return err
		}
		err = w.launch("adjust", func() error {
			return batches(w.n+1, rows, func(low, high uint64) error { return w.adjust(ctx, t, &delta, low, high) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rowsAtOnce is the inputs whose threads, one a weight, are resident at a time.
func (w *backprop) rowsAtOnce() uint64 {
	return min(max(uint64(w.Batch)/hiddenUnits/blockInputs, 1)*blockInputs, w.n)
}

// netTile is what the threads that are resident at a time hold.
type netTile struct{ in, weights, previous, partial []float32 }

// forward writes the partial sums of inputs low+1 to high, unit 0 being the bias.
func (w *backprop) forward(ctx context.Context, t *netTile, low, high uint64) error {
	n := high - low
	if err := w.inputs.Read(ctx, low+1, t.in[:n]); err != nil {
		return err
	}
	if err := w.weights.Read(ctx, (low+1)*weightCols, t.weights[:n*weightCols]); err != nil {
		return err
	}
	err := parallel(ctx, n/blockInputs, perPart/blockInputs/weightCols, func(a, b uint64) {
		for block := a; block < b; block++ {
			t.block(block)
		}
	})
	if err != nil {
		return err
	}
	w.step(n)
	return w.partial.Write(ctx, low/blockInputs*hiddenUnits, t.partial[:n/blockInputs*hiddenUnits])
}

// block makes the partial sums of a block, each in a tree, as the kernel does.
func (t *netTile) block(block uint64) {
	first := block * blockInputs
	for j := range uint64(hiddenUnits) {
		var product [blockInputs]float32
		for i := range uint64(blockInputs) {
			product[i] = float32(t.weights[(first+i)*weightCols+j+1] * t.in[first+i])
		}
		for width := 1; width < blockInputs; width *= 2 {
			for i := 0; i < blockInputs; i += 2 * width {
				product[i] += product[i+width]
			}
		}
		t.partial[block*hiddenUnits+j] = product[0]
	}
}

// sums adds the partial sums up, which Rodinia leaves to the CPU, and the bias.
func (w *backprop) sums(ctx context.Context, t *netTile) (sums [hiddenUnits]float32, err error) {
	size := uint64(len(t.partial))
	err = batches(w.partial.Len(), size, func(low, high uint64) error {
		part := t.partial[:high-low]
		if err := w.partial.Read(ctx, low, part); err != nil {
			return err
		}
		for i, v := range part {
			sums[i%hiddenUnits] += v
		}
		return nil
	})
	if err != nil {
		return sums, err
	}
	bias := t.weights[:weightCols]
	if err := w.weights.Read(ctx, 0, bias); err != nil {
		return sums, err
	}
	for j := range sums {
		sums[j] += bias[j+1]
	}
	return sums, nil
}

// adjust changes the weights of units [low, high), the bias included.
func (w *backprop) adjust(ctx context.Context, t *netTile, delta *[hiddenUnits]float32, low, high uint64) error {
	n := high - low
	if err := w.inputs.Read(ctx, low, t.in[:n]); err != nil {
		return err
	}
	if err := w.weights.Read(ctx, low*weightCols, t.weights[:n*weightCols]); err != nil {
		return err
	}
	if err := w.previous.Read(ctx, low*weightCols, t.previous[:n*weightCols]); err != nil {
		return err
	}
	err := parallel(ctx, n, perPart/weightCols, func(a, b uint64) {
		for i := a; i < b; i++ {
			for j, d := range delta {
				at := i*weightCols + uint64(j) + 1
				change := float32(float32(eta*d)*t.in[i]) + float32(momentum*t.previous[at])
				t.weights[at] += change
				t.previous[at] = change
			}
		}
	})
	if err != nil {
		return err
	}
	w.step(n)
	if err := w.weights.Write(ctx, low*weightCols, t.weights[:n*weightCols]); err != nil {
		return err
	}
	return w.previous.Write(ctx, low*weightCols, t.previous[:n*weightCols])
}

// Verify implements Workload: the network trained as a whole.
func (w *backprop) Verify(ctx context.Context, _ *tritier.Memory) error {
	return compare(ctx, &w.base, w.weights, func() ([]float32, error) { return w.reference(ctx) })
}

func (w *backprop) reference(ctx context.Context) ([]float32, error) {
	in, err := made(ctx, w.n+1, w.input)
	if err != nil {
		return nil, err
	}
	weights, err := made(ctx, (w.n+1)*weightCols, w.weight)
	previous, blocks := make([]float32, len(weights)), make([][hiddenUnits]float32, w.n/blockInputs)
	output := newOutputLayer(w.Seed)
	for epoch := 0; epoch < w.Iterations && err == nil; epoch++ {
		err = parallel(ctx, uint64(len(blocks)), perPart/blockInputs/weightCols, func(low, high uint64) {
			for b := low; b < high; b++ {
				for j := range blocks[b] {
					var products [blockInputs]float32
					for k := range products {
						i := int(b)*blockInputs + k + 1
						products[k] = float32(weights[i*weightCols+j+1] * in[i])
					}
					blocks[b][j] = halves(products[:])
				}
			}
		})
		var sums [hiddenUnits]float32
		for b := range blocks {
			for j, v := range blocks[b] {
				sums[j] += v
			}
		}
		for j := range sums {
			sums[j] += weights[j+1]
		}
		delta := output.train(sums)
		err = errors.Join(err, parallel(ctx, w.n+1, perPart/weightCols, func(low, high uint64) {
			for i := low; i < high; i++ {
				row, last := rowAt(weights, weightCols, i), rowAt(previous, weightCols, i)
				for j, d := range delta {
					last[j+1] = float32(float32(eta*d)*in[i]) + float32(momentum*last[j+1])
					row[j+1] += last[j+1]
				}
			}
		}))
	}
	return weights, err
}

// halves sums values up, each half by itself.
func halves(values []float32) float32 {
	if len(values) == 1 {
		return values[0]
	}
	mid := len(values) / 2
	return halves(values[:mid]) + halves(values[mid:])
}
