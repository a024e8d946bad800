package cudafake

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/cuda"
)

// context is one life of a device's primary context, from the first retain to
// the last release.
type context struct {
	dev       *device
	handle    uintptr
	refs      int
	lost      cuda.Result // the first lasting error
	dead      bool        // released
	ended     bool        // done is closed
	done      chan struct{}
	legacy    *stream
	perThread map[int]*stream // by thread id
	peers     map[*device]bool
}

// state is what every call on the context answers before anything else.
func (x *context) state() cuda.Result {
	if x.dead {
		return cuda.ContextIsDestroyed
	}
	return x.lost
}

// end tells the kernels that run to return.
func (x *context) end() {
	if !x.ended {
		x.ended = true
		close(x.done)
	}
}

// lose makes r the answer to every further call, and drops what is queued.
func (g *GPU) lose(x *context, r cuda.Result) {
	if x.lost == cuda.Success {
		x.lost = r
	}
	x.end()
	for _, s := range g.streamsOf(x) {
		s.drop(r)
	}
	g.tidy()
}

func (g *GPU) streamsOf(x *context) []*stream {
	var of []*stream
	for _, s := range g.streams {
		if s.ctx == x {
			of = append(of, s)
		}
	}
	return of
}

func (c *call) primaryRetain() cuda.Result {
	d, ok := c.device(1)
	if !ok {
		return cuda.InvalidDevice
	}
	if x := d.primary; x != nil && x.dead && x.lost != cuda.Success {
		// A process does not get over a lost context: the driver gives
		// the old error again.
		c.put64(0, uint64(x.handle))
		return x.lost
	}
	if d.primary == nil || d.primary.dead {
		c.newContext(d)
	}
	d.primary.refs++
	c.put64(0, uint64(d.primary.handle))
	return cuda.Success
}

func (g *GPU) newContext(d *device) {
	x := &context{dev: d, done: make(chan struct{}), perThread: make(map[int]*stream), peers: make(map[*device]bool)}
	if d.primary == nil {
		x.handle = g.handle(x)
	} else {
		// The handle of a device's primary context stays the same.
		x.handle = d.primary.handle
		g.objects[x.handle] = x
	}
	x.legacy = g.newStream(x, "legacy default stream", true)
	d.primary = x
}

func (c *call) primaryRelease() cuda.Result {
	d, ok := c.device(0)
	if !ok {
		return cuda.InvalidDevice
	}
	x := d.primary
	if x == nil || x.dead {
		return cuda.InvalidContext
	}
	if x.refs--; x.refs == 0 {
		c.destroy(x)
	}
	return cuda.Success
}

// destroy ends a context and frees all that is in it. What was still live is
// a leak, except in a lost context, where nothing can be freed.
func (g *GPU) destroy(x *context) {
	if x.lost == cuda.Success {
		for _, l := range g.leaksOf(x) {
			g.lost = append(g.lost, l+" (until its context ended)")
		}
		for _, s := range g.streamsOf(x) {
			if len(s.queue) > 0 {
				g.note("%s: %d operations in flight when its context ended, the first %s", s, len(s.queue), s.queue[0].name)
			}
		}
	}
	x.dead = true
	x.end()
	if !g.stop(x) {
		return
	}
	for _, t := range []*table{&g.deviceArena.table, &g.hostArena.table, &g.registered} {
		for _, b := range slices.Clone(t.blocks) {
			if b.ctx == x && !b.gone {
				g.free(b)
			}
		}
	}
	for h, o := range g.objects {
		m, isMember := o.(member)
		f, isFunction := o.(*function)
		if isMember && m.context() == x || isFunction && f.module.ctx == x {
			delete(g.objects, h)
		}
	}
	g.streams = slices.DeleteFunc(g.streams, func(s *stream) bool { return s.ctx == x })
}

// stop drops the context's queued work and waits for what runs. It is false if
// that does not end: the memory must then stay.
func (g *GPU) stop(x *context) bool {
	limit := time.After(g.closeLimit)
	for _, s := range g.streamsOf(x) {
		s.drop(cuda.ContextIsDestroyed)
		if len(s.queue) == 0 {
			continue
		}
		o := s.queue[0]
		g.mu.Unlock()
		select {
		case <-o.done:
			g.mu.Lock()
		case <-limit:
			g.mu.Lock()
			g.note("%s: still runs %v after its context ended; its memory stays", o.name, g.closeLimit)
			return false
		}
	}
	return true
}

// member is an object that lives in a context.
type member interface {
	context() *context
	fmt.Stringer
}

func (c *call) primaryState() cuda.Result {
	d, ok := c.device(0)
	if !ok {
		return cuda.InvalidDevice
	}
	var active uint32
	if d.primary != nil && !d.primary.dead {
		active = 1
	}
	c.put32(1, 0)
	c.put32(2, active)
	return cuda.Success
}

func (c *call) setCurrent() cuda.Result {
	h := c.ptr(0)
	if h == 0 {
		delete(c.current, unix.Gettid())
		return cuda.Success
	}
	if _, ok := object[*context](c.GPU, h); !ok {
		return cuda.InvalidContext
	}
	c.current[unix.Gettid()] = h
	return cuda.Success
}

func (c *call) getCurrent() cuda.Result {
	c.put64(0, uint64(c.current[unix.Gettid()]))
	return cuda.Success
}

// synchronize waits for all work of the current context.
func (c *call) synchronize() cuda.Result {
	c.drain(c.ctx)
	if r := c.settle(); r != cuda.Success {
		return r
	}
	for _, s := range c.streamsOf(c.ctx) {
		if r := s.takePending(); r != cuda.Success {
			return r
		}
	}
	return cuda.Success
}

// drain waits for the work that is queued in the context now.
func (g *GPU) drain(x *context) {
	var last []*op
	for _, s := range g.streamsOf(x) {
		if len(s.queue) > 0 {
			last = append(last, s.queue[len(s.queue)-1])
		}
	}
	g.wait(last...)
}

func (c *call) enablePeer() cuda.Result {
	peer, ok := object[*context](c.GPU, c.ptr(0))
	switch {
	case !ok || peer.dead:
		return cuda.InvalidContext
	case c.u32(1) != 0:
		return cuda.InvalidValue
	case peer.dev == c.ctx.dev || c.config.noPeer:
		return peerAccessUnsupported
	case c.ctx.peers[peer.dev]:
		return cuda.PeerAccessAlreadyEnabled
	}
	c.ctx.peers[peer.dev] = true
	return cuda.Success
}

// The driver's stream priorities.
const leastPriority, greatestPriority = 0, -5

func (c *call) priorityRange() cuda.Result {
	for i, p := range []int32{leastPriority, greatestPriority} {
		if c.ptr(i) >= lowest {
			c.put32(i, uint32(p))
		}
	}
	return cuda.Success
}
