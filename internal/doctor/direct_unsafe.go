package doctor

import "unsafe"

// aligned is a buffer whose address is a multiple of its size, as O_DIRECT wants it.
func aligned(size int) []byte {
	b := make([]byte, 2*size)
	skip := (size - int(uintptr(unsafe.Pointer(&b[0]))%uintptr(size))) % size
	return b[skip : skip+size : skip+size]
}
