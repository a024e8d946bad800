package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/layout"
)

// EventKind is what an Event tells of.
type EventKind uint8

// The kinds of events. Moves are of one page.
const (
	EventRead    EventKind = iota // T3 to T2: from the command to its result being taken, after what was written beside it
	EventWrite                    // T2 to T3
	EventDemote                   // a copy from T1 to T2
	EventPromote                  // a copy from T2 to T1
	EventMiss                     // a miss, from the access to the page that can be used
	EventFlush                    // a page that a flush writes back, from the look at it to its being clean
)

// Event is a move that has ended, or what moves belong to, successfully or not.
type Event struct {
	Kind   EventKind
	Failed bool
	Op     tier.Op   // of a miss
	Page   uint64    // of the engine; a miss moves other pages too: its victims
	Start  time.Time // by the host's clock, but for Told.Clock
	Took   time.Duration
	SM     int // the multiprocessor, 0 on a software GPU
	Stripe int // the user's number modulo 128: its warp's, or its multiprocessor's
}

// Told is how far Options.Events has been told.
type Told struct {
	Events  uint64        // of which it was told
	Begun   uint64        // misses, and pages that a flush wrote back
	Sampled uint64        // of these, the ones to be told of: one in Options.EventsEvery
	LeftOut uint64        // of these, the ones that it was too slow for, left out with all their moves
	Cut     uint64        // single events of the others that it was too slow for, and moves that have lost theirs
	Clock   time.Duration // by how much Event.Start may be off: the most that a comparison of the clocks has shown
}

// eventCount is the length of the ring of events, and eventRoom how many of them can wait
// to be taken: as recordCount and recordRoom.
var eventCount, eventRoom uint64 = 1 << 20, 1 << 19

const (
	takenAtOnce = 1 << 12 // events, before kernels hear of it
	mostOpen    = 1 << 16 // misses at a time of which only moves have come: more than there are warps
)

// teller takes the events that kernels send and tells the listener. Moves come before what
// they belong to, and are kept until that has come.
type teller struct {
	ring   eventRing
	memory *cuda.HostMemory
	clock  *clock
	every  uint32
	f      func([]Event)
	*listening
	within time.Duration // of close

	taken, told, cut, waiting atomic.Uint64 // events: taken from the ring, told of, dropped, kept

	open map[uint32][]layout.Event // the rest is the goroutine's: moves by number
	free [][]layout.Event
	kept uint64 // in open
	list []Event
}

func newTeller(ctx *cuda.Context, o *Options) (*teller, error) {
	m, err := ctx.AllocHost(eventsAt+uint64(eventBytes)*eventCount, 0)
	if err != nil {
		return nil, fmt.Errorf("the ring of events: %w", err)
	}
	clear(m.Bytes())
	return &teller{ring: eventRing{m.Bytes(), eventCount}, memory: m, every: uint32(max(o.EventsEvery, 1)), f: o.Events,
		listening: newListening(), within: o.Deadline, open: map[uint32][]layout.Event{}}, nil
}

// log is what kernels find at first.
func (t *teller) log() layout.EventLog {
	at := t.memory.DevicePtr()
	return layout.EventLog{Events: uint64(at.Add(eventsAt)), Box: uint64(at), Count: uint32(eventCount), Room: uint32(eventRoom), Every: t.every}
}

// start compares the clocks and begins to listen.
func (t *teller) start(ctx context.Context, k *kernels, gpu *cuda.Context) (err error) {
	if t.clock, err = openClock(ctx, k, gpu, t.memory); err != nil {
		return fmt.Errorf("the GPU's clock: %w", err)
	}
	t.begin(t.run)
	return nil
}

func (t *teller) close() error {
	err := t.end(t.within)
	if t.clock != nil {
		err = errors.Join(err, t.clock.close())
	}
	return errors.Join(err, t.memory.Close())
}

// run takes what comes, and at the end what is there.
func (t *teller) run() {
	for idle := 0; ; {
		over := false
		select {
		case <-t.done:
			over = true
		default:
		}
		if t.take() {
			idle = 0
			continue
		}
		if over {
			return
		}
		look := busyLook
		if idle++; idle > 100 {
			look = idleLook
		}
		time.Sleep(look)
	}
}

// take takes events that have come, tells of them, and says whether there were any.
func (t *teller) take() bool {
	t.list = t.list[:0]
	before := t.taken.Load()
	n := before
	now := t.clock.now.Load()
	t.look(func() {
		for n-before < takenAtOnce {
			v, ok := t.ring.event(n)
			if !ok {
				break
			}
			n++
			t.sort(now, v)
		}
		if n != before {
			t.ring.took(n)
		}
	})
	if n == before {
		return false
	}
	if len(t.list) > 0 {
		t.f(t.list)
		t.told.Add(uint64(len(t.list)))
	}
	t.waiting.Store(t.kept)
	t.taken.Store(n)
	return true
}

// sort keeps a move, or lists what moves belong to, and them.
func (t *teller) sort(now *instant, v layout.Event) {
	if v.What&15 < layout.Edges {
		moves, known := t.open[v.Number]
		if last := len(t.free) - 1; !known && last >= 0 {
			moves, t.free = t.free[last], t.free[:last]
		}
		t.open[v.Number] = append(moves, v)
		if t.kept++; len(t.open) > mostOpen {
			t.forget()
		}
		return
	}
	start := now.at(v.Begun)
	t.list = append(t.list, event(v, start))
	moves, known := t.open[v.Number]
	if !known {
		return
	}
	// A read comes after what was written beside it, and began before that: who draws spans
	// wants the outer ones first.
	slices.SortStableFunc(moves, func(a, b layout.Event) int {
		return cmp.Or(cmp.Compare(a.Begun, b.Begun), cmp.Compare(b.Ended, a.Ended))
	})
	for _, m := range moves {
		t.list = append(t.list, event(m, start.Add(time.Duration(m.Begun-v.Begun)))) // by the same clock: moves lie within it
	}
	t.kept -= uint64(len(moves))
	delete(t.open, v.Number)
	t.free = append(t.free, moves[:0])
}

// forget drops the moves that wait for what they belong to: that was cut.
func (t *teller) forget() {
	t.cut.Add(t.kept)
	t.kept = 0
	clear(t.open)
}

// event is a device's event as the listener gets it.
func event(v layout.Event, start time.Time) Event {
	return Event{Kind: EventKind(v.What & 15), Failed: v.What>>layout.EventFailed&1 != 0, Op: tier.Op(v.What >> layout.EventOp & 3), Page: uint64(v.Page),
		Start: start, Took: time.Duration(v.Ended - v.Begun), SM: int(v.What >> layout.EventSM), Stripe: int(v.What >> layout.EventStripe & (layout.Stripes - 1))}
}

// Told waits until Options.Events was told of all that kernels did that have ended, and
// says how much that was and what was left out. The error is ErrObserver when that takes
// longer than Options.Deadline, or says why the clocks could not be compared.
func (e *Engine) Told(ctx context.Context) (told Told, err error) {
	if err := e.mu.enter(ctx); err != nil {
		return told, err
	}
	defer e.mu.leave()
	if e.closed {
		return told, ErrClosed
	}
	t := e.tell
	if t == nil {
		return told, nil
	}
	bounded, cancel := context.WithTimeout(ctx, e.o.Deadline)
	defer cancel()
	clockErr := t.clock.compare(bounded, laterReadings)
	var log layout.EventLog
	if err := e.get(bounded, e.dev.Events, &log); err != nil {
		return told, errors.Join(clockErr, err)
	}
	for wait := busyLook; t.taken.Load() < log.Tail && err == nil; wait = min(2*wait, idleLook) {
		select {
		case <-bounded.Done():
			err = fmt.Errorf("%w: %d events of %d", ErrObserver, t.taken.Load(), log.Tail)
		case <-time.After(wait):
		}
	}
	every := uint64(t.every)
	return Told{Events: t.told.Load(), Begun: log.Begun, Sampled: (log.Begun + every - 1) / every, LeftOut: log.LeftOut,
		Cut: log.Cut + t.cut.Load() + t.waiting.Load(), Clock: t.clock.off}, errors.Join(clockErr, err)
}
