package bamio

import (
	"context"
	"errors"
	"time"

	"github.com/tritier/tritier/bamio/layout"
	"github.com/tritier/tritier/internal/nap"
	"github.com/tritier/tritier/libnvm"
)

// Work is what Watch watches: a *cuda.Event recorded behind kernels, their
// *cuda.Stream, or a WorkFunc.
type Work interface {
	Query() (done bool, err error)
}

// WorkFunc is a function as Work.
type WorkFunc func() (done bool, err error)

// Query calls the function.
func (f WorkFunc) Query() (done bool, err error) { return f() }

// A nap lasts a small part of what the wait has lasted already, so that it ends at most
// that part late. Those of a millisecond and more are timers, which end early when the
// wait does.
const (
	napShare   = 16
	firstNap   = 10 * time.Microsecond
	shortNap   = time.Millisecond
	longestNap = 2 * time.Millisecond
	looksEach  = 20 // how often Watch looks within the time that makes a stall
	maxLook    = 100 * time.Millisecond
)

// Watch waits until the work is done, and meanwhile looks at queues and drives
// beside the running kernels:
//
//   - A drive that is gone or has failed has its queues marked, so that kernels
//     get a status at once. Watch then returns a *DriveError when they are done.
//   - A queue with commands in flight that nobody makes progress on for Deadline
//     and Grace is a stall: kernels are asked to end, get Grace to do so, and the
//     error is a *StallError with a dump of all queues, whether they ended or not.
//     Device code gives up after Deadline by itself, so a kernel that leaves
//     commands in flight and looks at nothing for longer counts as stalled.
//   - The end of ctx asks kernels to end too: then it is its cause, or a
//     *StallError if they do not.
//
// After a stall, and after the end of ctx, the stop flag stays set until Resume.
// An error of the work itself, such as a fault of a kernel, is returned as it is.
func (e *Engine) Watch(ctx context.Context, work Work) error {
	if err := e.life.begin(); err != nil {
		return err
	}
	defer e.life.end()
	w := &watcher{e: e, work: work, since: make([]time.Time, len(e.queues)), lost: make([]error, len(e.ports))}
	return w.run(ctx)
}

// watcher is one Watch.
type watcher struct {
	e     *Engine
	work  Work
	last  *snapshot
	since []time.Time // of each queue: when it moved last
	lost  []error     // of each controller: how it failed
}

func (w *watcher) run(ctx context.Context) error {
	limit := w.e.opts.Deadline + w.e.opts.Grace
	every := min(max(limit/looksEach, firstNap), maxLook)
	start := time.Now()
	next := start.Add(every)
	for {
		if done, err := w.work.Query(); done || err != nil {
			return errors.Join(err, w.failures())
		}
		if err := w.pause(ctx, min(max(time.Since(start)/napShare, firstNap), longestNap, every)); err != nil {
			return w.stop(err, nil)
		}
		at := time.Now()
		if at.Before(next) {
			continue
		}
		next = at.Add(every)
		w.health(ctx)
		if err := w.look(ctx); err != nil {
			return w.stop(&StallError{After: limit, Cause: err}, nil)
		}
		if stuck := w.stuck(time.Now(), limit); len(stuck) > 0 {
			return w.stop(nil, stuck)
		}
	}
}

// pause waits for d, and says why the wait for the work ends, if it does.
func (w *watcher) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.e.life.ending:
		return ErrClosed
	default:
	}
	if d < shortNap { // a timer takes a millisecond for it, when the program is idle otherwise
		nap.For(d)
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.e.life.ending:
		return ErrClosed
	case <-time.After(d):
		return nil
	}
}

// look takes a snapshot and notes which queues have moved.
func (w *watcher) look(ctx context.Context) error {
	s, err := w.e.snapshot(ctx, w.e.opts.Deadline)
	if err != nil {
		if ctx.Err() != nil {
			return nil // the loop sees it
		}
		if w.e.gpu.Err() != nil {
			return nil // the work's own query says what happened
		}
		return err
	}
	now := time.Now()
	for i := range s.queues {
		if w.last == nil || moved(&w.last.queues[i], &s.queues[i]) || !pending(s, i) {
			w.since[i] = now
		}
	}
	w.last = s
	return nil
}

// moved says whether anything has happened on a queue.
func moved(a, b *layout.Queue) bool {
	return a.Tickets != b.Tickets || a.Rung != b.Rung || a.Freed != b.Freed || a.CQHead != b.CQHead || a.Spurious != b.Spurious
}

// pending says whether somebody waits for something to happen on a queue. What
// was abandoned nobody waits for.
func pending(s *snapshot, i int) bool {
	if q := &s.queues[i]; q.Tickets != q.Rung {
		return true
	}
	for _, c := range s.cids[i] {
		if c.State() == layout.InFlight {
			return true
		}
	}
	return false
}

func (w *watcher) stuck(now time.Time, limit time.Duration) []int {
	var out []int
	for i, t := range w.since {
		if !t.IsZero() && now.Sub(t) > limit {
			out = append(out, i)
		}
	}
	return out
}

// health looks at the controllers' registers. A controller that has failed has
// its queues marked, once; if that does not work, kernels run into their deadline.
func (w *watcher) health(ctx context.Context) {
	for k, p := range w.e.ports {
		if w.lost[k] != nil {
			continue
		}
		err := p.ctrl.Health()
		if err == nil {
			continue
		}
		w.lost[k] = &DriveError{p.name, healthStatus(err), err}
		if mark := w.e.markFailed(ctx, p, healthStatus(err)); mark != nil {
			w.lost[k] = errors.Join(w.lost[k], mark)
		}
	}
}

func healthStatus(err error) Status {
	var gone *libnvm.DeviceGoneError
	if errors.As(err, &gone) {
		return DeviceGone
	}
	return QueueFailed
}

func (w *watcher) failures() error { return errors.Join(w.lost...) }

// markFailed writes the status into the queues of a controller, beside running
// kernels. The source is pinned, so that a copy engine does it.
func (e *Engine) markFailed(ctx context.Context, p *port, st Status) error {
	ctx, cancel := bounded(ctx, e.opts.Deadline)
	defer cancel()
	l := &e.look
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.stream.Wait(ctx); err != nil { // the word may still be read
		return err
	}
	word := e.control.Bytes()[wordAt : wordAt+4]
	store32(word, 0, uint32(st))
	for i, q := range e.queues {
		if e.drives[q.drive].port != p {
			continue
		}
		if err := l.stream.CopyToDevice(e.at.Add(uint64(e.image.queues+i*queueBytes+failedAt)), word); err != nil {
			return err
		}
	}
	return l.stream.Wait(ctx)
}

// stop asks kernels to end and waits for it. The error is cause if they do and
// nothing is stuck, otherwise a *StallError.
func (w *watcher) stop(cause error, stuck []int) error {
	e := w.e
	store32(e.control.Bytes(), stopAt, 1)
	var stall *StallError
	if !errors.As(cause, &stall) {
		stall = &StallError{After: e.opts.Deadline + e.opts.Grace, Cause: cause}
	}
	stall.Queues = e.names(stuck)
	// The queues as they stand, before the kernels clean up.
	bad := len(stuck) > 0 || stall == cause
	if bad {
		stall.Dump = e.dumpText(w.last)
	}
	ended, err := w.await(e.opts.Grace)
	switch {
	case !ended && !bad: // it did not look like a stall, and is one
		s, _ := e.snapshot(context.Background(), e.opts.Grace)
		stall.Dump = e.dumpText(s)
	case !bad:
		return errors.Join(cause, err, w.failures())
	}
	stall.Ended = ended
	return errors.Join(stall, err, w.failures())
}

// await waits for the work for a bounded time.
func (w *watcher) await(limit time.Duration) (ended bool, err error) {
	for end := time.Now().Add(limit); ; nap.For(firstNap) {
		if ended, err = w.work.Query(); ended || err != nil {
			return true, err
		}
		if time.Now().After(end) {
			return false, nil
		}
	}
}
