package iobench

import "unsafe"

// word is a word of memory that the GPU shares, for atomic access.
func word(b []byte, off int) *uint32 { return (*uint32)(unsafe.Pointer(&b[off : off+4][0])) }
