package cudafake

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// reserve takes size bytes of address space without memory behind it.
func reserve(size uintptr) (uintptr, error) {
	p, err := unix.MmapPtr(-1, 0, nil, size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return 0, fmt.Errorf("reserve %d bytes of address space: %w", size, err)
	}
	return uintptr(p), nil
}

// commit puts zeroed memory at [first, last) of a reserved range: private, or
// that of the file fd if it is not negative.
func commit(first, last uintptr, fd int) error {
	flags := unix.MAP_FIXED | unix.MAP_PRIVATE | unix.MAP_ANON
	if fd >= 0 {
		flags = unix.MAP_FIXED | unix.MAP_SHARED
	}
	_, err := unix.MmapPtr(fd, 0, pointer(first), last-first, unix.PROT_READ|unix.PROT_WRITE, flags)
	return err
}

// decommit gives the memory back and leaves the addresses reserved, so that an
// access faults instead of finding somebody else's data.
func decommit(first, last uintptr) error {
	_, err := unix.MmapPtr(-1, 0, pointer(first), last-first, unix.PROT_NONE,
		unix.MAP_FIXED|unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	return err
}

func unreserve(base, size uintptr) error { return unix.MunmapPtr(pointer(base), size) }

// newFile makes a file in memory of size bytes.
func newFile(size uintptr) (int, error) {
	fd, err := unix.MemfdCreate("cudafake", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("ftruncate", err)
	}
	return fd, nil
}
