package workload

import (
	"context"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/workload/kernels"
)

// RunKernels implements Workload: a launch a pass.
func (w *vectorAdd) RunKernels(ctx context.Context, d *Device) error {
	k, err := loaded[*kernels.VectorAdd](d)
	if err != nil {
		return err
	}
	var r refs
	in0, in1, in2, out := ref(&r, w.in[0]), ref(&r, w.in[1]), ref(&r, w.in[2]), ref(&r, w.out)
	if r.err != nil {
		return r.err
	}
	w.expect(int64(w.n) * int64(w.Iterations))
	for range w.Iterations {
		s := shape{units: d.pages(w.n, 4), perSM: 8, pins: addends, scratch: d.page}
		_, err := d.launch(ctx, &w.base, "add", s, func(cfg cuda.LaunchConfig, m room) error {
			return k.VectoraddPass(d.stream, cfg, in0, in1, in2, out, m.at, m.bytes, d.outcome.Ptr())
		})
		if err != nil {
			return err
		}
		w.step(w.n)
	}
	return nil
}
