package workload

import (
	"context"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/workload/kernels"
)

// alone is a launch of one warp for one access at a time.
var alone = shape{units: 1, perSM: 1, pins: 1}

// unitVertices is how many vertices a warp of a search takes at a time.
const unitVertices = 256

// RunKernels implements Workload: a launch a level.
func (w *bfs) RunKernels(ctx context.Context, d *Device) error {
	k, err := loaded[*kernels.BFS](d)
	if err != nil {
		return err
	}
	var r refs
	offsets, edges, levels := ref(&r, w.offsets), ref(&r, w.edges), ref(&r, w.levels)
	if r.err != nil {
		return r.err
	}
	w.expect(0)
	n := w.g.vertices()
	whole := shape{units: d.pages(n, 4), perSM: 8, pins: 1, scratch: d.page}
	search := shape{units: (n + unitVertices - 1) / unitVertices, perSM: 16, pins: 2}
	for i := range w.Iterations {
		_, err := d.launch(ctx, &w.base, "clear", whole, func(cfg cuda.LaunchConfig, m room) error {
			return k.BfsClear(d.stream, cfg, levels, m.at, m.bytes, d.outcome.Ptr())
		})
		if err != nil {
			return err
		}
		_, err = d.launch(ctx, &w.base, "start", alone, func(cfg cuda.LaunchConfig, _ room) error {
			return k.BfsStart(d.stream, cfg, levels, uint64(w.source(i)), d.outcome.Ptr())
		})
		if err != nil {
			return err
		}
		for depth, more := uint32(0), true; more; depth++ {
			more, err = d.launch(ctx, &w.base, "expand", search, func(cfg cuda.LaunchConfig, _ room) error {
				return k.BfsExpand(d.stream, cfg, offsets, edges, levels, depth, d.outcome.Ptr())
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
