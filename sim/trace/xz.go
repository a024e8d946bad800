package trace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

// xzReader decompresses xz streams and refuses data that is cut off anywhere:
// the library takes an end where a block header or the index should start, or
// inside a block header, as the end of the trace.
func xzReader(r io.Reader, head []byte) (io.ReadCloser, error) {
	// The xz library allocates the dictionary that the first block header asks
	// for before it has read any data, so the size is checked first.
	if n := xzDictionary(head); n > maxDecompressorWindow {
		return nil, fmt.Errorf("it needs a dictionary of %d MiB, more than the limit of %d MiB", n>>20, maxDecompressorWindow>>20)
	}
	// The library reads byte by byte, and makes each block's dictionary as large
	// as the configuration says or the block's header, whichever is more.
	d, err := xz.ReaderConfig{DictCap: lzma.MinDictCap}.NewReader(bufio.NewReaderSize(&xzEnd{r: r}, compressedBuffer))
	if err != nil {
		return nil, err
	}
	return io.NopCloser(xzTrailing{d}), nil
}

// xzFooter is the size of a stream footer (xz file format 1.2.1, section 2.1.2):
// CRC-32 of what follows it, size of the index in units of 4 bytes, less one,
// flags, "YZ".
const xzFooter = 12

// xzEnd passes compressed bytes on and turns an end that does not come after a
// stream footer, and any stream padding, into io.ErrUnexpectedEOF. It keeps the
// last bytes that it has seen: no seeking is needed. A cut leaves the last
// bytes of a header, of packed data, of a check or of an index before it, which
// pass for a footer with its checksum and magic number once in 2^64 cuts.
type xzEnd struct {
	r     io.Reader
	tail  []byte // last xzFooter bytes before the zeros
	zeros int64  // bytes of 0 at the end of what was read
}

// Read implements io.Reader.
func (x *xzEnd) Read(p []byte) (int, error) {
	n, err := x.r.Read(p)
	x.note(p[:n])
	if err == io.EOF && n == 0 && !x.complete() {
		err = io.ErrUnexpectedEOF
	} else if err == io.EOF && n > 0 {
		err = nil // the next call finds the end
	}
	return n, err
}

// note keeps the tail of what was read.
func (x *xzEnd) note(p []byte) {
	last := len(p)
	for last > 0 && p[last-1] == 0 {
		last--
	}
	if last == 0 {
		x.zeros += int64(len(p))
		return
	}
	x.tail = append(x.tail, make([]byte, min(x.zeros, xzFooter))...)
	x.tail = append(x.tail, p[max(0, last-xzFooter):last]...)
	x.tail = append(x.tail[:0], x.tail[max(0, len(x.tail)-xzFooter):]...)
	x.zeros = int64(len(p) - last)
}

// complete says whether a stream ends here.
func (x *xzEnd) complete() bool {
	f := x.tail
	return len(f) == xzFooter && x.zeros%4 == 0 && string(f[10:]) == "YZ" &&
		crc32.ChecksumIEEE(f[4:10]) == binary.LittleEndian.Uint32(f)
}

// xzTrailing tells other data after the last stream from damage.
type xzTrailing struct{ *xz.Reader }

// Read implements io.Reader.
func (x xzTrailing) Read(p []byte) (int, error) {
	n, err := x.Reader.Read(p)
	// The first stream's magic number was there, so it is a later one's.
	if err != nil && err != io.EOF && errors.Is(err, xzBadMagic) {
		err = errTrailing
	}
	return n, err
}

// xzBadMagic is the library's error for a stream that starts with something
// else; it has no exported name.
var _, xzBadMagic = xz.NewReader(strings.NewReader("not a header"))

// xzDictionary is the LZMA2 dictionary size in the first block header of an xz
// stream (xz file format 1.2.1, sections 3.1 and 5.3.1), or 0 when none is seen.
func xzDictionary(head []byte) uint64 {
	const blockHeader = 12 // after the stream header
	if len(head) < blockHeader+2 {
		return 0
	}
	b := head[blockHeader+2:]
	for _, flag := range []byte{0x40, 0x80} { // compressed size, uncompressed size
		if head[blockHeader+1]&flag == 0 {
			continue
		}
		for len(b) > 0 && b[0]&0x80 != 0 {
			b = b[1:]
		}
		b = b[min(1, len(b)):]
	}
	if len(b) < 3 || b[0] != 0x21 || b[1] != 1 || b[2] > 40 {
		return 0
	}
	if b[2] == 40 {
		return 1<<32 - 1
	}
	return uint64(2|b[2]&1) << (b[2]/2 + 11)
}
