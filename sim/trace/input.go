package trace

import (
	"errors"
	"io"
	"sync/atomic"
)

const (
	// headBytes is how much of the decompressed input is looked at to detect
	// the format.
	headBytes   = 256 << 10
	firstWindow = 4 << 10
	// maxWindow is the longest line of a text format, and the largest block of
	// a binary one, that a reader accepts.
	maxWindow = 64 << 20
)

// input is the decompressed byte stream of one trace with a sliding window.
type input struct {
	path        string
	compression string // empty when not compressed
	src         io.Reader
	raw         *countingReader // the compressed bytes below src
	total       int64           // size of the compressed input; 0 when unknown
	size        int64           // decompressed size; -1 when unknown
	closers     []io.Closer     // closed in reverse order

	buf  []byte
	r, w int   // the window is buf[r:w]
	off  int64 // offset of buf[r] in the decompressed stream
	last bool  // src is exhausted: no bytes follow buf[w]
}

// countingReader counts bytes for a progress bar, which may run in another
// goroutine: hence atomic. No other memory is published through the count.
type countingReader struct {
	r io.Reader
	n atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// window returns the bytes that are buffered and not yet consumed.
func (in *input) window() []byte { return in.buf[in.r:in.w] }

// advance consumes n bytes of the window.
func (in *input) advance(n int) {
	in.r += n
	in.off += int64(n)
}

var errWindowFull = errors.New("window is full")

// fill makes the window longer by at least one byte, or sets last.
func (in *input) fill() error {
	if in.last {
		return nil
	}
	if in.r > 0 {
		copy(in.buf, in.buf[in.r:in.w])
		in.w -= in.r
		in.r = 0
	}
	if in.w == len(in.buf) {
		if len(in.buf) >= maxWindow {
			return errWindowFull
		}
		// Small at first, for inputs that are small.
		grown := make([]byte, min(max(4*len(in.buf), firstWindow), maxWindow))
		copy(grown, in.buf[:in.w])
		in.buf = grown
	}
	// A reader that keeps returning nothing must not hang the caller.
	for range 100 {
		n, err := in.src.Read(in.buf[in.w:])
		in.w += n
		if err == io.EOF {
			in.last = true
			return nil
		}
		if err != nil {
			return err
		}
		if n > 0 {
			return nil
		}
	}
	return io.ErrNoProgress
}

// peek buffers up to n bytes (at most headBytes) without consuming them.
func (in *input) peek(n int) ([]byte, error) {
	for in.w-in.r < min(n, headBytes) && !in.last {
		if err := in.fill(); err != nil {
			return nil, err
		}
	}
	return in.window(), nil
}

// Read lets archive readers consume the rest of the stream.
func (in *input) Read(p []byte) (int, error) {
	if in.r == in.w {
		if in.last {
			return 0, io.EOF
		}
		n, err := in.src.Read(p)
		in.off += int64(n)
		if err == io.EOF {
			in.last = true
		}
		return n, err
	}
	n := copy(p, in.window())
	in.advance(n)
	return n, nil
}

// close releases decompressors before the file below them.
func (in *input) close() error {
	var first error
	for i := len(in.closers) - 1; i >= 0; i-- {
		if err := in.closers[i].Close(); err != nil && first == nil {
			first = err
		}
	}
	in.closers = nil
	return first
}

// progress is the count of compressed bytes read, and their total or 0.
func (in *input) progress() (done, total int64) {
	return in.raw.n.Load(), in.total
}
