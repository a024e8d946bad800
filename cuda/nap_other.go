//go:build !linux

package cuda

import "time"

// nap sleeps for d.
func nap(d time.Duration) { time.Sleep(d) }
