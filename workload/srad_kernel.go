package workload

import (
	"context"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/workload/kernels"
)

// RunKernels implements Workload: three launches an iteration. The noise stays on the
// GPU.
func (w *srad) RunKernels(ctx context.Context, d *Device) error {
	k, err := loaded[*kernels.Srad](d)
	if err != nil {
		return err
	}
	var r refs
	image, factors := ref(&r, w.image), ref(&r, w.coefficient)
	north, south, west, east := ref(&r, w.derivatives[0]), ref(&r, w.derivatives[1]), ref(&r, w.derivatives[2]), ref(&r, w.derivatives[3])
	if r.err != nil {
		return r.err
	}
	w.expect(2 * int64(w.side) * int64(w.Iterations))
	region := min(w.side, speckleArea)
	wide := shape{units: d.pages(w.side*w.side, 4), perSM: 8, pins: 1, scratch: d.page + 3*d.stripBytes(1)}
	for range w.Iterations {
		for _, x := range []struct {
			name   string
			s      shape
			launch func(cuda.LaunchConfig, room) error
		}{
			{"noise", shape{units: 1, perSM: 1, pins: 1, scratch: 4 * (region + 8)}, func(cfg cuda.LaunchConfig, m room) error {
				return k.SradNoise(d.stream, cfg, image, w.side, region, m.at, m.bytes, d.outcome.Ptr())
			}},
			{"derivatives", wide, func(cfg cuda.LaunchConfig, m room) error {
				return k.SradDerive(d.stream, cfg, image, north, south, west, east, factors, w.side, m.at, m.bytes, d.outcome.Ptr())
			}},
			{"diffusion", wide, func(cfg cuda.LaunchConfig, m room) error {
				return k.SradDiffuse(d.stream, cfg, image, north, south, west, east, factors, w.side, m.at, m.bytes, d.outcome.Ptr())
			}},
		} {
			if _, err := d.launch(ctx, &w.base, x.name, x.s, x.launch); err != nil {
				return err
			}
			if x.name != "noise" {
				w.step(w.side)
			}
		}
	}
	return nil
}
