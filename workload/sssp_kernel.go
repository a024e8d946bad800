package workload

import (
	"context"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/workload/kernels"
)

// RunKernels implements Workload: two launches a round.
func (w *sssp) RunKernels(ctx context.Context, d *Device) error {
	k, err := loaded[*kernels.SSSP](d)
	if err != nil {
		return err
	}
	var r refs
	offsets, edges, weights := ref(&r, w.offsets), ref(&r, w.edges), ref(&r, w.weights)
	costs, nexts, mask := ref(&r, w.costs), ref(&r, w.nexts), ref(&r, w.mask)
	if r.err != nil {
		return r.err
	}
	w.expect(0)
	n := w.g.vertices()
	units := (n + unitVertices - 1) / unitVertices
	clear, relax, settle := shape{units: d.pages(n, 4), perSM: 8, pins: 1, scratch: d.page}, shape{units: units, perSM: 16, pins: 3}, shape{units: units, perSM: 16, pins: 1}
	for i := range w.Iterations {
		_, err := d.launch(ctx, &w.base, "clear", clear, func(cfg cuda.LaunchConfig, m room) error {
			return k.SsspClear(d.stream, cfg, costs, nexts, mask, m.at, m.bytes, d.outcome.Ptr())
		})
		if err != nil {
			return err
		}
		_, err = d.launch(ctx, &w.base, "start", alone, func(cfg cuda.LaunchConfig, _ room) error {
			return k.SsspStart(d.stream, cfg, costs, nexts, mask, uint64(w.source(i)), d.outcome.Ptr())
		})
		if err != nil {
			return err
		}
		for more := true; more; {
			_, err := d.launch(ctx, &w.base, "relax", relax, func(cfg cuda.LaunchConfig, _ room) error {
				return k.SsspRelax(d.stream, cfg, offsets, edges, weights, costs, nexts, mask, d.outcome.Ptr())
			})
			if err != nil {
				return err
			}
			more, err = d.launch(ctx, &w.base, "settle", settle, func(cfg cuda.LaunchConfig, _ room) error {
				return k.SsspSettle(d.stream, cfg, costs, nexts, mask, d.outcome.Ptr())
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
