package libnvm

import (
	"fmt"
	"math"
	"runtime"
	"time"
)

// expire ends every request whose deadline has passed at t. Its commands keep
// their ids and their memory until a reset: the controller may still use them.
func (q *QueuePair) expire(t int64) {
	if t < q.nextDeadline {
		return
	}
	if err := q.ctrl.health(fmt.Sprintf("queue %d", q.id)); err != nil {
		q.fail(err)
		return
	}
	q.nextDeadline = math.MaxInt64
	for i := range q.requests {
		r := &q.requests[i]
		if r.state != requestActive {
			continue
		}
		if r.deadline > t {
			q.nextDeadline = min(q.nextDeadline, r.deadline)
			continue
		}
		q.timeOut(int32(i), t)
	}
}

func (q *QueuePair) timeOut(i int32, t int64) {
	r := &q.requests[i]
	name := r.op.Name(q.id == 0)
	r.err = &TimeoutError{
		What:  fmt.Sprintf("%s, ticket %d, %d commands outstanding", name, r.ticket, r.inflight),
		After: time.Duration(t - r.begun), State: q.position(),
	}
	q.stats.TimedOut++
	q.abandon(i)
}

// abandon ends a request that has commands outstanding: they go into quarantine.
func (q *QueuePair) abandon(i int32) {
	q.drop(i)
	r := &q.requests[i]
	for k := range q.slots {
		s := &q.slots[k]
		if s.state != slotOutstanding || s.req != i {
			continue
		}
		s.state = slotQuarantined
		q.quarantined++
		q.outstanding--
		if s.mem != nil {
			s.mem.held.Add(1)
		}
	}
	r.inflight = 0
	q.end(i)
}

// fail ends every request with err, and the queue pair with them.
func (q *QueuePair) fail(err error) {
	q.broken = err
	q.endAll(err)
}

// cancelUnsent ends the request of which commands are still to be sent; what is
// outstanding of it may still complete first.
func (q *QueuePair) cancelUnsent(err error) {
	i := q.unsent
	if i == noRequest {
		return
	}
	q.drop(i)
	r := &q.requests[i]
	if r.err == nil {
		r.err = err
	}
	if r.inflight == 0 {
		q.end(i)
	}
}

// drain throws away completions that nobody will ask for.
func (q *QueuePair) drain() {
	var c Completion
	for q.done.n > 0 {
		q.deliver(q.done.pop(), &c)
	}
}

// endAll ends every active request with err; their commands go into quarantine.
func (q *QueuePair) endAll(err error) {
	for i := range q.requests {
		if q.requests[i].state == requestActive {
			q.requests[i].err = err
			q.abandon(int32(i))
		}
	}
	q.nextDeadline = math.MaxInt64
}

// release ends the quarantine, once the controller has no command any more.
func (q *QueuePair) release() {
	for k := range q.slots {
		s := &q.slots[k]
		if (s.state == slotQuarantined || s.state == slotLate) && s.mem != nil {
			s.mem.held.Add(-1)
		}
		s.mem, s.state = nil, slotFree
	}
	q.quarantined = 0
}

// Wait polls until the request with this ticket is done and returns its
// completion; others stay for Poll. A timeout above zero brings the request's
// deadline forward; zero or less leaves it. The error is Completion.Err, or ErrUnknownTicket.
func (q *QueuePair) Wait(ticket Ticket, timeout time.Duration) (Completion, error) {
	i := q.find(ticket)
	if i == noRequest {
		return Completion{Ticket: ticket}, ErrUnknownTicket
	}
	r := &q.requests[i]
	if timeout > 0 {
		r.deadline = min(r.deadline, after(now(), timeout))
		q.nextDeadline = min(q.nextDeadline, r.deadline)
	}
	var b backoff
	for r.state == requestActive {
		if q.reap(int(q.depth)) > 0 {
			b = backoff{}
		} else if b.wait() {
			q.checkHealth()
		}
	}
	q.done.remove(i)
	var c Completion
	q.deliver(i, &c)
	return c, c.Err
}

// Do submits one request and waits for it.
func (q *QueuePair) Do(r *Request) error {
	t, err := q.Submit(r)
	if err != nil {
		return err
	}
	_, err = q.Wait(t, 0)
	return err
}

// checkHealth looks at the controller's registers, so that a wait ends early
// when the controller is gone, and at the deadlines.
func (q *QueuePair) checkHealth() {
	if err := q.ctrl.health(fmt.Sprintf("queue %d", q.id)); err != nil {
		q.fail(err)
		return
	}
	q.expire(now())
}

// find is the request table's entry of a ticket.
func (q *QueuePair) find(t Ticket) int32 {
	for i := range q.requests {
		if r := &q.requests[i]; r.ticket == t && r.state != requestFree {
			return int32(i)
		}
	}
	return noRequest
}

// backoff is how a wait polls: it spins first, which costs the least latency,
// then lets other goroutines run, then sleeps, up to 100 us at a time.
type backoff struct {
	polls int
	sleep time.Duration
}

const (
	spinPolls   = 2000
	yieldPolls  = 2200
	firstSleep  = 10 * time.Microsecond
	longestWait = 100 * time.Microsecond
)

// wait makes one step. It returns true about every 10 ms, as a hint to look at
// what costs more than a poll.
func (b *backoff) wait() bool {
	b.polls++
	switch {
	case b.polls < spinPolls:
		return false
	case b.polls < yieldPolls:
		runtime.Gosched()
		return false
	}
	b.sleep = min(max(firstSleep, b.sleep*2), longestWait)
	time.Sleep(b.sleep)
	return b.polls%64 == 0
}
