package bamio

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// threadTime measures the processor time of a goroutine between begin and end, which
// keep it on one thread meanwhile. It is no use across a wait: the goroutine would
// have to come back to that thread, which takes longer.
type threadTime struct {
	on   bool
	from int64 // ns
}

// begin starts, unless it was started.
func (t *threadTime) begin() {
	if !t.on {
		runtime.LockOSThread()
		t.on, t.from = true, threadClock()
	}
}

// end returns the nanoseconds since begin; 0 without one.
func (t *threadTime) end() int64 {
	if !t.on {
		return 0
	}
	ns := threadClock() - t.from
	t.on = false
	runtime.UnlockOSThread()
	return max(ns, 0)
}

// threadClock reads the thread's clock; 0 where there is none.
func threadClock() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return ts.Nano()
}
