// Package nap sleeps for less than a millisecond.
package nap

import (
	"runtime"
	"syscall"
	"time"
)

// For sleeps for d, which is short. time.Sleep would not do: on an otherwise
// idle program it waits in whole milliseconds, which is longer than most
// copies take.
func For(d time.Duration) {
	// The sleep holds on to the processor until the runtime notices, so
	// whoever is waiting for it goes first.
	runtime.Gosched()
	ts := syscall.NsecToTimespec(d.Nanoseconds())
	// An early end by a signal is just another query.
	_ = syscall.Nanosleep(&ts, nil)
}
