package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
)

const (
	// quietHeap is the memory up to which the collector stays off.
	quietHeap = 64 << 20
	// garbagePercent is the garbage allowed on top of live memory afterwards.
	// Nearly all of the heap is tables without pointers, so a collection costs
	// next to nothing, and a table that was outgrown goes soon.
	garbagePercent = 25
)

// userMemoryLimit is the limit that GOMEMLIMIT sets, or math.MaxInt64.
var userMemoryLimit int64 = math.MaxInt64

// deferCollection keeps the garbage collector off until the process has used
// 64 MiB, unless the environment tunes it: its first cycles, a few megabytes
// apart, would take longer than reading a short trace. The first cycle, which
// the temporary memory limit starts, turns it on.
func deferCollection() {
	userMemoryLimit = debug.SetMemoryLimit(-1)
	if os.Getenv("GOGC") != "" || userMemoryLimit != math.MaxInt64 {
		return
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(quietHeap)
	sentinel := new([16]byte)
	runtime.AddCleanup(sentinel, func(percent int) {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(math.MaxInt64)
	}, garbagePercent)
}
