package gpu

import (
	"context"
	"fmt"

	shared "github.com/tritier/tritier/internal/gate"
)

// gate lets one call in at a time: a mutex whose waiters give up when their context ends.
type gate shared.Gate

func newGate() gate { return gate(shared.New()) }

// enter waits until nobody else is in. A gate that is free lets in whoever comes: that
// its context has ended is for the call to say.
func (g gate) enter(ctx context.Context) error {
	if err := shared.Gate(g).Enter(ctx); err != nil {
		return fmt.Errorf("another call of the GPU engine has not ended: %w", err)
	}
	return nil
}

// leave lets the next one in.
func (g gate) leave() { shared.Gate(g).Leave() }
