package soft

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// lease is a service thread's work in other hands.
type lease struct {
	granted  chan struct{} // closed by the thread: it has let go of its channels
	returned chan struct{} // closed by the borrower
}

// Server does the work of a service thread on the goroutine that borrowed it.
type Server struct {
	t     *thread
	lease *lease
	next  int  // channel to wait for
	over  bool // Return was called
}

// lendTimeout bounds how long Lend waits for operations in flight.
const lendTimeout = 5 * time.Second

// Lend hands the work of service thread number i to the calling goroutine, which
// is locked to its system thread until Return. It suits a host that has nothing
// to do before its I/O completes: driver and controller then run to completion
// on one thread, which sleeps in the kernel until the drive is done, and no
// command or completion waits for another thread to wake up.
//
// The caller must call Serve as long as it expects anything of the queues of
// this thread, and Return before it calls what waits for the controller by
// itself, such as admin commands and Close of the driver: nobody would serve
// them, and they would time out. Close of the controller likewise fails until
// Return. Lend waits until no operation of the thread is in flight.
func (c *Controller) Lend(i int) (*Server, error) {
	if i < 0 || i >= len(c.threads) {
		return nil, fmt.Errorf("soft: lend service thread %d: there are %d", i, len(c.threads))
	}
	t, l := c.threads[i], &lease{make(chan struct{}), make(chan struct{})}
	if !t.lease.CompareAndSwap(nil, l) {
		return nil, fmt.Errorf("soft: service thread %d is lent already", i)
	}
	limit := time.NewTimer(lendTimeout)
	defer limit.Stop()
	var err error
	select {
	case <-l.granted:
		runtime.LockOSThread()
		s := &Server{t: t, lease: l}
		if err = t.open(); err == nil {
			return s, nil
		}
		runtime.UnlockOSThread()
	case <-t.stopped:
		err = errors.New("soft: the service thread has stopped")
	case <-limit.C:
		err = fmt.Errorf("soft: service thread %d still has operations in flight after %v", i, lendTimeout)
	}
	close(l.returned)
	return nil, err
}

// lend lets a borrower do the work until it returns it. It runs on the thread.
// A failure ends the thread and is in closeErr.
func (t *thread) lend(l *lease) {
	if t.closeErr = t.closeChannels(); t.closeErr != nil {
		return
	}
	close(l.granted)
	<-l.returned
	t.lease.Store(nil)
	t.closeErr = t.open()
}

// Serve looks at everything once, as a service thread does over and over, and
// reports whether there was work. When there was none and operations are in
// flight it waits for the first to finish, up to wait. After Return it does
// nothing.
func (s *Server) Serve(wait time.Duration) bool {
	if s.over {
		return false
	}
	t := s.t
	busy := t.sweep()
	if !busy && wait > 0 && t.working > 0 {
		if len(t.timers) > 0 || len(t.gated) > 0 {
			wait = min(wait, attentiveNap)
		}
		s.next = t.await(s.next, wait)
		busy = t.sweep()
	}
	t.counts.flush(&t.stats)
	return busy
}

// Return gives the work back to the service thread, once. Operations in flight are
// waited for, for a bounded time; an error means that some remain, and then the
// thread serves no more.
func (s *Server) Return() error {
	if s.over {
		return nil
	}
	t := s.t
	for end := time.Now().Add(settleTimeout); t.working > 0 && time.Now().Before(end); {
		s.Serve(time.Millisecond)
	}
	s.over = true
	err := t.closeChannels()
	runtime.UnlockOSThread()
	if err != nil {
		return err
	}
	close(s.lease.returned)
	return nil
}
