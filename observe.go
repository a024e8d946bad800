package tritier

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier/host"
)

// Event is a move that has ended, as Config.Events is told.
type Event = host.Event

// Traced is how much Config.Events was told of. Engine host leaves nothing out, and only
// counts what it told.
type Traced struct {
	Told    uint64        // events
	Begun   uint64        // with engine gpu: misses, and pages that a flush wrote back
	Sampled uint64        // of these, the ones to be told of: one in Config.EventsEvery
	LeftOut uint64        // of these, the ones that Events was too slow for, left out with all their moves
	Cut     uint64        // single events of the others that it was too slow for
	Clock   time.Duration // by how much Event.Start may be off: kernels have a clock of their own
}

// Traced waits until Config.Events was told of what has ended, and says how much that was
// and what was left out.
func (m *Memory) Traced(ctx context.Context) (Traced, error) {
	if err := m.open(); err != nil {
		return Traced{}, err
	}
	return m.eng.traced(ctx)
}

// ServiceCPU is the processor time that the threads have used which serve the drives
// in software, since Open; known is false when there are none, or when the system
// does not say.
func (m *Memory) ServiceCPU() (used time.Duration, known bool) { return m.vol.ServiceCPU() }

// Observed is how much Config.Observe was told of.
type Observed struct {
	Told uint64 // accesses
	Lost uint64 // accesses that it should have been told of, and was too slow for
}

// Observed waits until Config.Observe was told of the accesses of all calls and kernels
// that have ended, and says how many those were. What is lost is lost for good: a trace
// of the accesses is not complete then. Only engine gpu loses any.
func (m *Memory) Observed(ctx context.Context) (Observed, error) {
	if err := m.open(); err != nil {
		return Observed{}, err
	}
	return m.eng.observed(ctx)
}

// observer is Config.Observe for one in so many pages.
type observer struct {
	f     func(Access)
	every uint64
	told  atomic.Uint64
}

// newObserver is nil when nobody observes.
func newObserver(c *Config) *observer {
	if c.Observe == nil {
		return nil
	}
	return &observer{f: c.Observe, every: uint64(max(c.ObserveEvery, 1))}
}

// tell passes an access on, if it is to one of the chosen pages.
func (o *observer) tell(array int, a Access) {
	if o.every > 1 && placement.Hash(uint64(array), 0, placement.Page(a.Page))%o.every != 0 {
		return
	}
	o.told.Add(1)
	o.f(a)
}

func (o *observer) observed() Observed {
	if o == nil {
		return Observed{}
	}
	return Observed{Told: o.told.Load()}
}
