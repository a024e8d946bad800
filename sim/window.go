package sim

import (
	"context"
	"fmt"

	"github.com/tritier/tritier/tier"
)

// Snapshots replays j over the first accesses of t and returns its counters
// after each of cuts accesses (prefetches counted), which ascend. What happened
// between two cuts, in tiers that what came before has filled, is the
// difference. When ctx ends it returns ctx's error. It uses the caller's
// goroutine alone, and t may be shared.
func Snapshots(ctx context.Context, t *Trace, j Job, cuts ...int) ([]tier.Counters, error) {
	// Prompts would have the machine tell of every miss.
	bare := &Trace{Info: t.Info, Accesses: t.Accesses}
	r, err := newRun(j, t.Info.Pages, bare)
	if err != nil {
		return nil, err
	}
	out := make([]tier.Counters, 0, len(cuts))
	done := 0
	for _, cut := range cuts {
		if cut < done || cut > len(t.Accesses) {
			return nil, fmt.Errorf("sim: cut at %d: want %d, where the last one is, to %d, where the trace ends", cut, done, len(t.Accesses))
		}
		if err := inBlocks(ctx, t.Accesses[done:cut], func(int) {}, r.machine.Run); err != nil {
			return nil, err
		}
		done = cut
		out = append(out, r.machine.Counters())
	}
	return out, nil
}
