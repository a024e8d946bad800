package trace

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// maxDecompressorWindow bounds the memory that a compressed file can ask of its
// decompressor: zstd --long=30, an xz dictionary of 1 GiB.
const maxDecompressorWindow = 1 << 30

var (
	gzipMagic = []byte{0x1f, 0x8b, 8}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	xzMagic   = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
)

// isZstd tells a zstd stream: a frame, or one of the 16 skippable frames.
func isZstd(b []byte) bool {
	return bytes.HasPrefix(b, zstdMagic) ||
		len(b) >= 4 && b[0]&0xf0 == 0x50 && b[1] == 0x2a && b[2] == 0x4d && b[3] == 0x18
}

// decompress puts a decompressor below in if the input starts with the magic
// number of one. The buffered bytes become part of the compressed stream.
func decompress(in *input) *Error {
	buf, err := in.peek(32)
	if err != nil {
		return in.fault("", err)
	}
	open, name := gzipReader, "gzip"
	switch {
	case bytes.HasPrefix(buf, gzipMagic):
	case isZstd(buf):
		open, name = zstdReader, "zstd"
	case bytes.HasPrefix(buf, xzMagic):
		open, name = xzReader, "xz"
	default:
		return nil
	}
	// What peek read belongs to the compressed stream.
	compressed := io.MultiReader(bytes.NewReader(bytes.Clone(in.window())), in.src)
	in.r, in.w, in.off, in.last, in.size = 0, 0, 0, false, -1
	in.compression = name
	dec, err := open(compressed, buf)
	if err != nil {
		return in.fault("", err)
	}
	in.src = dec
	in.closers = append(in.closers, dec)
	return nil
}

func gzipReader(r io.Reader, _ []byte) (io.ReadCloser, error) { return gzip.NewReader(r) }

func zstdReader(r io.Reader, _ []byte) (io.ReadCloser, error) {
	d, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxDecompressorWindow),
		zstd.WithDecoderMaxMemory(maxDecompressorWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}

func xzReader(r io.Reader, head []byte) (io.ReadCloser, error) {
	// The xz library allocates the dictionary that the first block header asks
	// for before it has read any data, so the size is checked first.
	if n := xzDictionary(head); n > maxDecompressorWindow {
		return nil, fmt.Errorf("it needs a dictionary of %d MiB, more than the limit of %d MiB", n>>20, maxDecompressorWindow>>20)
	}
	d, err := xz.NewReader(r)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(d), nil
}

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
