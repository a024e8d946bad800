package cuda

import (
	"context"
	"fmt"
	"time"
)

// eventDisableTiming is CU_EVENT_DISABLE_TIMING.
const eventDisableTiming = 2

// Event marks a place in a stream.
type Event struct {
	object
}

// NewEvent makes an event. Without timing it costs the GPU less.
func (c *Context) NewEvent(timing bool) (*Event, error) {
	if err := c.acquire("cuda.Context.NewEvent"); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	var flags uintptr
	if !timing {
		flags = eventDisableTiming
	}
	e := &Event{object: object{ctx: c, kind: "event"}}
	if err := e.create(flags); err != nil {
		return nil, about(err, "%s", c.device)
	}
	c.adopt(e)
	return e, nil
}

// acquire is that of object, for an event that may be nil.
func (e *Event) acquire(call string) error {
	if e == nil || e.ctx.unmade() {
		return missing(call, "event")
	}
	return e.object.acquire(call)
}

// String names the event in errors.
func (e *Event) String() string {
	if e == nil || e.ctx.unmade() {
		return "no event"
	}
	return fmt.Sprintf("event %#x of %s", e.handle, e.ctx.device)
}

// Handle is the driver's CUevent, for other libraries.
func (e *Event) Handle() uintptr { return e.handle }

// Close destroys the event. Closing again does nothing.
func (e *Event) Close() error {
	const call = "cuda.Event.Close"
	if e == nil {
		return missing(call, "event")
	}
	return e.destroy(e, SymEventDestroy, call)
}

func (e *Event) rank() int { return rankEvent }

// Record puts the event into the stream: it is done once all work that was
// there before is. Recording again moves it.
func (e *Event) Record(s *Stream) error {
	const call = "cuda.Event.Record"
	if err := s.acquire(call); err != nil {
		return err
	}
	defer s.release()
	if err := e.acquire(call); err != nil {
		return err
	}
	defer e.release()
	f := newFrame()
	defer f.free()
	f.args[0], f.args[1] = e.handle, s.handle
	if err := s.ctx.run(SymEventRecord, f, 2); err != nil {
		return about(err, "%s", s)
	}
	return nil
}

// Query says whether the work before the last Record is done; an event that
// was never recorded is done. The error is one that the work had.
func (e *Event) Query() (done bool, err error) {
	f := newFrame()
	defer f.free()
	return e.poll("cuda.Event.Query", f)
}

func (e *Event) poll(call string, f *frame) (bool, error) {
	if err := e.acquire(call); err != nil {
		return false, err
	}
	defer e.release()
	f.args[0] = e.handle
	switch err := e.ctx.run(SymEventQuery, f, 1); err {
	case nil:
		return true, nil
	case errNotReady:
		return false, nil
	default:
		return false, about(err, "%s", e)
	}
}

// Wait waits for the work before the last Record, as Stream.Wait does.
func (e *Event) Wait(ctx context.Context) error { return wait(ctx, "cuda.Event.Wait", e) }

// ElapsedSince is the time that the GPU took from start to e, to about half
// a microsecond. Both must have timing, and be done: otherwise the error is
// InvalidHandle, or NotReady.
func (e *Event) ElapsedSince(start *Event) (time.Duration, error) {
	const call = "cuda.Event.ElapsedSince"
	if e == nil || start == nil {
		return 0, missing(call, "event")
	}
	// Always the smaller handle first: with two events closing at the same
	// time, two callers that lock in different orders would wait for ever.
	first, second := start, e
	if second.handle < first.handle {
		first, second = second, first
	}
	if err := first.acquire(call); err != nil {
		return 0, err
	}
	defer first.release()
	if second != first {
		if err := second.acquire(call); err != nil {
			return 0, err
		}
		defer second.release()
	}
	ms, err := e.elapsed(start)
	if err == errNotReady {
		err = e.ctx.driver.newError(SymEventElapsedTime, NotReady)
	}
	if err != nil {
		return 0, about(err, "%s", e)
	}
	return time.Duration(float64(ms) * float64(time.Millisecond)), nil
}
