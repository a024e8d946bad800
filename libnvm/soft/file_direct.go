package soft

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// directAlign is what O_DIRECT wants of memory addresses, and of offsets and
// lengths, in bytes. The zero value wants nothing: the page cache is in use.
type directAlign struct {
	mem, offset int
}

// fits reports whether the memory can be moved without a bounce buffer.
func (a directAlign) fits(segments []unix.Iovec) bool {
	if a.mem == 0 {
		return true
	}
	for i := range segments {
		if segmentAddress(&segments[i])%uintptr(a.mem) != 0 || segments[i].Len%uint64(a.offset) != 0 {
			return false
		}
	}
	return true
}

// goDirect turns O_DIRECT on where the file system and the block size allow it,
// and else notes why not.
func (b *File) goDirect() error {
	if b.o.Direct == DirectOff {
		b.noDirect = "switched off"
		return nil
	}
	align, reason := b.probeDirect()
	if reason == "" {
		b.align = align
		return nil
	}
	if b.o.Direct == DirectRequire {
		return fmt.Errorf("soft: %s: O_DIRECT is not possible: %s", b.path, reason)
	}
	b.noDirect = reason
	return b.setDirect(false)
}

// setDirect switches O_DIRECT on the open descriptor.
func (b *File) setDirect(on bool) error {
	flags, err := unix.FcntlInt(uintptr(b.fd), unix.F_GETFL, 0)
	if err != nil {
		return fmt.Errorf("soft: flags of %s: %w", b.path, err)
	}
	flags &^= unix.O_DIRECT
	if on {
		flags |= unix.O_DIRECT
	}
	if _, err := unix.FcntlInt(uintptr(b.fd), unix.F_SETFL, flags); err != nil {
		return fmt.Errorf("soft: O_DIRECT on %s: %w", b.path, err)
	}
	return nil
}

// probeDirect asks the kernel (statx, from 6.1 on) or tries reads with growing
// alignment.
func (b *File) probeDirect() (directAlign, string) {
	if err := b.setDirect(true); err != nil {
		return directAlign{}, "the file system does not support it"
	}
	align, known := b.statDirect()
	if !known {
		align = directAlign{}
		for size := 512; size <= 65536 && align.mem == 0; size *= 2 {
			if b.tryDirect(size) {
				align = directAlign{size, size}
			}
		}
	}
	switch {
	case align.mem == 0:
		return align, "the file system does not support it"
	case b.o.BlockSize%align.offset != 0:
		return align, fmt.Sprintf("blocks of %d bytes, but the device needs multiples of %d", b.o.BlockSize, align.offset)
	case !b.tryDirect(max(align.offset, align.mem)):
		return align, "a first read failed"
	}
	return align, ""
}

// statDirect reads the alignment from statx; false when the kernel is too old
// to say. Zeroes mean that O_DIRECT does not work on this file.
func (b *File) statDirect() (directAlign, bool) {
	var st unix.Statx_t
	err := unix.Statx(b.fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st)
	if err != nil || st.Mask&unix.STATX_DIOALIGN == 0 {
		return directAlign{}, false
	}
	return directAlign{int(st.Dio_mem_align), int(st.Dio_offset_align)}, true
}

// tryDirect reads size bytes from the start into memory aligned to size.
func (b *File) tryDirect(size int) bool {
	n, err := b.f.ReadAt(alignedBuffer(size, size), 0)
	return n > 0 && (err == nil || errors.Is(err, io.EOF))
}
