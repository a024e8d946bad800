package cudafake

import (
	"encoding/binary"
	"unsafe"
)

// lowest is the first address that can be memory: the runtime, like the
// kernel, keeps the page at 0 free, and a Go pointer below it is a fault.
const lowest = 4096

// pointer makes a pointer of an address that the caller passed as a word. The
// Backend's contract keeps what it names alive and in place.
func pointer(a uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a)) }

// view is the n bytes at address a, which the caller has found to be mapped.
func view(a uintptr, n uint64) []byte { return unsafe.Slice((*byte)(pointer(a)), n) }

// start is the address of b's first byte.
func start(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// word32 and word64 are the words at the start of b, for atomic access.
func word32(b []byte) *uint32 { return (*uint32)(unsafe.Pointer(unsafe.SliceData(b))) }
func word64(b []byte) *uint64 { return (*uint64)(unsafe.Pointer(unsafe.SliceData(b))) }

// Words are read and written as arrays and not as slices, which cannot be made
// of the last addresses: there, too, it is the access that faults.
func get32(a uintptr) uint32    { return binary.NativeEndian.Uint32((*[4]byte)(pointer(a))[:]) }
func get64(a uintptr) uint64    { return binary.NativeEndian.Uint64((*[8]byte)(pointer(a))[:]) }
func put32(a uintptr, v uint32) { binary.NativeEndian.PutUint32((*[4]byte)(pointer(a))[:], v) }
func put64(a uintptr, v uint64) { binary.NativeEndian.PutUint64((*[8]byte)(pointer(a))[:], v) }

// text is the NUL-terminated string at address a, of at most limit bytes; ok
// is false if it is longer.
func text(a uintptr, limit int) (s string, ok bool) {
	p := pointer(a)
	for n := range limit {
		if *(*byte)(unsafe.Add(p, n)) == 0 {
			return string(unsafe.Slice((*byte)(p), n)), true
		}
	}
	return "", false
}
