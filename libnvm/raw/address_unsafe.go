package raw

import "unsafe"

// address is where b lies in this process.
func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
