package gpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/cuda"
)

// RunningError says that kernels still run that were asked to end. Until they have
// ended the engine refuses everything that would launch another, and frees nothing.
type RunningError struct {
	Err error // what the wait for them ended with
}

// Error says why they were asked.
func (e *RunningError) Error() string {
	return fmt.Sprintf("kernels of the GPU engine still run, although they were asked to end; until they do it takes no other call: %v", e.Err)
}

// Unwrap returns the reason.
func (e *RunningError) Unwrap() error { return e.Err }

// late is a kernel that did not end when it was asked to.
type late struct {
	work bamio.Work
	err  error
}

// ready says whether a call may launch a kernel, or why not. The caller has mu.
func (e *Engine) ready(ctx context.Context) error {
	if e.closed || e.retired {
		return ErrClosed
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return e.settle()
}

// settle lets kernels work again once those that were asked to end have ended: only
// then can none of them take the next one's leave for its own.
func (e *Engine) settle() error {
	e.late = slices.DeleteFunc(e.late, func(l late) bool {
		done, err := l.work.Query()
		return done || err != nil
	})
	if len(e.late) > 0 {
		return &RunningError{e.late[0].err}
	}
	if !e.stopped {
		return nil
	}
	e.stopped = false
	return e.io.Resume()
}

// asked notes that a wait for a kernel has ended with l.err before the kernel had, and
// settles. all says that bamio has asked every kernel to end. The caller has mu.
func (e *Engine) asked(l late, all bool) (running bool, err error) {
	done, failed := l.work.Query()
	running = !done && failed == nil
	e.stopped = e.stopped || all
	if running {
		e.late = append(e.late, l)
	}
	var others *RunningError
	if err = e.settle(); errors.As(err, &others) {
		err = nil
	}
	return running, err
}

// Watch waits for kernels, and ends with an error instead of a hang, as
// bamio.Engine.Watch. When it has asked them to end and they have, others work again;
// while they have not, batch calls answer a *RunningError. An observer was told of what
// kernels did that have ended well.
func (e *Engine) Watch(ctx context.Context, work bamio.Work) error {
	watched := e.io.Watch(ctx, work)
	asked := watched != nil && !drivesOnly(ctx, watched)
	if !asked && e.record == nil && e.tell == nil {
		return watched
	}
	_ = e.mu.enter(context.Background()) // whatever ctx says: it cannot fail
	defer e.mu.leave()
	if e.closed {
		return watched
	}
	if !asked {
		e.refreshClock(ctx)
		return errors.Join(watched, e.observed(ctx))
	}
	_, err := e.asked(late{work, watched}, true)
	return errors.Join(watched, err)
}

// drivesOnly says that a watch has ended by itself, and nothing was asked to end.
func drivesOnly(ctx context.Context, err error) bool {
	var drive *bamio.DriveError
	var stall *bamio.StallError
	return ctx.Err() == nil && errors.As(err, &drive) && !errors.As(err, &stall)
}

// wait waits for the engine's stream and reads the report. front is behind what the
// caller's stream held, or nil.
func (e *Engine) wait(ctx context.Context, front *cuda.Event) error {
	p := e.newPatience(ctx, front)
	watched := e.watchBatch(ctx, p)
	if watched != nil && (p.err != nil || !drivesOnly(ctx, watched)) {
		running, err := e.asked(late{e.stream, watched}, p.err == nil)
		if running {
			return &RunningError{errors.Join(watched, err)}
		}
		e.retried += uint64(e.reportWord(reportRetriedAt))
		return errors.Join(watched, err)
	}
	e.retried += uint64(e.reportWord(reportRetriedAt))
	e.refreshClock(ctx)
	if err := e.observed(ctx); err != nil {
		return err
	}
	if a := e.failures(); a != nil {
		a.Drive = watched
		return a
	}
	return nil // a drive that has failed is no matter to a batch that was done
}

// watchBatch waits for a batch. The end of ctx asks its kernel not to begin anything
// more, and leaves it the time for what is in flight: a command that nobody waits for
// keeps its slot until it is answered. Only then bamio asks everything to end. A batch
// that hangs is asked alone: kernels of the program may be what it waits for.
func (e *Engine) watchBatch(ctx context.Context, p *patience) error {
	inner, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	done, over := make(chan struct{}), make(chan struct{})
	unasked := context.AfterFunc(ctx, func() {
		defer close(over)
		e.askBatch()
		select {
		case <-done:
		case <-time.After(e.o.Deadline):
			end(context.Cause(ctx))
		}
	})
	err := e.io.Watch(inner, p)
	var hang *HangError
	if errors.As(err, &hang) {
		p.giveUp()
	}
	close(done)
	if unasked() {
		return err
	}
	<-over // the word is the next launch's from here on
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		return errors.Join(cause, err)
	}
	return err
}

// failures is the report as an error.
func (e *Engine) failures() *AccessError {
	r := e.shared.Bytes()[reportAt:]
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(r[at:]) }
	if word(0) == 0 {
		return nil
	}
	a := &AccessError{Failed: int(word(0)), ended: word(reportStopAt) != 0}
	for i := range min(int(word(4)), reportNamed) {
		err := Status(word(reportStatusAt + 4*i)).Err()
		a.Pages = append(a.Pages, &PageError{binary.LittleEndian.Uint64(r[reportPageAt+8*i:]), err})
		if errors.Is(err, ErrAllPinned) {
			a.Needed = e.framesNeeded()
		}
	}
	return a
}

// take adds the failures of a part, and says whether the batch may go on.
func (a *AccessError) take(err error) bool {
	if err == nil {
		return true
	}
	var part *AccessError
	if !errors.As(err, &part) {
		return false
	}
	a.Failed += part.Failed
	a.Needed = max(a.Needed, part.Needed)
	a.ended = a.ended || part.ended
	if a.Drive == nil {
		a.Drive = part.Drive
	}
	room := max(reportNamed-len(a.Pages), 0)
	a.Pages = append(a.Pages, part.Pages[:min(room, len(part.Pages))]...)
	return true
}

func (a *AccessError) orNil() error {
	if a.Failed == 0 {
		return nil
	}
	return a
}
