package soft

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps in the kernel without the runtime's timers, which are far coarser.
func nap(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil) // an early end by a signal does no harm
}

// setTimerSlack lets the kernel end this thread's naps within a microsecond; it
// takes 50 otherwise. A refusal only makes naps longer.
func setTimerSlack() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(time.Microsecond), 0, 0, 0)
}

// waiter is a Channel that can wait for a completion in the kernel.
type waiter interface {
	// Await waits until an operation has finished or timeout is over. It returns
	// false at once when none is in flight.
	Await(timeout time.Duration) bool
}

// idler is the back-off of a thread that finds no work. It first polls on for
// some microseconds, within which a host submits again after a completion.
//
// With operations in flight it then waits in the kernel, where the first
// completion wakes it at once: polling would take the processor from what
// serves the device, and naps would be too long. A command that arrives
// meanwhile is seen at the wait's end. So a wait is as long as the thread has
// been idle, at most 200 us, and at most 10 us with few operations in flight,
// where latency counts.
//
// Without any it lets other goroutines run in between and then sleeps, twice as
// long each time, from 5 us to 100 us, or 10 us as long as completions wait for
// their time.
type idler struct {
	polls int           // in a row that found nothing
	since time.Duration // when the first of them was
	sleep time.Duration
	next  int // channel to wait for
}

const (
	idleSpins    = 1000
	idleYields   = 1050
	awaitSpins   = 5 * time.Microsecond
	awaitFew     = 10 * time.Microsecond
	awaitFirst   = 50 * time.Microsecond
	awaitLongest = 200 * time.Microsecond
	manyInFlight = 8
	shortestNap  = 5 * time.Microsecond
	longestNap   = 100 * time.Microsecond
	attentiveNap = 10 * time.Microsecond
)

func (i *idler) reset() { i.polls, i.sleep = 0, 0 }

func (i *idler) wait(t *thread) {
	i.polls++
	timed := len(t.timers) > 0 || len(t.gated) > 0
	switch {
	case t.working > 0 && !timed:
		i.await(t)
	case i.polls < idleSpins:
	case i.polls < idleYields:
		runtime.Gosched()
	default:
		i.sleep = min(max(shortestNap, i.sleep*2), longestNap)
		if t.working > 0 || timed {
			i.sleep = min(i.sleep, attentiveNap)
		}
		nap(i.sleep)
	}
}

// await waits for a backend.
func (i *idler) await(t *thread) {
	now := t.c.now()
	if i.polls == 1 {
		i.since = now
	}
	idle := now - i.since
	if idle < awaitSpins {
		return
	}
	d := awaitFew
	if t.working >= manyInFlight {
		d = min(max(idle, awaitFirst), awaitLongest)
	}
	i.next = t.await(i.next, d)
}

// await waits up to d for the first channel from number i on that can wait, and
// returns the number of the one behind it. Where operations are in flight in
// several, each gets its turn.
func (t *thread) await(i int, d time.Duration) int {
	for range t.channels {
		i %= len(t.channels)
		w, ok := t.channels[i].(waiter)
		if i++; ok && w.Await(d) {
			return i
		}
	}
	nap(min(d, attentiveNap))
	return i
}
