package workload

import (
	"context"
	"encoding/binary"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/workload/kernels"
)

// launchBags is about how many bags a launch looks up: the numbers of their rows are made
// on the CPU and copied to the GPU, 64 MiB at a time.
const launchBags = 1 << 18

// RunKernels implements Workload: a launch for some hundred thousand bags, whose rows the
// CPU draws while the GPU looks up those before.
func (w *embedding) RunKernels(ctx context.Context, d *Device) error {
	k, err := loaded[*kernels.Embedding](d)
	if err != nil {
		return err
	}
	var r refs
	table, sums := ref(&r, w.flatTable), ref(&r, w.flatOut)
	if r.err != nil {
		return r.err
	}
	w.expect(int64(w.bags) * int64(w.Iterations))
	perPage := d.page / (4 * rowWidth)
	size := max(launchBags/perPage, 1) * perPage
	s := shape{perSM: 16, pins: 1, scratch: d.page + 4*(rowWidth+16)}
	var ready []byte // the rows of the next launch
	next := newPasses(w, size)
	if ready, err = next.draw(ctx); err != nil {
		return err
	}
	for len(ready) > 0 {
		first, count := next.first, next.count
		at, err := d.give(ready)
		if err != nil {
			return err
		}
		s.units = (count + perPage - 1) / perPage
		s.meanwhile = func() (err error) {
			ready, err = next.draw(ctx)
			return err
		}
		_, err = d.launch(ctx, &w.base, "gather", s, func(cfg cuda.LaunchConfig, m room) error {
			return k.EmbeddingGather(d.stream, cfg, table, sums, at, first, count, m.at, m.bytes, d.outcome.Ptr())
		})
		if err != nil {
			return err
		}
		w.step(count)
	}
	return nil
}

// passes draws the rows of all bags of all passes, a launch at a time.
type passes struct {
	w            *embedding
	pass         int
	size         uint64
	first, count uint64 // bags that were drawn last
	indices      []uint64
}

func newPasses(w *embedding, size uint64) *passes {
	size = min(size, w.bags)
	return &passes{w: w, size: size, indices: make([]uint64, size*bagSize)}
}

// draw returns the rows of the next bags as the GPU reads them; none after the last pass.
func (p *passes) draw(ctx context.Context) ([]byte, error) {
	w := p.w
	if p.first += p.count; p.first >= w.bags {
		p.first, p.pass = 0, p.pass+1
	}
	if p.pass >= w.Iterations {
		return nil, nil
	}
	p.count = min(p.size, w.bags-p.first)
	list := p.indices[:p.count*bagSize]
	bytes := make([]byte, 8*len(list))
	err := parallel(ctx, p.count, 64, func(a, b uint64) {
		for bag := a; bag < b; bag++ {
			rows := list[bag*bagSize : (bag+1)*bagSize]
			w.draws(p.pass, p.first+bag, rows)
			for i, r := range rows {
				binary.LittleEndian.PutUint64(bytes[8*(bag*bagSize+uint64(i)):], r)
			}
		}
	})
	return bytes, err
}
