package soft

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// segmentAddress is where a segment starts.
func segmentAddress(v *unix.Iovec) uintptr { return uintptr(unsafe.Pointer(v.Base)) }

// segmentBytes is a segment as a slice.
func segmentBytes(v *unix.Iovec) []byte { return unsafe.Slice(v.Base, v.Len) }

// segmentOf describes a slice, which must not be empty, as a segment.
func segmentOf(p []byte) unix.Iovec {
	v := unix.Iovec{Base: unsafe.SliceData(p)}
	v.SetLen(len(p))
	return v
}

// alignedBuffer allocates size bytes at a multiple of align, a power of two.
// Go's heap does not move, so the alignment stays.
func alignedBuffer(size, align int) []byte {
	raw := make([]byte, size+align)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(raw)))) & (align - 1)
	return raw[skip : skip+size : skip+size]
}

// advance drops the first n bytes of segments, in place.
func advance(segments []unix.Iovec, n uint64) []unix.Iovec {
	for len(segments) > 0 && n >= segments[0].Len {
		n -= segments[0].Len
		segments = segments[1:]
	}
	if n > 0 && len(segments) > 0 {
		segments[0].Base = (*byte)(unsafe.Add(unsafe.Pointer(segments[0].Base), n))
		segments[0].Len -= n
	}
	return segments
}

// preadv is preadv(2) on iovecs, which package unix offers for slices only.
func preadv(fd int, v []unix.Iovec, off int64) (int, error) {
	return vectorCall(unix.SYS_PREADV, fd, v, off)
}

// pwritev is pwritev(2).
func pwritev(fd int, v []unix.Iovec, off int64) (int, error) {
	return vectorCall(unix.SYS_PWRITEV, fd, v, off)
}

func vectorCall(trap uintptr, fd int, v []unix.Iovec, off int64) (int, error) {
	// The offset's high half, the last argument, is ignored on 64-bit systems.
	n, _, errno := unix.Syscall6(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(v))), uintptr(len(v)), uintptr(off), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
