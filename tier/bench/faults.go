package bench

import (
	"context"
	"fmt"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/tier"
)

// Faults measures how fast pages come from T2 to T1 while a kernel runs: nearly every
// access misses T1, and T1's victim goes to T2, by so many warps, with clean and with
// dirty victims. No CPU takes part.
func Faults(ctx context.Context, c Config) (list []Result, err error) {
	c = c.withDefaults()
	page := uint64(c.PageSize)
	frames, slots := int(c.T1/page), int(c.Faults/page)
	r, err := open(ctx, c, "tier-order{t1=fifo,t2=fifo}", frames, slots, uint64(frames+slots))
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
	before, err := r.e.Stats(ctx)
	if err != nil {
		return nil, err
	}
	seed := uint64(1)
	for _, op := range []tier.Op{tier.Read, tier.Write} {
		for _, warps := range c.Warps {
			each := min(c.Each, 60000/warps+1)
			cfg := cuda.LaunchConfig{Grid: cuda.D1(uint32(warps)), Block: cuda.D1(32)}
			times, _, err := r.time(ctx, func() error {
				seed++
				return r.k.Faults(r.s, cfg, &ref, uint32(op), uint64(each), seed, r.out.Ptr().Add(8))
			})
			if err != nil {
				return list, fmt.Errorf("%d warps: %w", warps, err)
			}
			name := fmt.Sprintf("faults from T2, %d warps, read", warps)
			if op == tier.Write {
				name = fmt.Sprintf("faults from T2, %d warps, written", warps)
			}
			list = append(list, result(name, uint64(warps*each)*page, "bytes", times))
		}
	}
	after, err := r.e.Stats(ctx)
	if err == nil && after.Counters.T3Fetches != before.Counters.T3Fetches {
		err = fmt.Errorf("%d pages came from the drive, not from T2", after.Counters.T3Fetches-before.Counters.T3Fetches)
	}
	return list, err
}
