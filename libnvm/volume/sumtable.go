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
	// unknownMark is recorded for a page whose checksum was lost, with both copies
	// of its block. The next write of the page replaces it.
	unknownMark = 1<<64 - 2
)

// sumBlock is a block of the checksum table: the checksums of sumsPerBlock page
// slots in a row on one member. It is stored twice; a new version replaces one
// copy and, once that is durable, the other, so that one is always whole.
type sumBlock struct {
	sums   [sumsPerBlock]uint64
	gen    uint64
	newest int // 0 or 1: a copy that is whole, to be replaced last
	dirty  bool
	// counted says, of a dirty block, that copies which are not as they should be
	// are in tableFaults, or are those of a checkpoint that failed.
	counted bool
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

// pickSums chooses between the two copies and says how many have to be written
// anew. Both hold the same generation except while a checkpoint writes them, and
// then the intent log has what the older one lacks: any valid copy will do. A
// block without one is unknown, see unknownMark.
func pickSums(uuid [16]byte, index int, p []byte) (b *sumBlock, stale int) {
	first, second := decodeSums(uuid, index, p[:tableBlock]), decodeSums(uuid, index, p[tableBlock:2*tableBlock])
	switch {
	case first == nil && second == nil:
		b = new(sumBlock)
		for i := range b.sums {
			b.sums[i] = unknownMark
		}
		return b, 2
	case first == nil || second != nil && second.gen > first.gen:
		second.newest = 1
		return second, 1
	case second == nil || first.gen > second.gen || first.sums != second.sums:
		return first, 1
	}
	return first, 0
}
