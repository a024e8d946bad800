//go:build linux

package pinned

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mincore tells which pages are in memory: bit 0 of a byte for each.
func mincore(mem, in []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mem[0])), uintptr(len(mem)), uintptr(unsafe.Pointer(&in[0])))
	if errno != 0 {
		return errno
	}
	for i := range in {
		in[i] &= 1
	}
	return nil
}
