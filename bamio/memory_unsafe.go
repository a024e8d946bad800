package bamio

import (
	"sync/atomic"
	"unsafe"

	"github.com/tritier/tritier/bamio/layout"
)

// view is n bytes at p: rings and doorbells, which libnvm keeps mapped as long
// as the queue pair is open.
func view(p unsafe.Pointer, n int) []byte { return unsafe.Slice((*byte)(p), n) }

// before is the address n bytes before p: of a register's page, in the mapping
// that p lies in.
func before(p unsafe.Pointer, n int) unsafe.Pointer { return unsafe.Add(p, -n) }

// load32 reads a word that a GPU or a controller may be writing.
func load32(b []byte, off int) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[off : off+4][0])))
}

// load64 reads two words, of an entry that may be half written.
func load64(b []byte, off int) uint64 {
	return uint64(load32(b, off)) | uint64(load32(b, off+4))<<32
}

// store32 writes a word that a GPU reads meanwhile, after all that was written before.
func store32(b []byte, off int, v uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[off : off+4][0])), v)
}

// loadPointer reads a doorbell.
func loadPointer(p unsafe.Pointer) uint32 { return atomic.LoadUint32((*uint32)(p)) }

// record is what the image of GPU memory and its copies consist of.
type record interface {
	layout.Cid | layout.Queue | layout.Drive | layout.Engine | layout.RequestRing | layout.Request | uint32
}

// recordsIn is memory as n records from off on. Memory and off are aligned for
// them: images are made of 64-bit words and pinned memory of pages.
func recordsIn[T record](b []byte, off, n int) []T {
	var t T
	b = b[off : off+n*int(unsafe.Sizeof(t))]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// words is n bytes of zeroed memory, rounded up and aligned to 8.
func words(n int) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), len(w)*8)
}
