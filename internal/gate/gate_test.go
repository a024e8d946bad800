package gate

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestGate: one is in at a time, and who waits gives up with the cause that its context ended by.
func TestGate(t *testing.T) {
	g := New()
	over, end := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	end(cause)
	if err := g.Enter(over); err != nil {
		t.Errorf("a free gate: %v", err)
	}
	if err := g.Enter(over); !errors.Is(err, cause) {
		t.Errorf("a gate with somebody in it: %v", err)
	}
	in := make(chan struct{})
	go func() {
		g.Lock()
		close(in)
	}()
	select {
	case <-in:
		t.Error("two are in")
	case <-time.After(20 * time.Millisecond):
	}
	g.Leave()
	<-in
	g.Leave()
	g.Lock()
}
