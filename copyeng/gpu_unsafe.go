package copyeng

import (
	"fmt"
	"unsafe"

	"github.com/tritier/tritier/cuda"
)

// deviceAddress is where the GPU finds the first byte of pinned memory. No
// memory of Go's heap can pass: it is not pinned.
func (g *GPU) deviceAddress(mem []byte) (uint64, error) {
	at := uintptr(unsafe.Pointer(&mem[0]))
	info, err := g.ctx.PointerInfo(cuda.Ptr(at))
	if err != nil {
		return 0, fmt.Errorf("copy engine: host memory: %w", err)
	}
	if info.Type != cuda.MemoryHost || info.DevicePtr == 0 {
		return 0, &BatchError{"host space", "is not pinned and mapped: allocate it with AllocateHost or register it (cuda.Context.RegisterHost)"}
	}
	return uint64(info.DevicePtr), nil
}

// hostPage is the address of a page as the CPU sees it.
func (s *Space) hostPage(n uint32, shift int) unsafe.Pointer {
	return s.at(uint64(n) << shift)
}

// at is the address of a byte as the CPU sees it.
func (s *Space) at(offset uint64) unsafe.Pointer { return unsafe.Pointer(&s.bytes[offset]) }

// pairsOf is the memory of a list as pairs.
func pairsOf(mem []byte) []Pair {
	return unsafe.Slice((*Pair)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/8)
}
