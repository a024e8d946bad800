package cuda

import (
	"context"
	"runtime"
	"time"
)

// The phases of a wait: spinning sees the end of a short piece of work at
// once, sleeping leaves the CPU to others during a long one.
const (
	spinFor  = 100 * time.Microsecond
	firstNap = 5 * time.Microsecond
	longNap  = 100 * time.Microsecond
)

// polled is what can be waited for. poll is cheap and does not block.
type polled interface {
	poll(f *frame) (done bool, err error)
	String() string
}

// wait polls until the work is done, it failed, or ctx ended. Work that is done
// counts as done, also if ctx has ended. It allocates nothing unless it fails.
func wait(ctx context.Context, p polled) error {
	f := newFrame()
	defer f.free()
	done, err := p.poll(f)
	if done || err != nil {
		return err
	}
	start := time.Now()
	done, err = spin(ctx, p, f, start)
	if done || err != nil {
		return err
	}
	for d := firstNap; ; d = min(2*d, longNap) {
		if done, err := p.poll(f); done || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return deadline(ctx, p, start)
		}
		nap(d)
	}
}

// spin polls without a pause, on one thread and with the context set once.
// With one processor it makes room for the goroutine that the work may be
// waiting for, and stays on no thread, since changing threads is slow then.
func spin(ctx context.Context, p polled, f *frame, start time.Time) (bool, error) {
	alone := runtime.GOMAXPROCS(0) == 1
	if !alone {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		f.pinned = true
		defer func() { f.pinned, f.current = false, nil }()
	}
	for {
		if done, err := p.poll(f); done || err != nil {
			return done, err
		}
		if ctx.Err() != nil {
			return false, deadline(ctx, p, start)
		}
		if time.Since(start) > spinFor {
			return false, nil
		}
		if alone {
			runtime.Gosched()
		}
	}
}

func deadline(ctx context.Context, p polled, start time.Time) error {
	return &DeadlineError{Wait: p.String(), Elapsed: time.Since(start), Err: context.Cause(ctx)}
}
