package bench

import (
	"context"
	"fmt"

	"github.com/tritier/tritier/cuda"
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
	for _, same := range []bool{true, false} {
		pairs, err := r.sequential()
		if !same {
			pairs, err = r.random()
		}
		if err != nil {
			return list, err
		}
		for _, p := range pairs {
			if list, err = r.compare(ctx, list, p, same); err != nil {
				return list, err
			}
		}
	}
	return list, nil
}

// grids are as many blocks as run at a time of kernels with 32, 64 and 128 registers.
func (r *rig) grids() (all, half, few cuda.LaunchConfig, err error) {
	if all, err = r.grid(8); err != nil {
		return all, half, few, err
	}
	if half, err = r.grid(4); err != nil {
		return all, half, few, err
	}
	few, err = r.grid(2)
	return all, half, few, err
}

// sequential are kernels that read all elements in order.
func (r *rig) sequential() ([]pair, error) {
	all, half, few, err := r.grids()
	if err != nil {
		return nil, err
	}
	short, err := r.ref(2)
	if err != nil {
		return nil, err
	}
	long, err := r.ref(4)
	if err != nil {
		return nil, err
	}
	h, each, s, raw, sum, failed := r.hits, r.each, r.s, cuda.Ptr(r.e.FrameMemory()), r.out.Ptr(), r.out.Ptr().Add(8)
	bytes := r.pages * uint64(r.c.PageSize)
	raw16 := func() error { return h.Raw16(s, all, raw, bytes/16, sum) }
	raw4 := func() error { return h.Raw4(s, all, raw, bytes/4, sum) }
	return []pair{
		{"raw pointer, 16 bytes", "cursor, 16 bytes", bytes, "bytes", raw16, func() error { return h.Cursor16(s, few, &long, sum, failed) }},
		{"raw pointer, 16 bytes", "a[i], 16 bytes", bytes, "bytes", raw16, func() error { return h.Tiered16(s, all, &long, bytes/16, sum) }},
		{"raw pointer, 4 bytes", "a[i], 4 bytes", bytes, "bytes", raw4, func() error { return h.Tiered4(s, all, &short, bytes/4, sum) }},
		{"raw pointer, 16 bytes", "load_each, 4 of 16 bytes", bytes, "bytes", raw16, func() error { return each.Four16(s, half, &long, bytes/16, sum, failed) }},
		{"raw pointer, 4 bytes", "load_each, 4 of 4 bytes", bytes, "bytes", raw4, func() error { return each.Four4(s, half, &short, bytes/4, sum, failed) }},
		{"raw pointer, 4 bytes", "load_each, 2 of 4 bytes", bytes, "bytes", raw4, func() error { return each.Two4(s, all, &short, bytes/4, sum, failed) }},
	}, nil
}

// random are kernels that read elements at random. Frames are in another order than
// pages: those of raw pointers read other elements.
func (r *rig) random() ([]pair, error) {
	all, half, _, err := r.grids()
	if err != nil {
		return nil, err
	}
	ref, err := r.ref(3)
	if err != nil {
		return nil, err
	}
	h, each, s, raw, sum, failed := r.hits, r.each, r.s, cuda.Ptr(r.e.FrameMemory()), r.out.Ptr(), r.out.Ptr().Add(8)
	n := r.pages * uint64(r.c.PageSize) / 8
	reads := min(uint64(1)<<28, 2*n)
	return []pair{
		{"raw pointer, random 8 bytes", "a[i], random 8 bytes", reads, "reads",
			func() error { return h.RawRandom8(s, all, raw, n, reads, sum) },
			func() error { return h.TieredRandom8(s, all, &ref, n, reads, sum) }},
		{"raw pointer, 4 random of 8 bytes", "load_each, 4 random of 8 bytes", reads, "reads",
			func() error { return each.RawFourRandom8(s, all, raw, n, reads, sum) },
			func() error { return each.FourRandom8(s, half, &ref, n, reads, sum, failed) }},
	}, nil
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
