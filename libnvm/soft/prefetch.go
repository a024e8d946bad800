//go:build amd64 || arm64

package soft

import "unsafe"

// prefetch asks for n bytes at p, at least one, to be brought into the cache. It
// is only a hint: it never waits and never faults.
//
//go:noescape
func prefetch(p unsafe.Pointer, n uintptr)
