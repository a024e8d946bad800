package soft

import (
	"slices"
	"time"
	"unsafe"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/internal/mmio"
)

// timers is a heap of commands by due time.
type timers []*command

func (h *timers) push(c *command) {
	*h = append(*h, c)
	s := *h
	for i := len(s) - 1; i > 0; {
		p := (i - 1) / 2
		if s[p].due <= s[i].due {
			break
		}
		s[p], s[i] = s[i], s[p]
		i = p
	}
}

func (h *timers) pop() *command {
	s := *h
	c := s[0]
	last := len(s) - 1
	s[0] = s[last]
	s[last] = nil
	*h = s[:last]
	s = s[:last]
	for i := 0; ; {
		k := 2*i + 1
		if k >= last {
			return c
		}
		if k+1 < last && s[k+1].due < s[k].due {
			k++
		}
		if s[i].due <= s[k].due {
			return c
		}
		s[i], s[k] = s[k], s[i]
		i = k
	}
}

// remove takes out the commands for which drop is true.
func (h *timers) remove(drop func(*command) bool) {
	var keep timers
	for len(*h) > 0 {
		if c := h.pop(); !drop(c) {
			keep.push(c)
		}
	}
	*h = keep
}

// holdLimit is how long a held completion waits for its turn at most.
const holdLimit = 5 * time.Millisecond

// finish ends a command: its result is fixed, its completion may have to wait.
func (t *thread) finish(c *command) {
	t.counts.commands++
	c.state = cmdWaiting
	f := &c.fault
	if f.Fatal || f.Gone {
		t.c.halt(f.Gone)
	}
	switch {
	case f.Drop || f.Fatal || f.Gone:
		c.state = cmdDropped
	case f.Gate != nil:
		t.gated = append(t.gated, c)
	default:
		t.wait(c)
	}
}

// wait lets a completion wait for its time, if that is still to come.
func (t *thread) wait(c *command) {
	if c.due > 0 && c.due > t.c.now() {
		t.timers.push(c)
	} else {
		t.hold(c)
	}
}

// hold posts a completion, unless a fault makes it wait for later ones.
func (t *thread) hold(c *command) {
	if c.fault.Hold == 0 {
		t.post(c)
		return
	}
	q := c.sq.cq
	c.turn, c.due = q.posted+uint64(c.fault.Hold), t.c.now()+holdLimit
	q.held = append(q.held, c)
}

// openGates lets completions go on whose gates are all open.
func (t *thread) openGates() bool {
	n := 0
	t.gated = slices.DeleteFunc(t.gated, func(c *command) bool {
		if !c.fault.open() {
			return false
		}
		t.wait(c)
		n++
		return true
	})
	return n > 0
}

// turn posts held completions whose turn has come.
func (t *thread) turn(q *completion) bool {
	now, n := t.c.now(), 0
	var keep []*command
	for _, c := range q.held {
		if q.posted < c.turn && now < c.due {
			keep = append(keep, c)
			continue
		}
		t.post(c)
		n++
	}
	q.held = keep
	return n > 0
}

// post writes a command's completion, and its duplicates, or puts it into the
// backlog when the host has left no room.
func (t *thread) post(c *command) {
	q := c.sq.cq
	if len(q.backlog) > 0 || !t.hasRoom(q) {
		q.backlog = append(q.backlog, c)
		return
	}
	t.write(c)
	c.sq.recycle(c)
}

func (t *thread) write(c *command) {
	s := c.sq
	if !c.fault.StaleHead {
		s.reported = s.head
	}
	field := uint32(c.status)
	if c.status != libnvm.StatusSuccess {
		t.counts.errors++
		t.c.logError(c)
		if c.fault.DNR {
			field |= 1 << 14
		}
	}
	s.cq.post(c.dw0, s.reported|uint32(s.id)<<16, c.sqe.CID, field, c.fault.Torn)
	for range c.fault.Duplicates {
		if t.hasRoom(s.cq) {
			s.cq.post(c.dw0, s.reported|uint32(s.id)<<16, c.sqe.CID, field, false)
		}
	}
}

func (t *thread) hasRoom(q *completion) bool {
	ok, bad := q.room()
	if bad != violationNone {
		t.c.violated(bad)
	}
	return ok
}

// retry posts what is in the backlog of a queue, as far as there is room.
func (t *thread) retry(q *completion) bool {
	n := 0
	for n < len(q.backlog) && t.hasRoom(q) {
		c := q.backlog[n]
		t.write(c)
		c.sq.recycle(c)
		n++
	}
	q.backlog = append(q.backlog[:0], q.backlog[n:]...)
	return n > 0
}

// tornPause is long enough for a polling host to look in between.
const tornPause = 20 * time.Microsecond

// postTorn writes an entry dword by dword, as slowly as a host can notice.
func postTorn(e *entry, dw0, dw2, dw3 uint32) {
	for _, w := range []struct {
		p *uint32
		v uint32
	}{{&e.dw0, dw0}, {&e.dw1, 0}, {&e.dw2, dw2}, {&e.dw3, dw3}} {
		nap(tornPause)
		mmio.Store32(w.p, w.v)
	}
}

// flipBit corrupts the data of a read, as a failing drive or link would.
func flipBit(c *command) {
	if len(c.op.Segments) > 0 && c.op.Segments[0].Len > 0 {
		s := c.op.Segments[0]
		b := unsafe.Slice(s.Base, s.Len)
		b[len(b)/2] ^= 0x10
	}
}
