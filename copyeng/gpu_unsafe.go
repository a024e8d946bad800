package copyeng

import "unsafe"

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
