package copyeng

import (
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
//
// Locks: mu is held while copies are started, which may wait for room in the
// ring of lists, and while the queue is closed; state for moments only, so that
// Wait comes back in time whatever else goes on. mu is taken before state, and
// state before nothing. What both protect is written with both held.
type gpuQueue struct {
	engine *GPU
	stream *cuda.Stream
	own    bool // the stream is closed with the queue

	mu     sync.Mutex                 // one call at a time: what follows is scratch of a call
	calls  [submitters]cuda.CopyBatch // one for each goroutine that starts
	inline pairList
	lists  listRing
	fork   *cuda.Event
	loose  int // so many side streams may have work that the stream does not wait for yet

	state  sync.Mutex // protects what follows; mu protects closed and sides too
	closed bool
	sides  []sideStream
	used   int     // so many side streams have had work since a Wait saw them done
	turn   uint64  // counts the times that side streams were used
	kept   []error // of copies, come up while others were started: for Wait
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
	if err := q.engine.alive(); err != nil {
		return err
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
	return fmt.Errorf("copy %d pages of %d bytes %s by %s on %s: %w", len(b.Pairs), b.PageSize, b.Dir, p, q.engine.Name(), closedToo(err))
}

// start puts at most maxStart pages into the stream.
func (q *gpuQueue) start(p Path, b *Batch) error {
	if err := q.join(q.loose); err != nil { // of a batch before, whose own join failed
		return err
	}
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
	turns := (max(len(in.Pairs), len(out.Pairs)) + maxStart - 1) / maxStart
	for i := range turns {
		a, b := *in, *out
		a.Pairs, b.Pairs = share(in.Pairs, i, turns), share(out.Pairs, i, turns)
		if err := q.startExchange(p, &a, &b); err != nil {
			return fmt.Errorf("exchange %d pages of %d bytes in, %d of %d out by %s on %s: %w",
				len(in.Pairs), in.PageSize, len(out.Pairs), out.PageSize, p, q.engine.Name(), closedToo(err))
		}
	}
	q.engine.counter.add(ToDevice, p, len(in.Pairs), in.PageSize)
	q.engine.counter.add(ToHost, p, len(out.Pairs), out.PageSize)
	return nil
}

// startExchange puts at most maxStart pages each way into the stream.
func (q *gpuQueue) startExchange(p Path, in, out *Batch) error {
	if err := q.join(q.loose); err != nil { // as in start
		return err
	}
	switch p {
	case PathExchange:
		return q.exchangeKernel(in, out)
	case PathTwoBatches:
		return q.exchangeBatches(*in, *out)
	}
	return fmt.Errorf("no path %q of exchanges", p)
}

// share is the i-th of n parts of a list.
func share(p []Pair, i, n int) []Pair { return p[len(p)*i/n : len(p)*(i+1)/n] }

// shiftOf is log2 of the page size.
func shiftOf(b *Batch) int { return bits.TrailingZeros(uint(b.PageSize)) }
