package workload

import (
	"context"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/workload/kernels"
)

// RunKernels implements Workload: two launches an iteration.
func (w *pagerank) RunKernels(ctx context.Context, d *Device) error {
	k, err := loaded[*kernels.Pagerank](d)
	if err != nil {
		return err
	}
	var r refs
	offsets, edges, ranks, contributions := ref(&r, w.offsets), ref(&r, w.edges), ref(&r, w.ranks), ref(&r, w.contributions)
	if r.err != nil {
		return r.err
	}
	w.expect(int64(len(w.g.edges)) * int64(w.Iterations))
	contribute := shape{units: d.pages(w.g.vertices(), 4), perSM: 8, pins: 1, scratch: d.page + 8*(kernels.PagerankLists+8)}
	pull := contribute
	pull.perSM, pull.pins = 16, 2
	for range w.Iterations {
		_, err := d.launch(ctx, &w.base, "contribute", contribute, func(cfg cuda.LaunchConfig, m room) error {
			return k.PagerankContribute(d.stream, cfg, offsets, ranks, contributions, m.at, m.bytes, d.outcome.Ptr())
		})
		if err != nil {
			return err
		}
		_, err = d.launch(ctx, &w.base, "pull", pull, func(cfg cuda.LaunchConfig, m room) error {
			return k.PagerankPull(d.stream, cfg, offsets, edges, contributions, ranks, m.at, m.bytes, d.outcome.Ptr())
		})
		if err != nil {
			return err
		}
		w.step(uint64(len(w.g.edges)))
	}
	return nil
}
