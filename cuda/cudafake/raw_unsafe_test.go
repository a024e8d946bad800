package cudafake

import (
	"sync/atomic"
	"unsafe"
)

// escaped holds the latest bytes that calls were given.
var (
	escaped [256]atomic.Pointer[byte]
	latest  atomic.Uint32
)

// addr is the address of b's first byte, for a call to use soon. It makes b
// escape: the driver's arguments must be in the heap, since the stack moves;
// and keeps it alive for a while.
func addr(b []byte) uintptr {
	escaped[latest.Add(1)%256].Store(unsafe.SliceData(b))
	return start(b)
}
