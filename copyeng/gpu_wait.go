package copyeng

import (
	"context"
	"errors"
	"fmt"

	"github.com/tritier/tritier/cuda"
)

const (
	// askAgain is how often a wait goes on after errors of copies.
	askAgain = 3
	// keptErrors bounds the errors that are kept for Wait.
	keptErrors = 16
)

// Wait waits for the stream, and for the side streams that were used. The
// stream waits for those anyway; but the error of a copy comes back from the
// stream that it was in alone.
func (q *gpuQueue) Wait(ctx context.Context) error {
	if ctx == nil {
		return &ArgumentError{Call: "Queue.Wait", Name: "context", What: "is missing"}
	}
	q.state.Lock()
	closed, sides, turn := q.closed, q.sides[:q.used], q.turn
	q.state.Unlock()
	if closed {
		return fmt.Errorf("copy queue: %w", ErrClosed)
	}
	failed, late := q.drain(ctx, sides)
	q.state.Lock()
	defer q.state.Unlock()
	if late != nil { // the errors are for the Wait that sees the end
		q.keepLocked(failed)
		return fmt.Errorf("copy queue on %s: %w", q.engine.Name(), late)
	}
	if q.turn == turn {
		q.used = 0
	}
	if failed = q.takeKept(failed); failed != nil {
		return fmt.Errorf("copy queue on %s: %w", q.engine.Name(), closedToo(failed))
	}
	return nil
}

// keep leaves the error of a copy to the next Wait or Close.
func (q *gpuQueue) keep(err error) {
	if err == nil {
		return
	}
	q.state.Lock()
	defer q.state.Unlock()
	q.keepLocked(err)
}

func (q *gpuQueue) keepLocked(err error) {
	if err != nil && len(q.kept) < keptErrors {
		q.kept = append(q.kept, err)
	}
}

// takeKept adds the errors kept to err. q.state is held.
func (q *gpuQueue) takeKept(err error) error {
	if len(q.kept) == 0 {
		return err
	}
	err = errors.Join(append(q.kept, err)...)
	q.kept = nil
	return err
}

// drain waits for the queue's stream and for side streams. failed is the
// errors of copies; late is not nil when ctx has ended before the copies did.
func (q *gpuQueue) drain(ctx context.Context, sides []sideStream) (failed, late error) {
	failed, late = settle(ctx, q.stream)
	for _, s := range sides {
		if late != nil || lost(failed) {
			return failed, late
		}
		var err error
		err, late = settle(ctx, s.stream)
		failed = both(failed, err)
	}
	return failed, late
}

// settle waits until a stream is done, or an event reached. An error tells of
// one copy, and not that the rest is done: so it asks again.
func settle(ctx context.Context, s interface{ Wait(context.Context) error }) (failed, late error) {
	for range askAgain {
		err := s.Wait(ctx)
		if err == nil {
			return failed, nil
		}
		if tooLate := (*cuda.DeadlineError)(nil); errors.As(err, &tooLate) {
			return failed, err
		}
		failed = both(failed, err)
		if lost(err) || errors.Is(err, cuda.ErrClosed) {
			return failed, nil // there is no other answer to be had
		}
	}
	return failed, nil
}

// lost says whether the context is: nothing is in flight then, and each call
// would say the same again.
func lost(err error) bool { return err != nil && errors.Is(err, cuda.ErrSticky) }

// both joins errors, and says once that something is closed.
func both(a, b error) error {
	if b == nil || a != nil && errors.Is(a, cuda.ErrClosed) && errors.Is(b, cuda.ErrClosed) {
		return a
	}
	return errors.Join(a, b)
}

// Close waits for what is in flight and releases the queue. If that does not
// end in time the queue stays open, and can be waited for or closed again.
func (q *gpuQueue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), q.engine.patience)
	defer cancel()
	failed, late := q.drain(ctx, q.sides)
	if late == nil && !lost(failed) {
		// Not said by the stream if its owner has closed it: kernels may
		// still be reading their lists.
		var err error
		err, late = q.lists.settle(ctx)
		failed = both(failed, err)
	}
	if late != nil {
		q.keep(failed)
		return fmt.Errorf("close copy queue on %s: %w", q.engine.Name(), late)
	}
	q.state.Lock()
	q.closed = true
	failed = q.takeKept(failed)
	q.state.Unlock()
	q.engine.mu.Lock()
	delete(q.engine.queues, q)
	q.engine.mu.Unlock()
	if err := errors.Join(failed, q.release()); err != nil {
		return fmt.Errorf("close copy queue on %s: %w", q.engine.Name(), closedToo(err))
	}
	return nil
}

// release gives back what the queue made; nothing is in flight.
func (q *gpuQueue) release() error {
	errs := []error{q.lists.close()}
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
