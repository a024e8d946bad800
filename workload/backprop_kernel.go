package workload

import (
	"context"
	"encoding/binary"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/workload/kernels"
)

// RunKernels implements Workload: the two launches of an epoch, between which the CPU
// adds the partial sums up and does the small layer, as Rodinia has it.
func (w *backprop) RunKernels(ctx context.Context, d *Device) error {
	k, err := loaded[*kernels.Backprop](d)
	if err != nil {
		return err
	}
	var r refs
	inputs, weights, partial, previous := ref(&r, w.inputs), ref(&r, w.weights), ref(&r, w.partial), ref(&r, w.previous)
	if r.err != nil {
		return r.err
	}
	w.expect(2 * int64(w.n) * int64(w.Iterations))
	t := &netTile{partial: make([]float32, min(w.partial.Len(), perFill[float32]())), weights: make([]float32, weightCols)}
	output := newOutputLayer(w.Seed)
	forward := shape{units: d.pages(w.n, 4), perSM: 8, pins: 1, scratch: d.page + 4*(kernels.BackpropInputs*(1+weightCols)+16)}
	adjust := shape{units: d.pages((w.n+1)*weightCols, 4), perSM: 8, pins: 2, scratch: d.page/weightCols + 4*16}
	for range w.Iterations {
		_, err := d.launch(ctx, &w.base, "forward", forward, func(cfg cuda.LaunchConfig, m room) error {
			return k.BackpropForward(d.stream, cfg, inputs, weights, partial, m.at, m.bytes, d.outcome.Ptr())
		})
		if err != nil {
			return err
		}
		w.step(w.n)
		var delta [hiddenUnits]float32
		err = w.launch("sums", func() error {
			sums, err := w.sums(ctx, t)
			delta = output.train(sums)
			return err
		})
		if err != nil {
			return err
		}
		given, err := binary.Append(nil, binary.LittleEndian, delta)
		if err != nil {
			return err
		}
		at, err := d.give(given)
		if err != nil {
			return err
		}
		_, err = d.launch(ctx, &w.base, "adjust", adjust, func(cfg cuda.LaunchConfig, m room) error {
			return k.BackpropAdjust(d.stream, cfg, inputs, weights, previous, at, m.at, m.bytes, d.outcome.Ptr())
		})
		if err != nil {
			return err
		}
		w.step(w.n)
	}
	return nil
}
