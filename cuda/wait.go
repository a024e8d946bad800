package cuda

import (
	"context"
	"runtime"
	"time"

	"github.com/tritier/tritier/internal/nap"
)

// The phases of a wait. Spinning sees the end at once; it is bounded, since a
// CPU does nothing else meanwhile: to the time of moving some 100 MB over PCIe
// where processors are plenty, less where they are few. After that a nap lasts
// a small part of what the wait has lasted already, so that it ends at most
// that part late.
const (
	longSpin  = 2 * time.Millisecond
	shortSpin = 100 * time.Microsecond
	fewCPUs   = 4 // and more: long spins
	napShare  = 32
	firstNap  = 5 * time.Microsecond
	longNap   = time.Millisecond
)

// spinFor is how long a wait spins.
func spinFor() time.Duration {
	if runtime.GOMAXPROCS(0) >= fewCPUs {
		return longSpin
	}
	return shortSpin
}

// polled is what can be waited for. poll is cheap and does not block.
type polled interface {
	poll(call string, f *frame) (done bool, err error)
	String() string
}

// wait polls until the work is done, it failed, or ctx ended. Work that is done
// counts as done, also if ctx has ended. It allocates nothing unless it fails.
// call is what the program has called.
func wait(ctx context.Context, call string, p polled) error {
	if ctx == nil {
		return missing(call, "context.Context")
	}
	f := newFrame()
	defer f.free()
	done, err := p.poll(call, f)
	if done || err != nil {
		return err
	}
	start := time.Now()
	done, err = spin(ctx, call, p, f, start)
	if done || err != nil {
		return err
	}
	for {
		if done, err := p.poll(call, f); done || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return deadline(ctx, p, start)
		}
		nap.For(min(max(time.Since(start)/napShare, firstNap), longNap))
	}
}

// spin polls without a pause, on one thread and with the context set once.
// With one processor it makes room for the goroutine that the work may be
// waiting for, and stays on no thread, since changing threads is slow then.
func spin(ctx context.Context, call string, p polled, f *frame, start time.Time) (bool, error) {
	alone, limit := runtime.GOMAXPROCS(0) == 1, spinFor()
	if !alone {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		f.pinned = true
		defer func() { f.pinned, f.current = false, nil }()
	}
	for {
		if done, err := p.poll(call, f); done || err != nil {
			return done, err
		}
		if ctx.Err() != nil {
			return false, deadline(ctx, p, start)
		}
		if time.Since(start) > limit {
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
