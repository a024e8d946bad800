package cudafake

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/cuda"
)

// The handles that name default streams.
const (
	nullStream      = 0
	legacyStream    = 1
	perThreadStream = 2
)

// stream is an ordered queue of operations. Its fields are protected by
// GPU.mu.
type stream struct {
	gpu      *GPU
	ctx      *context
	handle   uintptr // 0 for a default stream
	name     string
	blocking bool  // ordered with the legacy default stream
	queue    []*op // the first may run
	last     *op   // the last that was queued, which may be done; nil at first
	pending  cuda.Result
	gone     bool // destroyed: it leaves the list with its last operation
}

func (s *stream) context() *context { return s.ctx }

func (s *stream) String() string { return s.name }

// newStream makes a stream in ctx and gives it to the scheduler.
func (g *GPU) newStream(ctx *context, name string, blocking bool) *stream {
	s := &stream{gpu: g, ctx: ctx, name: name, blocking: blocking}
	g.streams = append(g.streams, s)
	return s
}

// takePending gives a failure that did not lose the context once.
func (s *stream) takePending() cuda.Result {
	r := s.pending
	s.pending = cuda.Success
	return r
}

// drop ends all operations that do not run, with r.
func (s *stream) drop(r cuda.Result) {
	keep := 0
	if len(s.queue) > 0 && s.queue[0].state == opRunning {
		keep = 1
	}
	dropped := s.queue[keep:]
	s.queue = s.queue[:keep:keep]
	for _, o := range dropped {
		o.finish(r)
	}
	s.gpu.idle.Broadcast()
	s.gpu.poke() // streams of other contexts may wait for these
}

// waitFor lists what an operation that is queued now has to wait for beside
// its own stream: the legacy default stream and the blocking ones are ordered
// with each other.
func (s *stream) waitFor() []*op {
	if s.ctx.legacy != s {
		if l := s.ctx.legacy.last; s.blocking && l.pending() {
			return []*op{l}
		}
		return nil
	}
	var deps []*op
	for _, t := range s.gpu.streams {
		if t.ctx == s.ctx && t != s && t.blocking && t.last.pending() {
			deps = append(deps, t.last)
		}
	}
	return deps
}

// enqueue adds an operation; work is nil for one that only marks a place.
func (s *stream) enqueue(name string, w work, deps ...*op) *op {
	now := time.Now()
	g := s.gpu
	o := &op{stream: s, name: name + " on " + s.name, work: w, done: make(chan struct{})}
	o.deps = append(s.waitFor(), deps...)
	o.due = now.Add(g.config.lag)
	if w != nil {
		o.notBefore = now.Add(g.faults.delay)
	}
	s.queue = append(s.queue, o)
	s.last = o
	g.poke()
	return o
}

// stream is the one that argument i names: a default stream is that of the
// current context. The result is InvalidHandle for none, and the error of a
// lost context.
func (c *call) stream(i int) (*stream, cuda.Result) {
	switch h := c.ptr(i); h {
	case nullStream, legacyStream:
		return c.ctx.legacy, cuda.Success
	case perThreadStream:
		tid := unix.Gettid()
		s := c.ctx.perThread[tid]
		if s == nil {
			s = c.newStream(c.ctx, fmt.Sprintf("default stream of thread %d", tid), true)
			c.ctx.perThread[tid] = s
		}
		return s, cuda.Success
	default:
		s, ok := object[*stream](c.GPU, h)
		if !ok {
			c.note("%s: %#x is no stream", c.symbol, h)
			return nil, cuda.InvalidHandle
		}
		return s, s.ctx.state()
	}
}

func (c *call) streamCreate() cuda.Result {
	const nonBlocking = 1
	if c.u32(1)&^nonBlocking != 0 {
		return cuda.InvalidValue
	}
	s := c.newStream(c.ctx, "", c.u32(1)&nonBlocking == 0)
	s.handle = c.handle(s)
	s.name = fmt.Sprintf("stream %#x", s.handle)
	c.put64(0, uint64(s.handle))
	return cuda.Success
}

// streamDestroy lets go of a stream: what is queued still runs.
func (c *call) streamDestroy() cuda.Result {
	s, r := c.stream(0)
	if r != cuda.Success {
		return r
	}
	if s.handle == 0 {
		return cuda.InvalidHandle
	}
	delete(c.objects, s.handle)
	s.gone = true
	if len(s.queue) > 0 {
		c.want(s.last)
		c.poke()
	}
	c.tidy()
	return cuda.Success
}

// unfinished lists the last operations that a query of s is about.
func (s *stream) unfinished() []*op {
	var last []*op
	if len(s.queue) > 0 {
		last = append(last, s.queue[len(s.queue)-1])
	}
	if s == s.ctx.legacy {
		last = append(last, s.waitFor()...)
	}
	return last
}

func (c *call) streamQuery() cuda.Result {
	s, r := c.stream(0)
	if r != cuda.Success {
		return r
	}
	last := s.unfinished()
	if len(last) == 0 {
		return s.takePending()
	}
	for _, o := range last {
		c.want(o)
	}
	c.poke()
	return cuda.NotReady
}

func (c *call) streamSynchronize() cuda.Result {
	s, r := c.stream(0)
	if r != cuda.Success {
		return r
	}
	c.wait(s.unfinished()...)
	if r := c.settle(); r != cuda.Success {
		return r
	}
	if r := s.ctx.state(); r != cuda.Success {
		return r
	}
	return s.takePending()
}
