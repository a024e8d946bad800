package bamio

import (
	"context"
	"time"

	"github.com/tritier/tritier/bamio/layout"
	"github.com/tritier/tritier/libnvm/soft"
)

// QueueStats are the GPU's own counters of a queue pair, since Open.
type QueueStats struct {
	Drive       int    // index in Options.Drives
	ID          uint16 // the controller's number
	Commands    uint64 // submission entries reserved
	Doorbells   uint64 // writes of the submission doorbell
	Completions uint64 // taken from the completion queue
	Spurious    uint32 // for no command that was in flight
	InFlight    int    // command ids whose completion has not come
	Abandoned   int    // command ids whose owner gave up
	Failed      Status // what every command gets, or OK
}

// RequestStats counts what Serve did.
type RequestStats struct {
	Requests, Failed, Batches uint64        // Failed: answered with another status than OK
	Abandoned                 uint64        // of the failed: withdrawn, or nobody waited for any more
	LastError                 error         // of a handler
	CPU                       time.Duration // of Serve and its handlers: processor time
}

// ControllerStats is what a software controller counts since it was made. A raw
// drive counts nothing that the driver could read.
type ControllerStats struct {
	Name       string // of the first drive behind it
	Known      bool   // it is a software controller
	soft.Stats        // commands, bytes and errors
	// CPU is the processor time of its service threads, if CPUKnown.
	CPU      time.Duration
	CPUKnown bool
}

// Stats are the engine's counters. Those of queues come from GPU memory and may
// be a moment apart from each other while kernels run.
type Stats struct {
	Commands, Doorbells, Completions, Spurious uint64 // sums over queues
	InFlight, Abandoned, FailedQueues          int
	Queues                                     []QueueStats
	Requests                                   RequestStats
	Controllers                                []ControllerStats
}

// serviceTimer is a transport that knows the processor time of its threads.
type serviceTimer interface {
	CPUTime() time.Duration // 0 where the system does not say
}

// softStats is a transport that counts.
type softStats interface{ Stats() soft.Stats }

// Stats reads the counters, also while kernels run. The error is a
// *cuda.DeadlineError when the GPU does not copy within Options.Deadline, another
// error of the GPU, or ErrClosed.
func (e *Engine) Stats(ctx context.Context) (Stats, error) {
	if err := e.life.begin(); err != nil {
		return Stats{}, err
	}
	defer e.life.end()
	snap, err := e.snapshot(ctx, e.opts.Deadline)
	if err != nil {
		return Stats{}, err
	}
	s := e.count(snap)
	s.Requests = e.served.stats()
	s.Controllers = e.controllerStats()
	return s, nil
}

// Served is what Serve did so far. Unlike Stats it does not look at the GPU.
func (e *Engine) Served() RequestStats { return e.served.stats() }

func (e *Engine) count(snap *snapshot) Stats {
	var s Stats
	first := e.first()
	for i, q := range snap.queues {
		x := QueueStats{
			Drive: e.queues[i].drive, ID: e.queues[i].at.ID, Commands: q.Tickets - first, Doorbells: q.Doorbells,
			Completions: q.Completions, Spurious: q.Spurious, Failed: Status(q.Failed),
		}
		for _, c := range snap.cids[i] {
			switch c.State() {
			case layout.InFlight:
				x.InFlight++
			case layout.Abandoned:
				x.Abandoned++
			}
		}
		s.Commands += x.Commands
		s.Doorbells += x.Doorbells
		s.Completions += x.Completions
		s.Spurious += uint64(x.Spurious)
		s.InFlight += x.InFlight
		s.Abandoned += x.Abandoned
		if x.Failed != OK {
			s.FailedQueues++
		}
		s.Queues = append(s.Queues, x)
	}
	return s
}

func (s *served) stats() RequestStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return RequestStats{s.requests.Load(), s.failed.Load(), s.batches.Load(), s.abandoned.Load(), s.last, time.Duration(s.cpu.Load())}
}

func (e *Engine) controllerStats() []ControllerStats {
	var out []ControllerStats
	for _, p := range e.ports {
		x := ControllerStats{Name: p.name}
		tr := p.ctrl.Transport()
		if s, ok := tr.(softStats); ok {
			x.Known, x.Stats = true, s.Stats()
		}
		if s, ok := tr.(serviceTimer); ok {
			x.CPU = s.CPUTime()
			x.CPUKnown = x.CPU > 0
		}
		out = append(out, x)
	}
	return out
}
