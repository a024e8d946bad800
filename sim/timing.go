package sim

import (
	"errors"
	"fmt"

	"github.com/tritier/tritier/sim/timed"
	"github.com/tritier/tritier/tier"
)

// Timing asks for a replay in virtual time: each access takes the time that the
// model's machine needs for it. Decisions and counters stay as they are.
type Timing struct {
	Path     string // access path of the model; empty: its default
	InFlight int    // accesses outstanding at once
	Seed     uint64 // of the latencies
}

var errNoModel = errors.New("sim: virtual time needs a model")

// tryTimed finds what would keep every job from being timed.
func (o *Options) tryTimed(pageSize uint64) error {
	if o.Timed == nil {
		return nil
	}
	_, err := o.newTimed(pageSize)
	return err
}

func (o *Options) newTimed(pageSize uint64) (*timed.Replay, error) {
	if o.Model == nil {
		return nil, errNoModel
	}
	r, err := timed.NewReplay(o.Model, timed.Options{Path: o.Timed.Path, InFlight: o.Timed.InFlight, PageSize: pageSize, Seed: o.Timed.Seed})
	if err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	return r, nil
}

// time makes the run take virtual time, if that is asked for.
func (r *run) time(o Options, pageSize uint64) (err error) {
	if o.Timed != nil {
		r.timed, err = o.newTimed(pageSize)
		r.timing = *o.Timed
	}
	return err
}

// accesses is what runs a block of accesses to pages below pages.
func (r *run) accesses(pages int) func([]tier.Access) {
	if r.timed == nil {
		return r.machine.Run
	}
	r.timed.Grow(pages)
	return func(accs []tier.Access) { r.timed.Run(r.machine, accs) }
}

// resultTimed is the run's result with its times; err says why it was cut short,
// and then nothing is flushed.
func (r *run) resultTimed(err error) (Result, error) {
	res := r.result()
	if r.timed == nil {
		return res, err
	}
	if err == nil {
		r.timed.Flush(r.machine)
	}
	t, timeErr := r.timed.Result(r.timing.Seed)
	if timeErr != nil {
		return res, errors.Join(err, timeErr)
	}
	res.Timed = &t
	return res, err
}
