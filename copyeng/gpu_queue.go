package copyeng

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/tritier/tritier/cuda"
)

// maxStart is how many pages are put into a stream at a time: what bounds the
// lists in pinned memory and the scratch of a batched call.
const maxStart = 16 << 10

// gpuQueue is a Queue on a stream. Side streams, events and lists are made when
// a path first needs them.
type gpuQueue struct {
	engine *GPU
	stream *cuda.Stream
	own    bool // the stream is closed with the queue

	mu     sync.Mutex // one call at a time: what follows is scratch of a call
	closed bool
	calls  [submitters]cuda.CopyBatch // one for each goroutine that starts
	inline pairList
	lists  listRing
	fork   *cuda.Event
	sides  []sideStream
}

// sideStream carries part of a batch beside the queue's stream.
type sideStream struct {
	stream *cuda.Stream
	done   *cuda.Event
}

// Copy starts a batch by the path that the chooser takes.
func (q *gpuQueue) Copy(b *Batch) (Choice, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.admit(b); err != nil {
		return Choice{}, err
	}
	return q.copy(b)
}

// admit refuses what must not be started.
func (q *gpuQueue) admit(b *Batch) error {
	if q.closed {
		return fmt.Errorf("copy queue: %w", ErrClosed)
	}
	if b == nil {
		return &BatchError{"batch", "is missing"}
	}
	return b.check(q.engine)
}

// force is Copy by a path that the caller takes.
func (q *gpuQueue) force(p Path, b *Batch) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.admit(b); err != nil {
		return err
	}
	return q.startAll(p, b)
}

func (q *gpuQueue) copy(b *Batch) (Choice, error) {
	if len(b.Pairs) == 0 {
		return Choice{Path: PathNone, Dir: b.Dir, Page: b.PageSize, Source: "nothing to copy"}, nil
	}
	c := q.engine.choose(b.Dir, b.PageSize, len(b.Pairs))
	return c, q.startAll(c.Path, b)
}

// startAll starts a batch of any size.
func (q *gpuQueue) startAll(p Path, b *Batch) error {
	part := *b
	for rest := b.Pairs; len(rest) > 0; {
		n := min(len(rest), maxStart)
		part.Pairs, rest = rest[:n], rest[n:]
		if err := q.start(p, &part); err != nil {
			return q.failed(p, b, err)
		}
	}
	q.engine.counter.add(b.Dir, p, len(b.Pairs), b.PageSize)
	return nil
}

// failed says what failed. Part of the batch may be in flight.
func (q *gpuQueue) failed(p Path, b *Batch, err error) error {
	return fmt.Errorf("copy %d pages of %d bytes %s by %s on %s: %w", len(b.Pairs), b.PageSize, b.Dir, p, q.engine.Name(), err)
}

// start puts at most maxStart pages into the stream.
func (q *gpuQueue) start(p Path, b *Batch) error {
	switch p {
	case PathMemcpy:
		return q.memcpy(b)
	case PathBatch:
		return q.batch(&q.calls[0], q.stream, b, b.Pairs)
	case PathBatch2:
		return q.spread(b, 2)
	case PathBatch4:
		return q.spread(b, 4)
	case PathZeroCopy:
		return q.kernel(b, b.Pairs)
	case PathHybrid25:
		return q.hybrid(b, 25)
	case PathHybrid50:
		return q.hybrid(b, 50)
	}
	return fmt.Errorf("no path %q", p)
}

// Exchange starts both batches together.
func (q *gpuQueue) Exchange(in, out *Batch) (Choice, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := errors.Join(q.admit(in), q.admit(out)); err != nil {
		return Choice{}, err
	}
	if in.Dir != ToDevice || out.Dir != ToHost {
		return Choice{}, &BatchError{"direction", "an exchange takes a batch to the device and one to the host"}
	}
	if len(in.Pairs) == 0 {
		return q.copy(out)
	}
	if len(out.Pairs) == 0 {
		return q.copy(in)
	}
	c := q.engine.choose(bothWays, max(in.PageSize, out.PageSize), max(len(in.Pairs), len(out.Pairs)))
	if c.Path == PathSequential {
		if _, err := q.copy(out); err != nil {
			return c, err
		}
		_, err := q.copy(in)
		return c, err
	}
	return c, q.exchange(c.Path, in, out)
}

// exchange starts both batches, in as many launches as the longer one needs.
func (q *gpuQueue) exchange(p Path, in, out *Batch) error {
	part := q.exchangeKernel
	if p == PathTwoBatches {
		part = q.exchangeBatches
	}
	turns := (max(len(in.Pairs), len(out.Pairs)) + maxStart - 1) / maxStart
	for i := range turns {
		a, b := *in, *out
		a.Pairs, b.Pairs = share(in.Pairs, i, turns), share(out.Pairs, i, turns)
		if err := part(&a, &b); err != nil {
			return fmt.Errorf("exchange %d pages of %d bytes in, %d of %d out on %s: %w",
				len(in.Pairs), in.PageSize, len(out.Pairs), out.PageSize, q.engine.Name(), err)
		}
		q.engine.counter.add(ToDevice, p, len(a.Pairs), a.PageSize)
		q.engine.counter.add(ToHost, p, len(b.Pairs), b.PageSize)
	}
	return nil
}

// share is the i-th of n parts of a list.
func share(p []Pair, i, n int) []Pair { return p[len(p)*i/n : len(p)*(i+1)/n] }

// Wait waits for the stream, hence for side streams, which it waits for.
func (q *gpuQueue) Wait(ctx context.Context) error {
	// The lock is not held: a wait must not keep others from starting copies.
	q.mu.Lock()
	closed := q.closed
	q.mu.Unlock()
	if closed {
		return fmt.Errorf("copy queue: %w", ErrClosed)
	}
	if err := q.stream.Wait(ctx); err != nil {
		return fmt.Errorf("copy queue on %s: %w", q.engine.Name(), err)
	}
	return nil
}

// Close waits for what is in flight and releases the queue. If that does not
// end in time the queue stays open, and can be waited for or closed again.
func (q *gpuQueue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	err := q.stream.Wait(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("close copy queue: %w", err)
	}
	q.closed = true
	q.engine.mu.Lock()
	delete(q.engine.queues, q)
	q.engine.mu.Unlock()
	errs := []error{err, q.lists.close()}
	for _, s := range q.sides {
		errs = append(errs, s.done.Close(), s.stream.Close())
	}
	if q.fork != nil {
		errs = append(errs, q.fork.Close())
	}
	if q.own {
		errs = append(errs, q.stream.Close())
	}
	return errors.Join(errs...)
}

// shiftOf is log2 of the page size.
func shiftOf(b *Batch) int { return bits.TrailingZeros(uint(b.PageSize)) }
