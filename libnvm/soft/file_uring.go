package soft

import (
	"fmt"
	"time"

	"github.com/tritier/tritier/internal/uring"
	"github.com/tritier/tritier/libnvm"
)

// uringEntries is the size of a channel's ring. What does not fit waits in the
// channel's list.
const uringEntries = 256

// closeTimeout bounds how long Close waits for operations in flight.
const closeTimeout = 10 * time.Second

// uringChannel drives a File by io_uring. One thread of the system opens and
// uses it: the kernel then finishes operations when that thread asks for
// completions, without interrupting it for each.
type uringChannel struct {
	file     *File
	ring     *uring.Ring
	ops      []*fileOp // by token
	free     []uint64  // tokens of idle ops
	waiting  []uint64  // tokens that the ring had no room for, in order
	finished []*Op     // done outside the ring's completions
	out      [64]uring.Completion
	pushed   bool // the ring holds entries that Submit has to hand over
	broken   bool // the ring failed: every operation from now on fails
}

func newUringChannel(b *File) (*uringChannel, error) {
	ring, err := uring.New(uring.Options{Entries: uringEntries, OneThread: true})
	if err != nil {
		return nil, fmt.Errorf("soft: %s: %w", b.path, err)
	}
	return &uringChannel{file: b, ring: ring}, nil
}

// Start implements Channel.
func (c *uringChannel) Start(op *Op) bool {
	if c.broken {
		op.Status = libnvm.StatusInternalError
		return true
	}
	token := c.take()
	op.Token = token
	if c.ops[token].begin(op) {
		c.release(token)
		return true
	}
	c.issue(token)
	return false
}

// take returns the token of an idle op.
func (c *uringChannel) take() uint64 {
	if len(c.free) == 0 {
		c.ops = append(c.ops, &fileOp{file: c.file})
		return uint64(len(c.ops) - 1)
	}
	token := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	return token
}

func (c *uringChannel) release(token uint64) {
	c.ops[token].reset()
	c.free = append(c.free, token)
}

// issue puts the op's next request into the ring, or into the list when the
// ring is full or others wait already.
func (c *uringChannel) issue(token uint64) {
	if len(c.waiting) > 0 || !c.push(token) {
		c.waiting = append(c.waiting, token)
	}
}

// push returns false when the ring is full.
func (c *uringChannel) push(token uint64) bool {
	f, fd := c.ops[token], c.file.fd
	var err error
	switch f.next {
	case reqRead:
		if v := f.vector(); len(v) == 1 { // saves the kernel a copy of the vector
			err = c.ring.Read(fd, segmentBytes(&v[0]), f.off, token)
		} else {
			err = c.ring.ReadVec(fd, v, f.off, token)
		}
	case reqWrite:
		if v := f.vector(); len(v) == 1 {
			err = c.ring.Write(fd, segmentBytes(&v[0]), f.off, token)
		} else {
			err = c.ring.WriteVec(fd, v, f.off, token)
		}
	case reqSync:
		err = c.ring.Datasync(fd, token)
	case reqFallocate:
		err = c.ring.Fallocate(fd, f.mode, f.off, f.left, token)
	}
	if err == uring.ErrFull {
		return false
	}
	if err != nil {
		c.finish(token, 0, err)
		return true
	}
	c.pushed = true
	return true
}

// finish hands the result of a request to its op: the op is done, or goes on.
func (c *uringChannel) finish(token uint64, n int, err error) {
	f := c.ops[token]
	if !f.complete(n, err) {
		c.issue(token)
		return
	}
	c.finished = append(c.finished, f.op)
	c.release(token)
}

// Submit implements Channel.
func (c *uringChannel) Submit() {
	c.refill()
	if !c.pushed {
		return
	}
	c.pushed = false
	if err := c.ring.Submit(); err != nil {
		// The entries stay in the ring; the next Submit or Reap tries again.
		c.pushed = true
	}
}

func (c *uringChannel) refill() {
	for len(c.waiting) > 0 && c.push(c.waiting[0]) {
		c.waiting = c.waiting[1:]
	}
}

// Reap implements Channel.
func (c *uringChannel) Reap(done []*Op) []*Op {
	if c.pushed || c.ring.Pending() {
		c.reap(0)
	}
	done = append(done, c.finished...)
	clear(c.finished)
	c.finished = c.finished[:0]
	return done
}

// Await implements waiter.
func (c *uringChannel) Await(timeout time.Duration) bool {
	if c.ring.InFlight() == 0 || c.broken {
		return false
	}
	if len(c.finished) == 0 {
		c.reap(timeout)
	}
	return true
}

// reap takes completions, waiting up to timeout for the first, and returns how
// many there were.
func (c *uringChannel) reap(timeout time.Duration) int {
	n, err := c.ring.Wait(c.out[:], timeout)
	if err != nil {
		c.broken = true
	}
	for i := range c.out[:n] {
		c.finish(c.out[i].Token, c.out[i].N, c.out[i].Err)
	}
	if len(c.waiting) > 0 || c.pushed {
		c.Submit() // requests that go on, or found no room before
	}
	return n
}

// Close implements Channel.
func (c *uringChannel) Close() error {
	deadline := time.Now().Add(closeTimeout)
	for c.ring.InFlight() > 0 || len(c.waiting) > 0 {
		if c.broken || time.Now().After(deadline) {
			return fmt.Errorf("soft: %s: %d operations still in flight after %v; their memory stays in use",
				c.file.path, c.ring.InFlight()+len(c.waiting), closeTimeout)
		}
		c.Submit()
		c.reap(100 * time.Millisecond)
	}
	return c.ring.Close()
}
