package cudafake

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tritier/tritier/cuda"
)

// event marks a place in a stream. Its fields are protected by GPU.mu.
type event struct {
	ctx    *context
	handle uintptr
	timing bool
	mark   *op // the last record, nil before the first
}

func (e *event) context() *context { return e.ctx }

func (e *event) String() string { return fmt.Sprintf("event %#x", e.handle) }

// event is the one that argument i names.
func (c *call) event(i int) (*event, cuda.Result) {
	e, ok := object[*event](c.GPU, c.ptr(i))
	if !ok {
		c.note("%s: %#x is no event", c.symbol, c.ptr(i))
		return nil, cuda.InvalidHandle
	}
	return e, e.ctx.state()
}

func (c *call) eventCreate() cuda.Result {
	const blockingSync, disableTiming, interprocess = 1, 2, 4
	f := c.u32(1)
	if f&^(blockingSync|disableTiming|interprocess) != 0 || f&(disableTiming|interprocess) == interprocess {
		return cuda.InvalidValue
	}
	e := &event{ctx: c.ctx, timing: f&disableTiming == 0}
	e.handle = c.handle(e)
	c.put64(0, uint64(e.handle))
	return cuda.Success
}

func (c *call) eventDestroy() cuda.Result {
	e, r := c.event(0)
	if r != cuda.Success {
		return r
	}
	delete(c.objects, e.handle)
	return cuda.Success
}

func (c *call) eventRecord() cuda.Result {
	e, r := c.event(0)
	if r != cuda.Success {
		return r
	}
	s, r := c.stream(1)
	switch {
	case r != cuda.Success:
		return r
	case s.ctx != e.ctx:
		return cuda.InvalidHandle
	}
	e.mark = s.enqueue("record of "+e.String(), nil)
	return cuda.Success
}

func (c *call) eventQuery() cuda.Result {
	e, r := c.event(0)
	if r != cuda.Success {
		return r
	}
	if !e.mark.pending() {
		return cuda.Success
	}
	c.want(e.mark)
	c.poke()
	return cuda.NotReady
}

// eventElapsed gives the time between two records in ms, as a float.
func (c *call) eventElapsed() cuda.Result {
	from, r := c.event(1)
	if r != cuda.Success {
		return r
	}
	to, r := c.event(2)
	if r != cuda.Success {
		return r
	}
	switch {
	case !from.timing || !to.timing || from.mark == nil || to.mark == nil || from.ctx != to.ctx:
		return cuda.InvalidHandle
	case from.mark.pending() || to.mark.pending():
		return cuda.NotReady
	}
	ms := to.mark.finished.Sub(from.mark.finished).Seconds() * 1e3
	binary.NativeEndian.PutUint32(view(c.ptr(0), 4), math.Float32bits(float32(ms)))
	return cuda.Success
}

// streamWaitEvent makes what is queued from here on wait for the event's last
// record; an event that was never recorded holds nothing up.
func (c *call) streamWaitEvent() cuda.Result {
	s, r := c.stream(0)
	if r != cuda.Success {
		return r
	}
	e, r := c.event(1)
	if r != cuda.Success {
		return r
	}
	if e.mark.pending() {
		s.enqueue("wait for "+e.String(), nil, e.mark)
	}
	return cuda.Success
}
