package volume

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// SetMetadataTimeout bounds every operation on metadata that begins from now on:
// one read, write, write zeroes (of at most 256 MiB, or the pages of a new array
// on one member) or flush, retries included. Zero or less is
// DefaultMetadataTimeout. An operation that does not end in this time ends with
// the member's time-out, and no metadata is written to that member before a reset
// of its controller, see ErrHeld: so the bound should be well above what the
// slowest flush takes. A call that needs several operations may take several
// times as long. It waits for nothing and any goroutine may call it.
func (v *Volume) SetMetadataTimeout(d time.Duration) { v.patience.set(d) }

// Flush makes every page write that completed before the call durable. A
// *DurabilityError names the pages of which a write timed out and may still
// land: theirs is unknown, all others are durable. It waits for its turn, then at
// most as long as SetMetadataTimeout says.
func (v *Volume) Flush() error { return v.FlushContext(context.Background()) }

// FlushContext is Flush that returns an error which wraps ctx's when ctx ends
// first, be it while others use the metadata. Nothing is known then of what is
// durable. A flush that a member has not ended yet stays in flight; the next
// operation on metadata waits for it, and returns ErrHeld if it does not end or
// ends with a time-out.
func (v *Volume) FlushContext(ctx context.Context) error {
	if err := v.lock(ctx); err != nil {
		return err
	}
	defer v.mu.Unlock()
	if v.closed {
		return ErrClosed
	}
	return errors.Join(v.flush(ctx), v.unknown())
}

// lock takes mu, or gives up when ctx ends. It tries again and again, since a
// wait for a mutex cannot be ended and nothing here starts a goroutine.
func (v *Volume) lock(ctx context.Context) error {
	if ctx.Done() == nil {
		v.mu.Lock()
		return nil
	}
	for pause := time.Microsecond; ; pause = min(pause*2, 100*time.Microsecond) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("volume: flush: %w", err)
		}
		if v.mu.TryLock() {
			return nil
		}
		time.Sleep(pause)
	}
}

// flush makes the members durable, all at once, so that together they take no
// longer than one may. Needs mu.
func (v *Volume) flush(ctx context.Context) error {
	until := v.patience.until()
	ops, errs := make([]Op, len(v.meta)), make([]error, len(v.meta))
	for i, io := range v.meta {
		ops[i].Kind = OpFlush
		errs[i] = io.begin(ctx, &ops[i], until)
	}
	for i, io := range v.meta {
		if errs[i] == nil {
			errs[i] = io.end(ctx, &ops[i], until)
		}
	}
	return errors.Join(errs...)
}
