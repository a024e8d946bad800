//go:build linux

package pinned

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// address is where mem begins.
func address(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }

// reserve maps more than asked and cuts both ends off, since mmap aligns to pages only.
func (linux) reserve(size, align uint64) ([]byte, error) {
	whole := size + align
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(whole), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	all := unsafe.Slice((*byte)(p), whole)
	head := -address(all) & (align - 1)
	err = errors.Join(linux{}.release(all[:head]), linux{}.release(all[head+size:]))
	if err != nil {
		return nil, errors.Join(err, linux{}.release(all))
	}
	return all[head : head+size : head+size], nil
}

func (linux) release(mem []byte) error {
	if len(mem) == 0 {
		return nil
	}
	return os.NewSyscallError("munmap", unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem))))
}

func (linux) blank(mem []byte) error {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)), unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED|unix.MAP_NORESERVE)
	return os.NewSyscallError("mmap", err)
}

func (linux) bind(mem []byte, policy Policy, node int) error {
	mode := unix.MPOL_PREFERRED
	if policy == PolicyBound {
		mode = unix.MPOL_BIND
	}
	mask := make([]uint64, node/64+1)
	mask[node/64] = 1 << (node % 64)
	// The kernel takes one bit less than maxnode says.
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)), uintptr(mode),
		uintptr(unsafe.Pointer(&mask[0])), uintptr(len(mask)*64+1), 0)
	if errno != 0 {
		return os.NewSyscallError("mbind", errno)
	}
	return nil
}

func (linux) nodesOf(mem []byte, offsets []uint64) ([]int, error) {
	if len(offsets) == 0 {
		return nil, nil
	}
	pages := make([]unsafe.Pointer, len(offsets))
	for i, off := range offsets {
		pages[i] = unsafe.Pointer(&mem[off])
	}
	status := make([]int32, len(offsets))
	// Without target nodes the call moves nothing and only reports.
	_, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, 0, uintptr(len(pages)), uintptr(unsafe.Pointer(&pages[0])), 0, uintptr(unsafe.Pointer(&status[0])), 0)
	if errno != 0 {
		return nil, os.NewSyscallError("move_pages", errno)
	}
	nodes := make([]int, len(status))
	for i, s := range status {
		nodes[i] = int(s)
	}
	return nodes, nil
}
