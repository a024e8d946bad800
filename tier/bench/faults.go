package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/tier"
)

// Faults measures how fast pages come from T2 to T1 while a kernel runs: nearly every
// access misses T1, by so many warps. No CPU takes part. Read: pages are clean, and stay
// in T2 as copies, so that a victim is dropped without a transfer. Written: T1's victim
// moves to T2 for each page that comes.
func Faults(ctx context.Context, c Config) ([]Result, error) {
	c = c.withDefaults()
	clean, err := faults(ctx, c, tier.Read, "tier-order{t1=fifo,t2=fifo,t2copy=keep}", "read")
	if err != nil {
		return clean, err
	}
	dirty, err := faults(ctx, c, tier.Write, "tier-order{t1=fifo,t2=fifo}", "written")
	return append(clean, dirty...), err
}

func faults(ctx context.Context, c Config, op tier.Op, policy, what string) (list []Result, err error) {
	page := uint64(c.PageSize)
	frames, slots := int(c.T1/page), int(c.Faults/page)
	r, err := open(ctx, c, policy, frames, slots, uint64(slots))
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := r.close(); err == nil {
			err = e
		}
	}()
	ref, err := r.ref(3)
	if err != nil {
		return nil, err
	}
	if err := r.e.Flush(ctx); err != nil { // what is dirty leaves no copy
		return nil, err
	}
	seed := uint64(1)
	for _, warps := range c.Warps {
		each := min(c.Each, 60000/warps+1)
		cfg := cuda.LaunchConfig{Grid: cuda.D1(uint32(warps)), Block: cuda.D1(32)}
		before, err := r.e.Stats(ctx)
		if err != nil {
			return list, err
		}
		times, _, err := r.time(ctx, func() error {
			seed++
			return r.faults.Faults(r.s, cfg, &ref, uint32(op), uint64(each), seed, r.out.Ptr().Add(8))
		})
		if err != nil {
			return list, fmt.Errorf("%d warps: %w", warps, err)
		}
		after, err := r.e.Stats(ctx)
		if err != nil {
			return list, err
		}
		pages, err := served(before.Counters, after.Counters, uint64(c.Runs+1))
		if err != nil {
			return list, err
		}
		one := result(fmt.Sprintf("faults from T2, %d warps, %s", warps, what), pages*page, "bytes", times)
		one.Compactions = after.Device.Compactions - before.Device.Compactions
		one.Compacting = time.Duration(after.Device.CompactionNS - before.Device.CompactionNS)
		list = append(list, one)
	}
	return list, nil
}

// served is how many pages came from T2 in each of so many runs.
func served(before, after tier.Counters, runs uint64) (uint64, error) {
	accesses, t2 := after.Accesses-before.Accesses, after.T2Hits-before.T2Hits
	switch {
	case after.T3Fetches != before.T3Fetches:
		return 0, fmt.Errorf("%d pages came from the drive, not from T2", after.T3Fetches-before.T3Fetches)
	case t2 < accesses/2:
		return 0, fmt.Errorf("only %d of %d accesses were faults", t2, accesses)
	}
	return t2 / runs, nil
}
