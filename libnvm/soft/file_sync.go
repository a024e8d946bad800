package soft

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// syncChannel drives a File by preadv and pwritev on a few goroutines, where
// io_uring cannot be used. Start, Submit and Reap are its thread's; mu guards
// what the goroutines share with it.
type syncChannel struct {
	file    *File
	mu      sync.Mutex
	work    sync.Cond // signalled when queued grows or closed is set
	queued  []*fileOp
	done    []*Op
	idle    []*fileOp
	pending int // started and not yet reaped
	closed  bool
	batch   []*fileOp // started since the last Submit
	workers sync.WaitGroup
}

func newSyncChannel(b *File) *syncChannel {
	c := &syncChannel{file: b}
	c.work.L = &c.mu
	for range b.o.Workers {
		c.workers.Go(c.serve)
	}
	return c
}

// Start implements Channel.
func (c *syncChannel) Start(op *Op) bool {
	f := c.take()
	if f.begin(op) {
		f.reset()
		c.mu.Lock()
		c.idle = append(c.idle, f)
		c.mu.Unlock()
		return true
	}
	c.batch = append(c.batch, f)
	return false
}

func (c *syncChannel) take() *fileOp {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.idle); n > 0 {
		f := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return f
	}
	return &fileOp{file: c.file}
}

// Submit implements Channel.
func (c *syncChannel) Submit() {
	if len(c.batch) == 0 {
		return
	}
	c.mu.Lock()
	c.queued = append(c.queued, c.batch...)
	c.pending += len(c.batch)
	c.mu.Unlock()
	if len(c.batch) == 1 {
		c.work.Signal()
	} else {
		c.work.Broadcast()
	}
	clear(c.batch)
	c.batch = c.batch[:0]
}

// Reap implements Channel.
func (c *syncChannel) Reap(done []*Op) []*Op {
	c.mu.Lock()
	defer c.mu.Unlock()
	done = append(done, c.done...)
	c.pending -= len(c.done)
	clear(c.done)
	c.done = c.done[:0]
	return done
}

// serve is one worker goroutine.
func (c *syncChannel) serve() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for len(c.queued) == 0 && !c.closed {
			c.work.Wait()
		}
		if len(c.queued) == 0 {
			return
		}
		f := c.queued[0]
		c.queued = c.queued[1:]
		c.mu.Unlock()
		f.run()
		op := f.op
		f.reset()
		c.mu.Lock()
		c.done = append(c.done, op)
		c.idle = append(c.idle, f)
	}
}

// run performs the op's requests one after the other.
func (f *fileOp) run() {
	for !f.complete(f.call()) {
	}
}

// call makes the system call that next asks for.
func (f *fileOp) call() (int, error) {
	fd := f.file.fd
	switch f.next {
	case reqRead:
		return preadv(fd, f.vector(), f.off)
	case reqWrite:
		return pwritev(fd, f.vector(), f.off)
	case reqSync:
		return 0, unix.Fdatasync(fd)
	default:
		return 0, unix.Fallocate(fd, f.mode, f.off, f.left)
	}
}

// Close implements Channel.
func (c *syncChannel) Close() error {
	c.Submit()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.work.Broadcast()
	stopped := make(chan struct{})
	go func() {
		c.workers.Wait()
		close(stopped)
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-stopped:
		return nil
	case <-timer.C:
		return fmt.Errorf("soft: %s: operations still in flight after %v; their memory stays in use", c.file.path, closeTimeout)
	}
}
