package cuda

import (
	"context"
	"fmt"
)

// Stream is a queue of work for the GPU: what is put into one runs in order,
// what is in different ones may run at once.
type Stream struct {
	object
	wrapped bool // the caller's: not destroyed
}

// The streams that exist without being made. Work in the legacy default stream
// waits for, and holds up, all streams that are not non-blocking.
const (
	legacyNull      = 0 // the stream that the NULL handle means
	legacyDefault   = 1 // CU_STREAM_LEGACY
	perThreadStream = 2 // CU_STREAM_PER_THREAD
)

// streamNonBlocking is CU_STREAM_NON_BLOCKING.
const streamNonBlocking = 1

type streamOptions struct{ priority int }

// StreamOption changes what NewStream makes.
type StreamOption func(*streamOptions)

// WithPriority gives the stream a priority; smaller is more urgent, and 0 is
// usual. A number outside StreamPriorities is brought into it.
func WithPriority(p int) StreamOption {
	return func(o *streamOptions) { o.priority = p }
}

// NewStream makes a stream that does not synchronise with the legacy default
// stream.
func (c *Context) NewStream(opts ...StreamOption) (*Stream, error) {
	if err := c.acquire("cuda.Context.NewStream"); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	var o streamOptions
	for _, set := range opts {
		if set != nil {
			set(&o)
		}
	}
	s := &Stream{object: object{ctx: c, kind: "stream"}}
	if err := s.create(o.priority); err != nil {
		return nil, about(err, "%s", c.device)
	}
	c.adopt(s)
	return s, nil
}

// WrapStream uses a stream that another library of the process has made in
// this context. Close does not destroy it, and it must not be destroyed
// before. The default streams have handles too: 0 and 1 are the legacy one, 2
// is the one of the calling thread, which is the same one from call to call only
// inside Do.
func (c *Context) WrapStream(handle uintptr) *Stream {
	s := &Stream{object: object{ctx: c, kind: "stream", handle: handle}, wrapped: true}
	if err := c.acquire("cuda.Context.WrapStream"); err != nil {
		s.closed = true // there is nothing that it could do
		return s
	}
	defer c.mu.RUnlock()
	c.adopt(s)
	return s
}

// acquire is that of object, for a stream that may be nil.
func (s *Stream) acquire(call string) error {
	if s == nil || s.ctx.unmade() {
		return missing(call, "stream")
	}
	return s.object.acquire(call)
}

// Handle is the driver's CUstream, for other libraries.
func (s *Stream) Handle() uintptr { return s.handle }

// Context is the context that the stream belongs to.
func (s *Stream) Context() *Context { return s.ctx }

// legacy says whether it is the legacy default stream.
func (s *Stream) legacy() bool { return s.handle == legacyNull || s.handle == legacyDefault }

// String names the stream in errors.
func (s *Stream) String() string {
	if s == nil || s.ctx.unmade() {
		return "no stream"
	}
	switch s.handle {
	case legacyNull, legacyDefault:
		return "the legacy default stream of " + s.ctx.device.String()
	case perThreadStream:
		return "the thread's default stream of " + s.ctx.device.String()
	}
	return fmt.Sprintf("stream %#x of %s", s.handle, s.ctx.device)
}

// Close destroys the stream. Work in it still runs to its end. Closing again
// does nothing.
func (s *Stream) Close() error {
	const call = "cuda.Stream.Close"
	if s == nil || s.ctx.unmade() {
		return missing(call, "stream")
	}
	if s.wrapped {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closed = true
		s.ctx.forget(s)
		return nil
	}
	return s.destroy(s, SymStreamDestroy, call)
}

func (s *Stream) rank() int { return rankStream }

// Query says whether all work in the stream is done. The error is one that
// the work had, if it had one.
func (s *Stream) Query() (done bool, err error) {
	f := newFrame()
	defer f.free()
	return s.poll("cuda.Stream.Query", f)
}

// poll is Query in a frame that lasts for many.
func (s *Stream) poll(call string, f *frame) (bool, error) {
	if err := s.acquire(call); err != nil {
		return false, err
	}
	defer s.release()
	f.args[0] = s.handle
	switch err := s.ctx.run(SymStreamQuery, f, 1); err {
	case nil:
		return true, nil
	case errNotReady:
		return false, nil
	default:
		return false, about(err, "%s", s)
	}
}

// Wait waits until all work in the stream is done: also work that is put
// into it while Wait waits. It spins for the first 2 ms (100 us
// where the program has fewer than 4 processors), so that it returns within
// about a microsecond of a short piece of work, and sleeps between queries
// after that, each time for 1/32 of the wait so far. If ctx ends first it returns a
// *DeadlineError, and the work stays in flight.
func (s *Stream) Wait(ctx context.Context) error { return wait(ctx, "cuda.Stream.Wait", s) }

// WaitEvent makes work that is put into the stream from now on wait for the
// event's last Record. It does not wait itself.
func (s *Stream) WaitEvent(e *Event) error {
	const call = "cuda.Stream.WaitEvent"
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
	f.args[0], f.args[1], f.args[2] = s.handle, e.handle, 0
	if err := s.ctx.run(SymStreamWaitEvent, f, 3); err != nil {
		return about(err, "%s", s)
	}
	return nil
}
