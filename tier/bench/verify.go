package bench

import (
	"context"
	"fmt"
)

// ways are how lanes choose their elements, by number.
var ways = []string{"in order", "by some lanes", "in many pages", "in two pages", "beyond the end"}

// Verify reads elements of every size with every page in T1, in ways that kernels do, and
// compares them; accesses are counted exactly. With few frames it does so again, without the
// count: a page that only some of a warp's lanes still find is counted for both.
func Verify(ctx context.Context, c Config) error {
	c = c.withDefaults()
	c.Runs = 1
	pages := max(c.T1/uint64(c.PageSize), 4)
	if err := verify(ctx, c, int(pages), 0, pages, true); err != nil {
		return fmt.Errorf("every page in T1: %w", err)
	}
	if err := verify(ctx, c, int(pages/4), int(pages), pages, false); err != nil {
		return fmt.Errorf("a quarter of the pages in T1: %w", err)
	}
	return nil
}

func verify(ctx context.Context, c Config, frames, t2 int, pages uint64, exact bool) (err error) {
	policy := "bypass{t1=clock}"
	if t2 != 0 {
		policy = "tier-order{t1=clock,t2=fifo}"
	}
	r, err := open(ctx, c, policy, frames, t2, pages)
	if err != nil {
		return err
	}
	defer func() {
		if e := r.close(); err == nil {
			err = e
		}
	}()
	grid, err := r.grid(2)
	if err != nil {
		return err
	}
	bytes := pages * uint64(c.PageSize)
	for shift := range uint8(5) {
		ref, err := r.ref(shift)
		if err != nil {
			return err
		}
		ref.Length -= 3 // the last page is not full: what lies behind is no element
		reads := min(bytes>>shift, 1<<20)
		if !exact { // nearly every one moves a page
			reads = min(reads, 1<<14)
		}
		for kernel, launch := range map[string]func(how uint32) error{
			"one at a time": func(how uint32) error {
				return r.verify.Verify(r.s, grid, &ref, how, reads, r.out.Ptr(), r.out.Ptr().Add(8))
			},
			"three at a time": func(how uint32) error {
				return r.verify.VerifyEach(r.s, grid, &ref, how, reads, r.out.Ptr(), r.out.Ptr().Add(8))
			},
		} {
			if err := r.verifyWays(ctx, launch, exact); err != nil {
				return fmt.Errorf("elements of %d bytes, %s, %w", 1<<shift, kernel, err)
			}
		}
	}
	return nil
}

// verifyWays runs a kernel for each of the ways. exact: accesses are compared as well.
func (r *rig) verifyWays(ctx context.Context, launch func(how uint32) error, exact bool) error {
	for how, name := range ways {
		before, err := r.e.Stats(ctx)
		if err != nil {
			return err
		}
		_, accesses, err := r.once(ctx, func() error { return launch(uint32(how)) })
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		after, err := r.e.Stats(ctx)
		if err != nil {
			return err
		}
		if n := after.Counters.Accesses - before.Counters.Accesses; exact && n != accesses {
			return fmt.Errorf("%s: %d accesses were counted, there were %d", name, n, accesses)
		}
	}
	return nil
}
