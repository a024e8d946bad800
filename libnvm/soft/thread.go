package soft

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// thread is a service thread. It owns completion queues with their submission
// queues; others reach it through ask only.
//
// It and its queues fill whole pairs of cache lines: they change with every
// command, and the allocator lays the next thread's right beside them.
type thread struct {
	c        *Controller
	id       int
	sqs      []*submission
	cqs      []*completion
	channels []Channel // one for each namespace
	timers   timers
	gated    []*command
	done     []*Op
	working  int // operations with backends
	mailbox  chan func()
	waiting  atomic.Int32  // length of mailbox, cheap to look at
	ready    chan error    // whether the channels could be opened
	stopped  chan struct{} // closed when the thread has ended
	closeErr error         // of the channels, valid once stopped is closed
	counts   counts
	stats    statistics // of this thread, so that threads do not share a cache line
	clock    cpuClock
	// fastLimit is the most bytes of a command on the fast path, 0 when there is none.
	fastLimit uint64
	_         [8]byte
	lease     atomic.Pointer[lease] // wanted or granted, see Lend
}

// burst bounds the commands taken from one queue before the next gets its turn.
const burst = 64

// run is the service loop.
func (t *thread) run() {
	runtime.LockOSThread() // one thread of the system is one service thread; it ends with the goroutine
	defer close(t.stopped)
	defer t.c.threadEnded()
	t.clock.start()
	defer t.clock.stop()
	err := t.open()
	t.ready <- err
	if err != nil {
		return
	}
	defer func() { t.closeErr = errors.Join(t.closeErr, t.closeChannels()) }()
	setTimerSlack()
	var idle idler
	idle.reset()
	for t.c.ctx.Err() == nil {
		busy := t.sweep()
		t.counts.flush(&t.stats)
		if l := t.lease.Load(); l != nil && t.working == 0 {
			if t.lend(l); t.closeErr != nil {
				return
			}
			busy = true
		}
		if busy {
			idle.reset()
			continue
		}
		idle.wait(t)
	}
}

// threadEnded makes the controller gone when its last thread ends, since nobody
// serves it any more. No other thread reads the doorbells then.
func (c *Controller) threadEnded() {
	if c.serving.Add(-1) == 0 {
		c.showHalt(haltGone)
	}
}

// sweep looks at everything once and reports whether there was work.
func (t *thread) sweep() bool {
	busy := false
	for t.waiting.Load() > 0 {
		t.waiting.Add(-1)
		(<-t.mailbox)()
		busy = true
	}
	if t.id == 0 && t.c.control() {
		busy = true
	}
	if t.c.halted.Load() != haltNone {
		return busy
	}
	t.glance()
	for _, q := range t.sqs {
		if t.serve(q) {
			busy = true
		}
	}
	if t.reap() {
		busy = true
	}
	if t.release() {
		busy = true
	}
	return busy
}

// serve fetches and starts a burst of commands from one queue.
func (t *thread) serve(q *submission) bool {
	changed, bad := q.readTail()
	if bad != violationNone {
		t.c.violated(bad)
	}
	if q.head == q.tail {
		return changed
	}
	n := 0
	for q.head != q.tail && n < burst && len(q.free) > 0 && len(q.cq.backlog) == 0 {
		if t.fastLimit > 0 && q.id != 0 {
			if k := t.serveFast(q, burst-n); k > 0 {
				n += k
				continue
			}
		}
		t.begin(q.fetch())
		n++
	}
	return n > 0
}

// reap takes over what backends have finished.
func (t *thread) reap() bool {
	if t.working == 0 {
		return false
	}
	n := 0
	for _, ch := range t.channels {
		ch.Submit()
		t.done = ch.Reap(t.done[:0])
		for _, op := range t.done {
			t.working--
			op.cmd.sq.working--
			t.advance(op.cmd)
		}
		n += len(t.done)
	}
	return n > 0
}

// release posts completions whose time, turn or room has come.
func (t *thread) release() bool {
	busy := false
	if len(t.timers) > 0 {
		for now := t.c.now(); len(t.timers) > 0 && t.timers[0].due <= now; busy = true {
			t.hold(t.timers.pop())
		}
	}
	if len(t.gated) > 0 && t.openGates() {
		busy = true
	}
	for _, q := range t.cqs {
		if len(q.backlog) > 0 && t.retry(q) {
			busy = true
		}
		if len(q.held) > 0 && t.turn(q) {
			busy = true
		}
	}
	return busy
}

// ask runs f on the thread and waits for it. Only the control thread asks, so
// no two threads can wait for each other.
func (t *thread) ask(f func()) error {
	if t.id == 0 {
		f()
		return nil
	}
	done := make(chan struct{})
	t.mailbox <- func() { f(); close(done) }
	t.waiting.Add(1)
	select {
	case <-done:
		return nil
	case <-t.stopped:
		return errors.New("soft: the service thread has stopped")
	}
}

// settle waits until no backend has a command of q, so that no memory of the
// host is written any more. It runs on the thread.
func (t *thread) settle(q *submission) error {
	end := time.Now().Add(settleTimeout)
	for q.working > 0 {
		if !t.reap() {
			if time.Now().After(end) {
				return fmt.Errorf("soft: %d operations of queue %d still in progress after %v", q.working, q.id, settleTimeout)
			}
			nap(10 * time.Microsecond)
		}
	}
	return nil
}

const settleTimeout = 5 * time.Second

// counts are a thread's own, added to what others may read once a sweep.
type counts struct {
	reads, writes, readBytes, writeBytes, commands, errors uint64
	fast                                                   uint64 // of the commands
}

func (n *counts) flush(s *statistics) {
	if n.commands == 0 {
		return
	}
	s.reads.Add(n.reads)
	s.writes.Add(n.writes)
	s.readBytes.Add(n.readBytes)
	s.writeBytes.Add(n.writeBytes)
	s.commands.Add(n.commands)
	s.fast.Add(n.fast)
	s.errors.Add(n.errors)
	*n = counts{}
}

// open opens a channel to every namespace.
func (t *thread) open() error {
	for _, ns := range t.c.namespaces {
		ch, err := ns.backend.Open()
		if err != nil {
			return fmt.Errorf("soft: namespace %d: %w", ns.id, errors.Join(err, t.closeChannels()))
		}
		t.channels = append(t.channels, ch)
	}
	return nil
}

func (t *thread) closeChannels() error {
	var errs []error
	for _, ch := range t.channels {
		errs = append(errs, ch.Close())
	}
	t.channels = nil
	return errors.Join(errs...)
}
