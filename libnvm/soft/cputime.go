package soft

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime is the processor time, user and system, that the service threads have
// used since the controller was made, threads that have ended included. What a
// borrower uses while a thread is lent (Lend) is the borrower's and not in it; nor is
// what helps a thread to make much memory zero.
// It may be called at any time, from any goroutine.
func (c *Controller) CPUTime() time.Duration {
	var sum time.Duration
	for _, t := range c.threads {
		sum += t.clock.used()
	}
	return sum
}

// cpuClock is the processor-time clock of one service thread. The thread starts
// and stops it; anyone may read it.
type cpuClock struct {
	id    atomic.Int32 // of the kernel's clock, 0 before start
	begun int64        // what the thread had used for others before, ns; written before id
	ended atomic.Bool
	final time.Duration // valid once ended is set
}

// threadClock is the kernel's number for the CPU clock of thread tid: the
// complement of the id above three bits that say "scheduler's clock, of one
// thread".
func threadClock(tid int) int32 { return int32(^tid)<<3 | 1<<2 | 2 }

// start begins to count. The runtime may have used this thread before.
func (k *cpuClock) start() {
	id := threadClock(unix.Gettid())
	k.begun = readClock(id)
	k.id.Store(id)
}

func (k *cpuClock) stop() {
	k.final = k.used()
	k.ended.Store(true)
}

func (k *cpuClock) used() time.Duration {
	id := k.id.Load()
	if id == 0 {
		return 0
	}
	d := time.Duration(readClock(id) - k.begun)
	// The thread stops its clock before it ends, so that what was read before
	// this look at ended was its own, not of a thread that got its number since.
	if k.ended.Load() {
		return k.final
	}
	return d
}

// readClock reads a clock in ns; one that is gone reads as zero.
func readClock(id int32) int64 {
	var ts unix.Timespec
	if unix.ClockGettime(id, &ts) != nil {
		return 0
	}
	return ts.Nano()
}
