package volume

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Request is one page of a batch.
type Request struct {
	Array  *Array
	Page   uint64 // in the array
	Write  bool
	Mem    *Memory
	Offset int   // where in Mem the page is, a multiple of 4
	Err    error // the result, set before the batch is done; nil is success
}

// Batch is a set of requests that was started together.
type Batch struct {
	reqs     []Request
	left     int
	deadline time.Time
}

// Done says whether every request has its result.
func (b *Batch) Done() bool { return b.left == 0 }

// Err joins the results of a batch that is done; nil when all succeeded.
func (b *Batch) Err() error {
	var errs []error
	for i := range b.reqs {
		if b.reqs[i].Err != nil {
			errs = append(errs, b.reqs[i].Err)
		}
	}
	return errors.Join(errs...)
}

// Queue moves pages. It is passive: nothing moves unless Poll or Wait is
// called. One goroutine at a time may use it; different queues are independent.
//
// Two requests for the same page, of which one is a write, must not be in
// flight at once, nor may a buffer change while it is written.
type Queue struct {
	v       *Volume
	members []memberQueue
	flights []*flight // by id
	free    []uint32
	done    []Done
	intents []intent
	closed  bool
}

// memberQueue is the queue to one member and what waits for room in it.
type memberQueue struct {
	q       MemberQueue
	backlog []*flight // in order
}

// flight is a request that has no result yet.
type flight struct {
	batch  *Batch
	req    *Request
	page   uint64 // of the volume
	offset int64
	sum    uint64 // of a write, on a volume with checksums
	member int
	id     uint32
}

// lostMember is the queue of a member that is lost.
type lostMember struct{ err error }

func (l lostMember) Submit(*Op) error { return l.err }
func (l lostMember) Poll([]Done) int  { return 0 }
func (l lostMember) Held() int        { return 0 }
func (l lostMember) Close() error     { return nil }

// maxFlights bounds the requests that a queue holds, sent or waiting.
const maxFlights = 1 << 20

// OpenQueue makes a queue with depth commands in flight on each member.
func (v *Volume) OpenQueue(depth int) (*Queue, error) { return v.OpenQueueWithout(depth, nil) }

// OpenQueueWithout is OpenQueue for a volume of which members are lost, that for which
// lost returns an error: requests for their pages end with it, and they are not asked for
// a queue. A nil function names none.
func (v *Volume) OpenQueueWithout(depth int, lost func(member int) error) (*Queue, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, ErrClosed
	}
	q := &Queue{v: v, done: make([]Done, 64)}
	for i, m := range v.members {
		if lost != nil {
			if err := lost(i); err != nil {
				q.members = append(q.members, memberQueue{q: lostMember{err}})
				continue
			}
		}
		mq, err := m.OpenQueue(depth)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("volume: %s: open a queue: %w", m.Name(), err), q.closeMembers())
		}
		q.members = append(q.members, memberQueue{q: mq})
	}
	v.queues++
	return q, nil
}

// Start begins the requests, each of one page. Those that are wrong in
// themselves get their result at once. Requests and their memory belong to the
// queue until the batch is done. The timeout, above zero, counts from now.
//
// On a volume with checksums Start first makes the intent to write durable: one
// write with FUA for the batch, and at times a checkpoint. Large batches share
// that cost. An error means that nothing was started.
func (q *Queue) Start(reqs []Request, timeout time.Duration) (*Batch, error) {
	if q.closed {
		return nil, ErrClosed
	}
	if timeout <= 0 {
		return nil, fmt.Errorf("volume: a batch needs a timeout above zero, not %v", timeout)
	}
	if len(reqs) > maxFlights-(len(q.flights)-len(q.free)) {
		return nil, fmt.Errorf("volume: %d requests at once, a queue holds %d: %w", len(reqs), maxFlights, ErrBusy)
	}
	b := &Batch{reqs: reqs, deadline: time.Now().Add(timeout)}
	for i := range reqs {
		reqs[i].Err = q.refuse(&reqs[i])
	}
	if q.v.Checksums() {
		if err := q.announce(reqs); err != nil {
			return nil, err
		}
	}
	k := 0
	for i := range reqs {
		r := &reqs[i]
		if r.Err != nil {
			continue
		}
		f := q.take()
		f.batch, f.req, f.page = b, r, r.Array.info.First+r.Page
		f.member, f.offset = q.v.locate(f.page)
		if r.Write && q.v.Checksums() {
			f.sum = q.intents[k].sum
			k++
		}
		b.left++
		m := &q.members[f.member]
		m.backlog = append(m.backlog, f)
	}
	q.push()
	return b, nil
}

// refuse is check, and refuses writes of fenced pages.
func (q *Queue) refuse(r *Request) error {
	if err := q.check(r); err != nil || !r.Write {
		return err
	}
	if q.v.readOnly {
		return ErrReadOnly
	}
	return q.v.fenceOf(r.Array.info.First + r.Page)
}

// check refuses a request that no member should see.
func (q *Queue) check(r *Request) error {
	size := q.v.PageSize()
	switch {
	case r.Array == nil || r.Array.v != q.v:
		return errors.New("volume: a request without an array of this volume")
	case r.Array.gone.Load():
		return fmt.Errorf("volume: array %q: %w", r.Array.info.Name, ErrClosed)
	case r.Page >= r.Array.info.Pages:
		return fmt.Errorf("volume: page %d of array %q, which has %d", r.Page, r.Array.info.Name, r.Array.info.Pages)
	case r.Mem == nil || r.Offset < 0 || r.Offset%4 != 0 || r.Offset > len(r.Mem.buf)-size:
		return fmt.Errorf("volume: page %d of array %q: its memory has no %d bytes at offset %d", r.Page, r.Array.info.Name, size, r.Offset)
	}
	return nil
}

func (r *Request) data(size int) []byte { return r.Mem.buf[r.Offset : r.Offset+size] }

// announce computes the checksums of the batch's writes, in order, and logs the
// intents.
func (q *Queue) announce(reqs []Request) error {
	v := q.v
	q.intents = q.intents[:0]
	for i := range reqs {
		if r := &reqs[i]; r.Write && r.Err == nil {
			q.intents = append(q.intents, intent{r.Array.info.First + r.Page, v.sum(r.data(v.PageSize()))})
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return ErrClosed
	}
	q.loadSums(reqs)
	if len(q.intents) == 0 {
		return nil
	}
	return v.announce(q.intents)
}

// loadSums loads the table blocks of the intents. Where one cannot be read, its
// requests get their result, and their intents go. Needs v.mu.
func (q *Queue) loadSums(reqs []Request) {
	all := q.intents
	q.intents = all[:0]
	for i := range reqs {
		r := &reqs[i]
		if !r.Write || r.Err != nil {
			continue
		}
		e := all[0]
		all = all[1:]
		ref, _ := q.v.blockOf(e.page)
		if _, err := q.v.block(ref); err != nil {
			r.Err = &PageError{r.Array.info.Name, r.Page, true, q.v.members[ref.member].Name(), err}
			continue
		}
		q.intents = append(q.intents, e)
	}
}

// take gives out a flight.
func (q *Queue) take() *flight {
	if len(q.free) == 0 {
		f := &flight{id: uint32(len(q.flights))}
		q.flights = append(q.flights, f)
		return f
	}
	id := q.free[len(q.free)-1]
	q.free = q.free[:len(q.free)-1]
	return q.flights[id]
}

// push sends what waits, as far as the members have room.
func (q *Queue) push() {
	for i := range q.members {
		m := &q.members[i]
		n := 0
		for n < len(m.backlog) && q.send(m, i, m.backlog[n]) {
			n++
		}
		rest := copy(m.backlog, m.backlog[n:])
		clear(m.backlog[rest:])
		m.backlog = m.backlog[:rest]
	}
}

// send returns false when the member has no room.
func (q *Queue) send(m *memberQueue, member int, f *flight) bool {
	left := time.Until(f.batch.deadline)
	if left <= 0 {
		q.finish(f, ErrDeadline)
		return true
	}
	op := Op{Kind: OpRead, Offset: f.offset, Length: int64(q.v.label.PageSize), Mem: f.req.Mem.maps[member],
		MemOffset: f.req.Offset, Timeout: left, Tag: uint64(f.id)}
	if f.req.Write {
		op.Kind = OpWrite
	}
	err := m.q.Submit(&op)
	if errors.Is(err, ErrQueueFull) {
		return false
	}
	if err != nil {
		q.finish(f, err)
	}
	return true
}

// finish gives a request its result.
func (q *Queue) finish(f *flight, err error) {
	r := f.req
	if r.Write && mayLand(r.Mem.maps[f.member], err) {
		q.v.fence(f)
	}
	if q.v.Checksums() {
		err = q.account(f, err)
	}
	if err != nil {
		r.Err = q.explain(f, err)
	}
	f.batch.left--
	f.batch, f.req = nil, nil
	q.free = append(q.free, f.id)
}

// explain adds which page it was, where the error does not say so itself.
func (q *Queue) explain(f *flight, err error) error {
	switch err.(type) {
	case *CorruptPageError, *TornPageError, *ChecksumTableError:
		return err
	}
	r := f.req
	return &PageError{r.Array.info.Name, r.Page, r.Write, q.v.members[f.member].Name(), err}
}

// account records the checksum of a page that was written, or verifies that of
// a page that was read.
func (q *Queue) account(f *flight, err error) error {
	v, r := q.v, f.req
	if r.Write {
		v.mu.Lock()
		defer v.mu.Unlock()
		return errors.Join(err, v.settle(f.page, f.sum, err))
	}
	if err != nil {
		return err
	}
	got := v.sum(r.data(v.PageSize()))
	v.mu.Lock()
	defer v.mu.Unlock()
	verdict, want, err := v.verify(f.page, got)
	switch {
	case err != nil:
		return err
	case verdict == pageTorn:
		return &TornPageError{r.Array.info.Name, r.Page}
	case verdict == pageCorrupt:
		return &CorruptPageError{r.Array.info.Name, r.Page, v.members[f.member].Name(), f.offset, want, got}
	}
	return nil
}

// Poll moves things on without waiting: it takes what members have completed
// and sends what waits. It returns how many requests got their result.
func (q *Queue) Poll() int {
	n := 0
	for i := range q.members {
		for {
			k := q.members[i].q.Poll(q.done)
			for _, d := range q.done[:k] {
				if d.Tag < uint64(len(q.flights)) && q.flights[d.Tag].batch != nil {
					q.finish(q.flights[d.Tag], d.Err)
					n++
				}
			}
			if k < len(q.done) {
				break
			}
		}
	}
	q.push()
	return n
}

// stuckAfter is how long after a batch's deadline its members may take to end it.
const stuckAfter = 10 * time.Second

// Wait polls until b is done or ctx ends. In the latter case the batch goes on
// and must be waited for again: its memory is in use until it is done, at its
// deadline at the latest. ErrStuck says that a member did not keep it.
func (q *Queue) Wait(ctx context.Context, b *Batch) error {
	for idle := (idler{}); !b.Done(); {
		if q.Poll() > 0 {
			idle = idler{}
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Since(b.deadline) > stuckAfter {
			return ErrStuck
		}
		idle.pause()
	}
	return b.Err()
}

// idler is how Wait passes the time while nothing completes: it yields first,
// since a sleep lasts longer than a fast drive takes, then sleeps.
type idler struct{ since time.Time }

const (
	yieldFor  = 60 * time.Microsecond
	idleSleep = 50 * time.Microsecond // at most
)

func (i *idler) pause() {
	if i.since.IsZero() {
		i.since = time.Now()
	}
	idle := time.Since(i.since)
	if idle < yieldFor {
		runtime.Gosched()
		return
	}
	time.Sleep(min(idle/8, idleSleep))
}

// Run starts a batch and waits for it to its end: a context that is cancelled
// shortens the deadline of nothing, but is reported once the batch is done.
func (q *Queue) Run(ctx context.Context, reqs []Request, timeout time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b, err := q.Start(reqs, timeout)
	if err != nil {
		return err
	}
	return errors.Join(q.Wait(context.WithoutCancel(ctx), b), ctx.Err())
}

// Idle says whether every batch is done.
func (q *Queue) Idle() bool { return len(q.free) == len(q.flights) }

// Close gives the queue back. Every batch must be done.
func (q *Queue) Close() error {
	if q.closed {
		return nil
	}
	if !q.Idle() {
		return ErrBusy
	}
	q.closed = true
	q.v.mu.Lock()
	q.v.queues--
	q.v.mu.Unlock()
	return q.closeMembers()
}

func (q *Queue) closeMembers() error {
	var errs []error
	for _, m := range q.members {
		errs = append(errs, m.q.Close())
	}
	return errors.Join(errs...)
}
