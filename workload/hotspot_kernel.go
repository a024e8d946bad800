package workload

import (
	"context"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/workload/kernels"
)

// RunKernels implements Workload: a launch for every two time steps.
func (w *hotspot) RunKernels(ctx context.Context, d *Device) error {
	k, err := loaded[*kernels.Hotspot](d)
	if err != nil {
		return err
	}
	var r refs
	temp, power := [2]*arrayRef{ref(&r, w.temp[0]), ref(&r, w.temp[1])}, ref(&r, w.power)
	if r.err != nil {
		return r.err
	}
	w.expect(int64(w.side) * int64(w.Iterations))
	w.last = 0
	s := shape{units: d.pages(w.side*w.side, 4), perSM: 8, pins: 1, scratch: d.page + 9*d.stripBytes(2)}
	for step := 0; step < w.Iterations; step += pyramid {
		steps := uint32(min(pyramid, w.Iterations-step))
		_, err := d.launch(ctx, &w.base, "heat", s, func(cfg cuda.LaunchConfig, m room) error {
			return k.HotspotHeat(d.stream, cfg, temp[w.last], power, temp[1-w.last], w.side, steps, w.rate, w.rx, w.ry, w.rz, m.at, m.bytes, d.outcome.Ptr())
		})
		if err != nil {
			return err
		}
		w.step(w.side * uint64(steps))
		w.last = 1 - w.last
	}
	return nil
}

// stripBytes is the scratch memory of a page of cells and so many more at each end.
func (d *Device) stripBytes(margin uint64) uint64 { return d.page + 4*(2*margin+12) }
