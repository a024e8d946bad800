package vfiofake

import "unsafe"

// memoryAt is the memory that the program named by its address; the program keeps it alive while it is mapped.
func memoryAt(vaddr, size uint64) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&vaddr))), size)
}
