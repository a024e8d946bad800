package pci

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// signatures are the marks of partition tables, file systems and volume managers: a byte string at an offset. Offsets are those of the
// formats' own descriptions; tables of a drive with 4 KiB blocks are at multiples of 4096 instead of 512.
var signatures = []struct {
	name   string
	offset int64
	mark   string
}{
	{"GPT partition table", 512, "EFI PART"},
	{"GPT partition table", 4096, "EFI PART"},
	{"LUKS encrypted volume", 0, "LUKS\xba\xbe"},
	{"LVM physical volume", 512, "LABELONE"},
	{"LVM physical volume", 0, "LABELONE"},
	{"LVM physical volume", 1024, "LABELONE"},
	{"LVM physical volume", 1536, "LABELONE"},
	{"Linux RAID member", 4096, "\xfc\x4e\x2b\xa9"},
	{"Linux RAID member", 0, "\xfc\x4e\x2b\xa9"},
	{"ext2, ext3 or ext4 file system", 1080, "\x53\xef"},
	{"XFS file system", 0, "XFSB"},
	{"Btrfs file system", 65600, "_BHRfS_M"},
	{"F2FS file system", 1024, "\x10\x20\xf5\xf2"},
	{"swap area", 4086, "SWAPSPACE2"},
	{"bcache member", 4120, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf7\x7f\x48\xba\x6d\x81"},
	{"NTFS file system", 3, "NTFS    "},
	{"exFAT file system", 3, "EXFAT   "},
	{"MBR partition table or boot sector", 510, "\x55\xaa"}, // last: FAT, NTFS and GPT have one too
}

// signatureBytes is how much of a drive's beginning is looked at.
const signatureBytes = 68 << 10

// Signature names what is written at the beginning of a drive, or "" when nothing known is.
func Signature(r io.ReaderAt) (string, error) {
	b := make([]byte, signatureBytes)
	n, err := r.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	b = b[:n]
	for _, s := range signatures {
		if end := s.offset + int64(len(s.mark)); end <= int64(len(b)) && bytes.Equal(b[s.offset:end], []byte(s.mark)) {
			return s.name, nil
		}
	}
	return "", nil
}

func signatureOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	s, err := Signature(f)
	if err != nil {
		return "", fmt.Errorf("reading its first blocks: %w", err)
	}
	return s, nil
}
