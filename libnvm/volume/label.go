package volume

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// FormatVersion is the version of the on-disk format, see FORMAT.md.
const FormatVersion = 2

const (
	labelMagic = "TRITIERV"
	labelSize  = 4096
	// MaxMembers bounds the members of a volume.
	MaxMembers = 32
	// MinPageSize and MaxPageSize bound the page size, a power of two.
	MinPageSize = 512
	MaxPageSize = 16 << 20

	dirOffset = 64 << 10 // the directory's first slot
	dirSlot   = 64 << 10
	logOffset = dirOffset + 2*dirSlot
)

// label is the superblock of one member: what never changes. It is stored
// little-endian, twice, in the first 8 KiB.
type label struct {
	Magic       [8]byte
	Version     uint32
	Member      uint32 // index of this member
	UUID        [16]byte
	PageSize    uint32
	Members     uint32
	Checksums   uint32 // 1: pages have checksums
	LogUnit     uint32 // bytes of an intent log unit
	LogHalf     uint64 // bytes of each half of the intent log; 0 without checksums
	TableOffset uint64 // bytes; the checksum table
	TableBlocks uint64 // blocks of it, each stored twice
	DataOffset  uint64 // bytes; the first page slot
	Slots       uint64 // page slots on each member
	Identities  [MaxMembers]diskIdentity
}

// diskIdentity is Identity on the disk.
type diskIdentity struct {
	Serial [40]byte
	NSID   uint32
	_      uint32
	UUID   [16]byte
}

func toDisk(id Identity) (d diskIdentity) {
	copy(d.Serial[:], id.Serial)
	d.NSID, d.UUID = id.NSID, id.UUID
	return d
}

func (d *diskIdentity) identity() Identity {
	return Identity{string(bytes.TrimRight(d.Serial[:], "\x00")), d.NSID, d.UUID}
}

// encode fills the 4 KiB at p; the last eight bytes are the checksum.
func (l *label) encode(p []byte) error {
	clear(p[:labelSize])
	if _, err := binary.Encode(p[:labelSize-8], binary.LittleEndian, l); err != nil {
		return fmt.Errorf("volume: encode label: %w", err)
	}
	binary.LittleEndian.PutUint64(p[labelSize-8:], xxhash.Sum64(p[:labelSize-8]))
	return nil
}

// decodeLabel reads a label; reason says what is wrong with it.
func decodeLabel(p []byte) (l *label, reason string) {
	if string(p[:8]) != labelMagic {
		return nil, "it holds no volume (no superblock magic)"
	}
	l = new(label)
	if _, err := binary.Decode(p[:labelSize-8], binary.LittleEndian, l); err != nil {
		return nil, err.Error()
	}
	if binary.LittleEndian.Uint64(p[labelSize-8:]) != xxhash.Sum64(p[:labelSize-8]) {
		return nil, "its superblock is damaged (checksum)"
	}
	if l.Version != FormatVersion {
		return nil, fmt.Sprintf("format version %d, this program reads version %d: use the program that made it, or create the volume anew", l.Version, FormatVersion)
	}
	return l, ""
}

// check refuses a label that hostile or buggy hands have written: every number
// that is used later in arithmetic is bounded here.
func (l *label) check(size int64, blockSize int) string {
	const most = 1 << 62
	switch {
	case bits.OnesCount32(l.PageSize) != 1 || l.PageSize < MinPageSize || l.PageSize > MaxPageSize || int(l.PageSize)%blockSize != 0:
		return fmt.Sprintf("page size %d does not fit blocks of %d", l.PageSize, blockSize)
	case l.Members < 1 || l.Members > MaxMembers || l.Member >= l.Members:
		return fmt.Sprintf("member %d of %d", l.Member, l.Members)
	case l.DataOffset%uint64(max(l.PageSize, 4096)) != 0 || l.DataOffset > most || l.Slots > most/uint64(l.PageSize) || l.Slots == 0:
		return "its data area is out of range"
	case l.DataOffset+l.Slots*uint64(l.PageSize) > uint64(size):
		return fmt.Sprintf("it is smaller (%d bytes) than the volume that was made on it", size)
	case l.Checksums > 1:
		return "unknown checksum state"
	case l.Checksums == 1 && !l.checksumsFit(blockSize):
		return "its checksum areas are out of range"
	}
	return ""
}

func (l *label) checksumsFit(blockSize int) bool {
	return l.LogUnit >= minLogUnit && l.LogUnit <= 65536 && int(l.LogUnit)%blockSize == 0 &&
		l.LogHalf >= uint64(l.LogUnit) && l.LogHalf <= 1<<30 && l.LogHalf%uint64(l.LogUnit) == 0 &&
		l.TableBlocks == (l.Slots+sumsPerBlock-1)/sumsPerBlock &&
		l.TableOffset%4096 == 0 && l.TableOffset >= logOffset+2*l.LogHalf && l.TableOffset < l.DataOffset &&
		l.TableBlocks <= (l.DataOffset-l.TableOffset)/(2*tableBlock)
}

// plan lays a volume out over members: areas and slots are the same on each.
func (l *label) plan(smallest int64) error {
	align := uint64(max(l.PageSize, 1<<20))
	l.TableOffset = logOffset + 2*l.LogHalf
	fits := func(slots uint64) bool {
		l.Slots = slots
		end := l.TableOffset
		if l.Checksums == 1 {
			l.TableBlocks = (slots + sumsPerBlock - 1) / sumsPerBlock
			end += l.TableBlocks * 2 * tableBlock
		}
		l.DataOffset = (end + align - 1) / align * align
		return l.DataOffset+slots*uint64(l.PageSize) <= uint64(smallest)
	}
	lo, hi := uint64(0), uint64(smallest)/uint64(l.PageSize)+1
	for hi-lo > 1 { // the largest number of slots that fits lies in [lo, hi)
		if mid := (lo + hi) / 2; fits(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	if lo == 0 || !fits(lo) {
		fits(1)
		return fmt.Errorf("volume: the smallest member has %d bytes, but one page of %d and the metadata take %d: use a larger one, or smaller pages",
			smallest, l.PageSize, l.DataOffset+uint64(l.PageSize))
	}
	return nil
}
