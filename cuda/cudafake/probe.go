package cudafake

import (
	"fmt"
	"os"
	"runtime/debug"
)

// maxBytes is more than any memory of a process has: 47 bits of addresses are
// the user's on amd64, 48 at most on arm64.
const maxBytes = 1 << 48

// touch reads the byte at address a. It is called where a fault is a panic
// (debug.SetPanicOnFault). The race detector must not see it: the memory's
// owner may be writing.
//
//go:norace
//go:noinline
func touch(a uintptr) byte { return *(*byte)(pointer(a)) }

// readable says whether all of n bytes at address a can be read.
func readable(a uintptr, n uint64) (ok bool) {
	if n == 0 {
		return true
	}
	last := a + uintptr(n-1)
	if a < lowest || n > maxBytes || last < a {
		return false
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { ok = recover() == nil }()
	page := uintptr(os.Getpagesize())
	for at := a; at < last; at += page - at%page {
		touch(at)
	}
	touch(last)
	return true
}

// describe says what a panic was: a fault at memory that is not there, or else
// an error of the fake's own, with the stack.
func describe(panicked any) string {
	if f, ok := panicked.(interface{ Addr() uintptr }); ok {
		return fmt.Sprintf("memory of the host that is not there: fault at %#x", f.Addr())
	}
	return fmt.Sprintf("panic: %v\n%s", panicked, debug.Stack())
}
