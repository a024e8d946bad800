package copyeng

import "unsafe"

// alignedMemory gives zeroed memory of Go's heap that begins at a multiple of
// hostAlign: Go's collector does not move what it has allocated.
func alignedMemory(size uint64) []byte {
	mem := make([]byte, size+hostAlign-1)
	skip := -uintptr(unsafe.Pointer(&mem[0])) % hostAlign
	return mem[skip:][:size:size]
}

// addressOf is where memory lies, which must not be empty.
func addressOf(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }
