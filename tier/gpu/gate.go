package gpu

import (
	"context"
	"fmt"
)

// gate lets one call in at a time: a mutex whose waiters give up when their context ends.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

// enter waits until nobody else is in. A gate that is free lets in whoever comes: that
// its context has ended is for the call to say.
func (g gate) enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	default:
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("another call of the GPU engine has not ended: %w", context.Cause(ctx))
	}
}

// leave lets the next one in.
func (g gate) leave() { <-g }
