package vfio

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

func (kernel) Ioctl(fd int, request uint32, arg []byte) (int, error) {
	r, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(unsafe.SliceData(arg))))
	runtime.KeepAlive(arg)
	if e != 0 {
		return -1, e
	}
	return int(r), nil
}

func (kernel) IoctlValue(fd int, request uint32, value uintptr) (int, error) {
	r, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), value)
	if e != 0 {
		return -1, e
	}
	return int(r), nil
}

// bytesOf is the memory of one of the structures of abi.go, none of which holds a pointer.
func bytesOf[T any](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

// sizeOf is the number that the structure's first field carries.
func sizeOf[T any](p *T) uint32 { return uint32(unsafe.Sizeof(*p)) }

// address is where a mapped buffer lies in this process.
func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// rangesAddress is where the kernel writes ranges to; the caller keeps them alive.
func rangesAddress(r []iovaRange) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(r)))) }
