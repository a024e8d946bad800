package copyeng

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

const (
	// hostDepth bounds the batches in a queue; Copy waits for room beyond it.
	hostDepth = 64
	// hostErrors bounds the errors kept for Wait; the others are counted.
	hostErrors = 16
)

// hostQueue is a queue of the Host engine. A goroutine of its own carries the
// jobs out, first to last.
type hostQueue struct {
	host  *Host
	ended chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex    // protects what follows; held for moments only
	work    sync.Cond     // a job was added, or closed was set
	jobs    [][]Batch     // those in flight; the first is running
	started uint64        // jobs ever added
	done    uint64        // jobs ever finished
	closed  bool          // no further jobs
	errs    []error       // of failed batches that nobody has been told about
	omitted int           // errors beyond hostErrors
	changed chan struct{} // closed at the next change of done; nil if nobody waits
}

func newHostQueue(h *Host) *hostQueue {
	q := &hostQueue{host: h, ended: make(chan struct{})}
	q.work.L = &q.mu
	go q.run()
	return q
}

// Copy starts a batch. It waits while hostDepth batches are in flight, for at
// most closeWait.
func (q *hostQueue) Copy(b *Batch) (Choice, error) {
	if err := b.checkFor(q.host); err != nil {
		return Choice{}, err
	}
	c := q.host.Choose(b.Dir, b.PageSize, len(b.Pairs))
	return c, q.start(*b)
}

// Exchange starts a batch each way.
func (q *hostQueue) Exchange(in, out *Batch) (Choice, error) {
	for i, b := range []*Batch{in, out} {
		if err := b.checkFor(q.host); err != nil {
			return Choice{}, err
		}
		if b.Dir != Direction(i) {
			return Choice{}, &BatchError{"direction", fmt.Sprintf("batch %d of an exchange goes %s; the first goes to the device, the second to the host", i+1, b.Dir)}
		}
	}
	if len(in.Pairs) == 0 {
		return q.Copy(out)
	}
	if len(out.Pairs) == 0 {
		return q.Copy(in)
	}
	c := q.host.Choose(ToDevice, max(in.PageSize, out.PageSize), max(len(in.Pairs), len(out.Pairs)))
	c.Dir = bothWays
	return c, q.start(*in, *out)
}

// checkFor is check for a batch that may be missing.
func (b *Batch) checkFor(h *Host) error {
	if b == nil {
		return &BatchError{"batch", "is missing"}
	}
	return b.check(h)
}

// start adds a job. Batches without pages need no turn in the queue.
func (q *hostQueue) start(batches ...Batch) error {
	batches = slices.DeleteFunc(batches, func(b Batch) bool { return len(b.Pairs) == 0 })
	for i := range batches {
		batches[i].Pairs = slices.Clone(batches[i].Pairs) // they are the caller's again when Copy returns
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.room(); err != nil || len(batches) == 0 {
		return err
	}
	q.jobs = append(q.jobs, batches)
	q.started++
	q.work.Signal()
	for _, b := range batches {
		q.host.counter.add(b.Dir, PathMemory, len(b.Pairs), b.PageSize)
	}
	return nil
}

// room waits until a job may be added. q.mu is held.
func (q *hostQueue) room() error {
	full := func() bool { return !q.closed && len(q.jobs) >= hostDepth }
	if full() {
		ctx, cancel := context.WithTimeout(context.Background(), q.host.patience)
		defer cancel()
		if err := q.await(ctx, func() bool { return !full() }); err != nil {
			return fmt.Errorf("copy queue: full for %v, nothing was started: %w", q.host.patience, err)
		}
	}
	if q.closed {
		return fmt.Errorf("copy queue: %w", ErrClosed)
	}
	return nil
}

// Wait waits for all that was started before the call; what is done already
// counts as done also if ctx has ended. The errors of failed batches are given
// to one caller, once; a call that fails by its context leaves them to the
// next. After Close it fails with ErrClosed.
func (q *hostQueue) Wait(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.drain(ctx); err != nil {
		return err
	}
	err := q.takeErrors()
	if q.closed {
		err = errors.Join(err, fmt.Errorf("copy queue: %w", ErrClosed))
	}
	return err
}

// Close lets what is in flight finish. When that takes longer than closeWait
// it fails, and may be called again to wait further.
func (q *hostQueue) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), q.host.patience)
	defer cancel()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.work.Signal()
	if q.changed != nil { // whoever waits for room learns of it
		close(q.changed)
		q.changed = nil
	}
	if err := q.drain(ctx); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	err := q.takeErrors()
	q.mu.Unlock() // the goroutine takes it once more; Host.mu is never taken under it
	<-q.ended
	q.host.forget(q)
	q.mu.Lock()
	return err
}

// forget drops a closed queue.
func (h *Host) forget(q *hostQueue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.queues, q)
}

// drain waits for what has been started so far. q.mu is held.
func (q *hostQueue) drain(ctx context.Context) error {
	last := q.started
	if err := q.await(ctx, func() bool { return q.done >= last }); err != nil {
		return fmt.Errorf("copy queue: %d batches or exchanges still in flight: %w", len(q.jobs), err)
	}
	return nil
}

// await waits until ok holds or ctx ends. q.mu is held at its begin and end,
// and whenever ok is called.
func (q *hostQueue) await(ctx context.Context, ok func() bool) error {
	for !ok() {
		if q.changed == nil {
			q.changed = make(chan struct{})
		}
		changed := q.changed
		q.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = ctx.Err()
		}
		q.mu.Lock()
		if err != nil && !ok() {
			return err
		}
	}
	return nil
}

// takeErrors hands out the kept errors. q.mu is held.
func (q *hostQueue) takeErrors() error {
	if q.omitted > 0 {
		q.errs = append(q.errs, fmt.Errorf("copy queue: %d further batches failed", q.omitted))
	}
	err := errors.Join(q.errs...)
	q.errs, q.omitted = nil, 0
	return err
}

// run is the queue's goroutine: it ends when the queue is closed and empty.
func (q *hostQueue) run() {
	defer close(q.ended)
	for {
		job := q.next()
		if job == nil {
			return
		}
		q.finish(q.host.carryOut(job))
	}
}

// next waits for a job, which stays at the head of the list while it runs; nil
// means that there will be none.
func (q *hostQueue) next() []Batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.jobs) == 0 {
		if q.closed {
			return nil
		}
		q.work.Wait()
	}
	return q.jobs[0]
}

func (q *hostQueue) finish(errs []error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.jobs[0] = nil
	q.jobs = q.jobs[1:]
	q.done++
	kept := min(len(errs), hostErrors-len(q.errs))
	q.errs = append(q.errs, errs[:kept]...)
	q.omitted += len(errs) - kept
	if q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
}
