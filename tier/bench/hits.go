package bench

import (
	"context"
	"fmt"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/tier/layout"
)

// pair is a kernel over raw pointers and one over an array that reads the same.
type pair struct {
	raw, tiered string
	amount      uint64
	unit        string
	runRaw, run func() error
}

// Hits measures what a hit costs: every page is in T1. Each figure stands beside that
// of a raw pointer kernel over the same frames, in the same run.
func Hits(ctx context.Context, c Config) (list []Result, err error) {
	c = c.withDefaults()
	pages := c.Hits / uint64(c.PageSize)
	r, err := open(ctx, c, "bypass{t1=clock}", int(pages), 0, pages)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := r.close(); err == nil {
			err = e
		}
	}()
	var refs [5]layout.ArrayRef
	for shift := range refs {
		if refs[shift], err = r.ref(uint8(shift)); err != nil {
			return nil, err
		}
	}
	grid, err := r.grid(8)
	if err != nil {
		return nil, err
	}
	few, err := r.grid(2) // the cursor's kernel has as many at a time
	if err != nil {
		return nil, err
	}
	half, err := r.grid(4)
	if err != nil {
		return nil, err
	}
	raw, sum, failed := cuda.Ptr(r.e.FrameMemory()), r.out.Ptr(), r.out.Ptr().Add(8)
	bytes := pages * uint64(c.PageSize)
	reads := min(uint64(1)<<28, bytes/4)
	raw16 := func() error { return r.hits.Raw16(r.s, grid, raw, bytes/16, sum) }
	for _, p := range []pair{
		{"raw pointer, 16 bytes", "cursor, 16 bytes", bytes, "bytes", raw16, func() error { return r.hits.Cursor16(r.s, few, &refs[4], sum, failed) }},
		{"raw pointer, 16 bytes", "a[i], 16 bytes", bytes, "bytes", raw16, func() error { return r.hits.Tiered16(r.s, grid, &refs[4], bytes/16, sum) }},
		{"raw pointer, 4 bytes", "a[i], 4 bytes", bytes, "bytes", func() error { return r.hits.Raw4(r.s, grid, raw, bytes/4, sum) },
			func() error { return r.hits.Tiered4(r.s, grid, &refs[2], bytes/4, sum) }},
		{"raw pointer, 16 bytes", "load_each, 4 of 16 bytes", bytes, "bytes", raw16, func() error { return r.hits.Each16(r.s, half, &refs[4], bytes/16, sum, failed) }},
		{"raw pointer, 4 bytes", "load_each, 4 of 4 bytes", bytes, "bytes", func() error { return r.hits.Raw4(r.s, grid, raw, bytes/4, sum) },
			func() error { return r.hits.Each4(r.s, half, &refs[2], bytes/4, sum, failed) }},
	} {
		if list, err = r.compare(ctx, list, p, true); err != nil {
			return list, err
		}
	}
	for _, p := range []pair{
		{"raw pointer, random 8 bytes", "a[i], random 8 bytes", reads, "reads",
			func() error { return r.hits.RawRandom8(r.s, grid, raw, bytes/8, reads, sum) },
			func() error { return r.hits.TieredRandom8(r.s, grid, &refs[3], bytes/8, reads, sum) }},
		{"raw pointer, 4 random of 8 bytes", "load_each, 4 random of 8 bytes", reads, "reads",
			func() error { return r.hits.RawEachRandom8(r.s, grid, raw, bytes/8, reads, sum) },
			func() error { return r.hits.EachRandom8(r.s, half, &refs[3], bytes/8, reads, sum, failed) }},
	} {
		// Frames are in another order than pages: the raw kernel reads other elements.
		if list, err = r.compare(ctx, list, p, false); err != nil {
			return list, err
		}
	}
	return list, nil
}

// compare measures both kernels. same: both sum the same bytes, in whatever order.
func (r *rig) compare(ctx context.Context, list []Result, p pair, same bool) ([]Result, error) {
	raw, want, err := r.time(ctx, p.runRaw)
	if err != nil {
		return list, fmt.Errorf("%s: %w", p.raw, err)
	}
	before, err := r.e.Stats(ctx)
	if err != nil {
		return list, err
	}
	times, got, err := r.time(ctx, p.run)
	if err != nil {
		return list, fmt.Errorf("%s: %w", p.tiered, err)
	}
	after, err := r.e.Stats(ctx)
	if err != nil {
		return list, err
	}
	if same && got != want {
		return list, fmt.Errorf("%s: the sum of all elements is %#x, by raw pointers %#x", p.tiered, got, want)
	}
	base, x := result(p.raw, p.amount, p.unit, raw), result(p.tiered, p.amount, p.unit, times)
	x.Against, x.Ratio = base.Name, x.Rate()/base.Rate()
	x.Accesses = (after.Counters.Accesses - before.Counters.Accesses) / uint64(r.c.Runs+1)
	return append(list, base, x), nil
}
