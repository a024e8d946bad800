package volume

import (
	"encoding/binary"
)

const (
	tableMagic   = 0x4d555354 // "TSUM"
	tableBlock   = 4096
	tableHeader  = 32
	sumsPerBlock = (tableBlock - tableHeader) / 8

	// tornMark is recorded instead of a checksum for a page whose write was
	// interrupted.
	tornMark = 1<<64 - 1
)

// sumBlock is a block of the checksum table: the checksums of sumsPerBlock page
// slots in a row on one member. It is stored twice; a new version replaces the
// older copy, so that a crash in the middle leaves the newer one.
type sumBlock struct {
	sums   [sumsPerBlock]uint64
	gen    uint64
	newest int // 0 or 1: the copy that holds gen
	dirty  bool
}

// encode fills the 4 KiB at p with the block as generation gen.
func (b *sumBlock) encode(uuid [16]byte, index int, gen uint64, p []byte) {
	le := binary.LittleEndian
	le.PutUint32(p, tableMagic)
	le.PutUint32(p[4:], FormatVersion)
	le.PutUint64(p[8:], uint64(index))
	le.PutUint64(p[16:], gen)
	for i, s := range b.sums {
		le.PutUint64(p[tableHeader+8*i:], s)
	}
	le.PutUint64(p[24:], 0)
	le.PutUint64(p[24:], seeded(uuid, p[:tableBlock]))
}

// decodeSums reads one copy; nil when it is damaged. A copy that was never
// written is all zeroes: generation 0, every page zero.
func decodeSums(uuid [16]byte, index int, p []byte) *sumBlock {
	le := binary.LittleEndian
	b := new(sumBlock)
	if allZero(p) {
		return b
	}
	want := le.Uint64(p[24:])
	le.PutUint64(p[24:], 0)
	if le.Uint32(p) != tableMagic || le.Uint32(p[4:]) != FormatVersion || le.Uint64(p[8:]) != uint64(index) || want != seeded(uuid, p[:tableBlock]) {
		return nil
	}
	b.gen = le.Uint64(p[16:])
	for i := range b.sums {
		b.sums[i] = le.Uint64(p[tableHeader+8*i:])
	}
	return b
}

func allZero(p []byte) bool {
	for _, x := range p {
		if x != 0 {
			return false
		}
	}
	return true
}

// pickSums chooses between the two copies. damaged says that one of them is
// not valid: after a crash that is the copy that was being written; on a volume
// that was closed properly the storage has changed it.
func pickSums(uuid [16]byte, index int, p []byte) (b *sumBlock, damaged bool) {
	first, second := decodeSums(uuid, index, p[:tableBlock]), decodeSums(uuid, index, p[tableBlock:2*tableBlock])
	damaged = first == nil || second == nil
	if first == nil || second != nil && second.gen > first.gen {
		if b = second; b != nil {
			b.newest = 1
		}
		return b, damaged
	}
	return first, damaged
}
