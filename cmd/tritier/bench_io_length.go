package main

import (
	"context"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/bamio/iobench"
)

// How the length of a run is found: by runs that grow until they say something.
const (
	firstTurns  = 4
	tellingTime = 20 * time.Millisecond
	mostGrowth  = 64
	mostTries   = 12
)

// length chooses how many I/Os a run has. What it runs for that is a warm-up.
func (s *ioGPU) length(ctx context.Context, r *ioRow, j *iobench.Job, seed func(int) uint64) error {
	if s.ios > 0 {
		j.Commands = s.ios
		return nil
	}
	want := seconds(s.f.seconds)
	j.Commands = uint64(r.warps * r.lanes * firstTurns)
	for try := range mostTries {
		j.Seed = seed(1<<20 + try)
		res, err := s.run(ctx, r, *j, func() error { return nil })
		if err != nil {
			return err
		}
		// Those that the drives answered tell as much when they were made to fail.
		ended := res.Reads + res.Writes + res.Errors - res.OtherErrors - res.Statuses[bamio.Timeout]
		if ended == 0 || res.Errors > 0 && s.faults == nil {
			return s.failed(ctx, r, res)
		}
		enough := min(tellingTime, want)
		if res.Elapsed >= enough || try == mostTries-1 {
			j.Commands = max(1, uint64(float64(ended)/max(res.Elapsed.Seconds(), 1e-9)*want.Seconds()))
			return nil
		}
		grow := min(mostGrowth, max(2, 1.5*enough.Seconds()/max(res.Elapsed.Seconds(), 1e-9)))
		j.Commands = uint64(float64(j.Commands) * grow)
	}
	return nil
}
