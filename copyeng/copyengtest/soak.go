package copyengtest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tritier/tritier/copyeng"
)

// SoakOptions are the choices of Soak.
type SoakOptions struct {
	Options         // Seed, MaxBytes (0 is 64 MiB), Timeout and the access to device memory
	Batches     int // batches and exchanges to start; 0 is 100,000
	Queues      int // 0 is 4
	MaxBatch    int // payload of a batch in bytes, but any page fits; 0 is 1 MiB
	VerifyEvery int // batches between looks at all memory; 0 is 5,000
	// Probes counts what must not grow: goroutines, file descriptors, bytes of
	// device memory. It is asked when nothing is in flight, some way into the
	// soak and at its end, and asked again for a while when something has grown.
	Probes func() map[string]int64
}

// settleTime is how long a probe may take to come down: goroutines that have
// done their work need a moment to end.
const settleTime = 5 * time.Second

// Soak starts random batches and exchanges on several queues at once, opens
// and closes queues and spaces meanwhile, compares samples of memory all the
// time and all of it now and then, and looks for leaks. The engine stays open.
func Soak(t T, engine copyeng.Engine, o SoakOptions) {
	t.Helper()
	o.Options = o.withDefaults()
	e := &env{T: t, o: o.Options, engine: engine, rng: random(o.Seed, "Soak")}
	s := &soak{env: e, o: o}
	start := time.Now()
	err := s.run()
	for _, w := range e.worlds {
		err = errors.Join(err, w.close())
	}
	if err != nil {
		t.Errorf("soak of engine %s, seed %d, after %d batches: %v", engine.Name(), o.Seed, s.done, err)
		return
	}
	t.Logf("soak of engine %s, seed %d: %d batches and exchanges, %d bytes to the device and %d to the host, in %v",
		engine.Name(), o.Seed, s.done, e.counts[copyeng.ToDevice].Bytes, e.counts[copyeng.ToHost].Bytes, time.Since(start).Round(time.Millisecond))
}

type soak struct {
	*env
	o     SoakOptions
	w     *world
	lanes []*lane
	done  int
}

func (s *soak) run() (err error) {
	orElse(&s.o.Batches, 100_000)
	orElse(&s.o.Queues, 4)
	orElse(&s.o.VerifyEvery, 5000)
	orElse(&s.o.MaxBatch, 1<<20)
	bytes := uint64(s.env.o.MaxBytes / 2)
	if s.w, err = s.newWorld(bytes, bytes); err != nil {
		return err
	}
	if s.lanes, err = s.w.lanes(s.o.Queues); err != nil {
		return err
	}
	for _, l := range s.lanes {
		l.maxBatch = s.o.MaxBatch
	}
	warm := min(s.o.Batches/10, 2000) // what an engine makes once and keeps is made by then
	if err := s.steps(warm); err != nil {
		return err
	}
	before, err := s.probe()
	if err != nil {
		return err
	}
	if err := s.steps(s.o.Batches); err != nil {
		return err
	}
	err = s.leaks(before)
	for _, l := range s.lanes {
		err = errors.Join(err, l.q.Close())
	}
	return err
}

func orElse(v *int, otherwise int) {
	if *v == 0 {
		*v = otherwise
	}
}

// steps goes on until so many batches have been started, and looks at all memory.
func (s *soak) steps(until int) error {
	for s.done < until {
		l := s.lanes[s.rng.IntN(len(s.lanes))]
		if err := l.step(); err != nil {
			return err
		}
		s.done++
		var err error
		switch {
		case s.done%s.o.VerifyEvery == 0:
			err = s.verify()
		case s.done%97 == 0:
			err = errors.Join(s.reopen(l), s.otherSpaces())
		case s.rng.IntN(8) == 0:
			err = s.sample(l)
		}
		if err != nil {
			return err
		}
	}
	return s.verify()
}

// verify waits for all queues and compares all memory.
func (s *soak) verify() error {
	for _, l := range s.lanes {
		if err := s.wait(l.q); err != nil {
			return err
		}
	}
	return s.w.verify()
}

// sample waits for one queue and compares some of what it may have written.
func (s *soak) sample(l *lane) error {
	if err := s.wait(l.q); err != nil {
		return err
	}
	for range 4 {
		if err := s.w.host.checkSpan(within(s.rng, l.host)); err != nil {
			return err
		}
		if err := s.w.device.checkSpan(within(s.rng, l.device)); err != nil {
			return err
		}
	}
	return nil
}

// within draws a short part of a span.
func within(r *rand.Rand, s span) span {
	n := (s.to - s.from) / granule
	first := r.Uint64N(n)
	return span{s.from + first*granule, s.from + min(first+8, n)*granule}
}

// reopen closes a queue with its work in flight and opens another.
func (s *soak) reopen(l *lane) error {
	if err := l.q.Close(); err != nil {
		return fmt.Errorf("close queue: %w", err)
	}
	q, err := s.engine.NewQueue()
	if err != nil {
		return err
	}
	l.q = q
	return nil
}

// otherSpaces makes spaces of some size, copies a page and closes them.
func (s *soak) otherSpaces() error {
	w, err := s.newWorld(s.rng.Uint64N(256<<10)+4096, s.rng.Uint64N(256<<10)+4096)
	if err != nil {
		return err
	}
	l := *s.lanes[0]
	l.world = w
	return errors.Join(w.copy(l.q, l.draw(copyeng.ToDevice, whole(w.host), whole(w.device))), s.wait(l.q), w.verify(), w.drop())
}

// probe asks the probes, with nothing in flight and fresh queues only: what a
// queue makes when it first needs it is not a leak.
func (s *soak) probe() (map[string]int64, error) {
	if s.o.Probes == nil {
		return nil, nil
	}
	for _, l := range s.lanes {
		if err := s.reopen(l); err != nil {
			return nil, err
		}
	}
	return s.o.Probes(), nil
}

// leaks compares the probes with those from before.
func (s *soak) leaks(before map[string]int64) error {
	for start := time.Now(); ; time.Sleep(settleTime / 100) {
		after, err := s.probe()
		if err != nil {
			return err
		}
		var errs []error
		for _, name := range slices.Sorted(maps.Keys(after)) {
			if after[name] > before[name] {
				errs = append(errs, fmt.Errorf("leak: %s grew from %d to %d", name, before[name], after[name]))
			}
		}
		if len(errs) == 0 || time.Since(start) > settleTime {
			s.Logf("probes before: %v, after: %v", before, after)
			return errors.Join(errs...)
		}
	}
}
