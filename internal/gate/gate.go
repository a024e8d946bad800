// Package gate is a mutex whose waiters give up when their context ends.
package gate

import "context"

// Gate lets one caller in at a time. The zero value lets nobody in: use New.
type Gate chan struct{}

// New is a gate that is free.
func New() Gate { return make(Gate, 1) }

// Enter waits until nobody else is in, or returns why ctx has ended. A gate that is free
// lets in whoever comes: that its context has ended is for the call to say.
func (g Gate) Enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	default:
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Lock waits until nobody else is in.
func (g Gate) Lock() { g <- struct{}{} }

// Leave lets the next one in.
func (g Gate) Leave() { <-g }
