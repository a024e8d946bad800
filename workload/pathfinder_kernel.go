package workload

import (
	"context"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/workload/kernels"
)

// RunKernels implements Workload: the first row, then a launch for every 20 rows.
func (w *pathfinder) RunKernels(ctx context.Context, d *Device) error {
	k, err := loaded[*kernels.Pathfinder](d)
	if err != nil {
		return err
	}
	var r refs
	wall, results := ref(&r, w.wall), [2]*arrayRef{ref(&r, w.results[0]), ref(&r, w.results[1])}
	if r.err != nil {
		return r.err
	}
	w.expect(int64(w.rows*w.cols) * int64(w.Iterations))
	const pad = wallHeight + 8
	s := shape{units: d.pages(w.cols, 4), perSM: 8, pins: 1, scratch: 2 * (d.page + 4*(2*pad+8))}
	for range w.Iterations {
		_, err := d.launch(ctx, &w.base, "first row", s, func(cfg cuda.LaunchConfig, m room) error {
			return k.PathfinderFirst(d.stream, cfg, wall, results[0], m.at, m.bytes, d.outcome.Ptr())
		})
		if err != nil {
			return err
		}
		w.step(w.cols)
		w.last = 0
		for row := uint64(1); row < w.rows; row += wallHeight {
			height := min(wallHeight, w.rows-row)
			_, err := d.launch(ctx, &w.base, "rows", s, func(cfg cuda.LaunchConfig, m room) error {
				return k.PathfinderRows(d.stream, cfg, wall, results[w.last], results[1-w.last], row, height, m.at, m.bytes, d.outcome.Ptr())
			})
			if err != nil {
				return err
			}
			w.step(w.cols * height)
			w.last = 1 - w.last
		}
	}
	return nil
}
