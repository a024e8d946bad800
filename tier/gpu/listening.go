package gpu

import (
	"fmt"
	"sync"
	"time"
)

// listening is the end of a goroutine that takes from a ring in pinned memory and calls
// the user, who may not come back.
type listening struct {
	done  chan struct{} // closed: take what is there, and end
	ended chan struct{} // closed by the goroutine

	mu   sync.Mutex // held while the ring is looked at
	gone bool       // the ring is
}

func newListening() *listening {
	return &listening{done: make(chan struct{}), ended: make(chan struct{})}
}

// begin starts the goroutine.
func (l *listening) begin(run func()) {
	go func() {
		defer close(l.ended)
		run()
	}()
}

// look calls f, which looks at the ring, unless that is gone.
func (l *listening) look(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.gone {
		f()
	}
}

// end has the goroutine take what is there, and waits for that no longer than within.
// After an error, ErrObserver, a call of the user may still run, but the ring is not
// looked at any more.
func (l *listening) end(within time.Duration) error {
	close(l.done)
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-l.ended:
		return nil
	case <-timer.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	return fmt.Errorf("%w: what came last is left out, after %v", ErrObserver, within)
}
