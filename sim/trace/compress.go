package trace

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
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

// compressedBuffer is how much compressed data is read at a time where a
// decompressor does not buffer it itself.
const compressedBuffer = 64 << 10

// errTrailing means that the compressed data ended and something else follows.
var errTrailing = errors.New("other data follows the compressed data")

// gzipMembers decompresses the members of a gzip file one after the other. It
// goes from one to the next itself, to tell what is no member from a damaged one.
type gzipMembers struct {
	*gzip.Reader
	r *bufio.Reader
}

func gzipReader(r io.Reader, _ []byte) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, compressedBuffer)
	d, err := gzip.NewReader(b)
	if err != nil {
		return nil, err
	}
	d.Multistream(false)
	return &gzipMembers{d, b}, nil
}

// Read implements io.Reader.
func (g *gzipMembers) Read(p []byte) (int, error) {
	n, err := g.Reader.Read(p)
	if err != io.EOF {
		return n, err
	}
	return n, g.next()
}

// next begins the next member, if there is one.
func (g *gzipMembers) next() error {
	start, err := g.r.Peek(len(gzipMagic))
	switch {
	case len(start) == 0 || err != nil && err != io.EOF:
		return err
	case !bytes.HasPrefix(gzipMagic, start):
		return errTrailing
	}
	if err := g.Reset(g.r); err == io.EOF {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	g.Multistream(false)
	return nil
}

func zstdReader(r io.Reader, _ []byte) (io.ReadCloser, error) {
	d, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxDecompressorWindow),
		zstd.WithDecoderMaxMemory(maxDecompressorWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	return &zstdFrames{d: d}, nil
}

// zstdFrames tells other data after the last frame from damage.
type zstdFrames struct{ d *zstd.Decoder }

// Read implements io.Reader.
func (z *zstdFrames) Read(p []byte) (int, error) {
	n, err := z.d.Read(p)
	// The first frame's magic number was there, so it is a later one's.
	if errors.Is(err, zstd.ErrMagicMismatch) {
		err = errTrailing
	}
	return n, err
}

// Close implements io.Closer.
func (z *zstdFrames) Close() error {
	z.d.Close()
	return nil
}
