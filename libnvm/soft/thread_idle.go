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

// idler is the back-off of a thread that finds no work. For the first 50 us it
// polls on, since a busy host submits again within that time after a completion,
// and a GPU's threads all the more: a command is then seen within the time of one
// poll of all queues, well below a microsecond for some dozens of them.
//
// With operations in flight it then waits in the kernel, where the first
// completion wakes it at once: polling would take the processor from what
// serves the device, and naps would be too long. A command that arrives
// meanwhile is seen at the wait's end. So a wait is as long as the thread has
// been idle, at most 200 us, and at most 10 us with few operations in flight,
// where latency counts.
//
// Without any it lets other goroutines run in between for another 50 us, and then
// sleeps. A sleep is an eighth of what it has slept so far, from 5 us to 10 ms,
// so that a command after a pause waits for little in comparison to the pause,
// while a thread without a host, at 100 looks a second, costs about a thousandth
// of a processor. As long as completions wait for their time it is at most 10 us.
type idler struct {
	polls int           // in a row that found nothing
	look  int           // number of the poll that looks at the clock
	since time.Duration // when the first of them was
	slept time.Duration // asked for, whatever it took: a late wake-up is no sign that the host is slow
	next  int           // channel to wait for
}

const (
	spinFor      = 50 * time.Microsecond
	yieldFor     = 100 * time.Microsecond
	clockPolls   = 16 // the clock takes longer than a poll of few queues
	fewestPolls  = 64 // before a sleep, for a thread that was not running meanwhile
	awaitSpins   = 5 * time.Microsecond
	awaitFew     = 10 * time.Microsecond
	awaitFirst   = 50 * time.Microsecond
	awaitLongest = 200 * time.Microsecond
	manyInFlight = 8
	sleepShare   = 8
	shortestNap  = 5 * time.Microsecond
	longestNap   = 10 * time.Millisecond
	attentiveNap = 10 * time.Microsecond
)

func (i *idler) reset() { i.polls, i.look, i.slept = 0, clockPolls, 0 }

func (i *idler) wait(t *thread) {
	if i.polls++; i.polls == 1 {
		i.since = t.c.now()
	}
	timed := len(t.timers) > 0 || len(t.gated) > 0
	if t.working > 0 && !timed {
		i.await(t)
		return
	}
	if i.polls < i.look {
		return
	}
	idle := t.c.now() - i.since
	switch {
	case idle < spinFor || i.polls < fewestPolls:
		i.look = i.polls + clockPolls
	case idle < yieldFor:
		runtime.Gosched()
	default:
		d := min(max(i.slept/sleepShare, shortestNap), longestNap)
		if timed {
			d = min(d, attentiveNap)
		}
		i.slept += d
		nap(d)
	}
}

// await waits for a backend.
func (i *idler) await(t *thread) {
	idle := t.c.now() - i.since
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
