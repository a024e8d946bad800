package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
)

// decoder turns a window of the input into records. Decoders keep no reference
// to the window between calls.
type decoder interface {
	// decode reads buf from its start and fills recs from the front; last says
	// that no bytes follow buf. It returns how many records it made and how
	// many bytes it is done with. Neither asks for a longer buf, or, when last,
	// says that buf ends in the middle of something.
	decode(buf []byte, last bool, recs []Record) (n, used int, err error)
}

// finisher is a decoder that checks the input's end.
type finisher interface{ finish() error }

// cutter is a decoder that can say where an input that ends early ends.
type cutter interface{ cut() string }

// fault is an error of a decoder, placed relative to the window.
type fault struct {
	at   int   // offset in the window, for binary formats
	line int64 // 1-based line, for text formats
	what string
	err  error
}

func (f *fault) Error() string { return f.what }

// windowReader is the Reader of every format that decodes a byte window.
type windowReader struct {
	in   *input
	dec  decoder
	info Info
	made int64
	err  error // sticky
}

// Next implements Reader.
func (t *windowReader) Next(recs []Record) (int, error) {
	for t.err == nil && len(recs) > 0 {
		buf, last := t.in.window(), t.in.last
		n, used, err := t.dec.decode(buf, last, recs)
		if err != nil {
			t.err = t.place(err)
		}
		t.in.advance(used)
		t.made += int64(n)
		if n > 0 {
			return n, nil
		}
		if t.err != nil || used > 0 {
			continue
		}
		if last {
			t.err = t.end(len(buf))
			continue
		}
		if err := t.in.fill(); err != nil {
			t.err = t.readFault(err)
		}
	}
	return 0, t.err
}

// end is what follows the last record: io.EOF, or the fault of a bad end.
func (t *windowReader) end(left int) error {
	if c, ok := t.dec.(cutter); ok && left > 0 {
		return t.place(&fault{what: c.cut()})
	}
	if left > 0 {
		return t.place(&fault{what: fmt.Sprintf("the file is cut off: it ends inside a record, %d bytes into it", left)})
	}
	if f, ok := t.dec.(finisher); ok {
		if err := f.finish(); err != nil {
			return t.place(err)
		}
	}
	if t.made == 0 {
		return t.place(&fault{what: "the file has no records"})
	}
	return io.EOF
}

// place turns a decoder's fault into an Error; the window must not have moved.
func (t *windowReader) place(err error) *Error {
	e := &Error{Path: t.in.path, Format: t.info.Format, Packed: t.in.compression != ""}
	var f *fault
	if errors.As(err, &f) {
		e.Line, e.What, e.Err = f.line, f.what, f.err
		e.Offset = t.in.off + int64(f.at)
	} else {
		e.Offset, e.What = t.in.off, err.Error()
	}
	if e.Line > 0 {
		e.Offset = 0
	}
	return e
}

// readFault describes a failure of the bytes below the decoder.
func (t *windowReader) readFault(err error) *Error {
	if err == errWindowFull {
		return &Error{Path: t.in.path, Format: t.info.Format, Offset: t.in.off, Packed: t.in.compression != "",
			What: fmt.Sprintf("a line or block here is longer than %d MiB", maxWindow>>20)}
	}
	return t.in.fault(t.info.Format, err)
}

// fault describes a failure to read or decompress the input.
func (in *input) fault(format string, err error) *Error {
	e := &Error{Path: in.path, Format: format, Offset: in.off + int64(in.w-in.r), Packed: in.compression != ""}
	var pe *os.PathError
	switch {
	case ended(err):
		e.What, e.Err = "reading was ended", err
	case errors.As(err, &pe):
		e.What, e.Err = "cannot be read", pe.Err
	case errors.Is(err, errTrailing):
		e.What = "other data follows its " + in.compression + " data: take it off"
	case in.compression != "" && in.compression != "gzip" && errors.Is(err, io.ErrUnexpectedEOF):
		// Less than a magic number after the end cannot be told from one cut off.
		e.What = "its " + in.compression + " data is cut off, or a few bytes of other data follows it"
	case in.compression != "":
		e.What, e.Err = "its "+in.compression+" data is damaged or cut off", err
	default:
		e.What, e.Err = "cannot be read", err
	}
	return e
}

// ended says that a context ended a wait.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// nothing says that the input holds no bytes.
func (in *input) nothing() string {
	switch {
	case in.compression != "":
		return "its " + in.compression + " data holds nothing"
	case in.size < 0:
		return "no data: the stream is empty, or was read before (a pipe can be read once)"
	}
	return "the file is empty"
}

// Info implements Informer.
func (t *windowReader) Info() Info { return t.info }

// Progress implements Progresser.
func (t *windowReader) Progress() (done, total int64) { return t.in.progress() }

// Close implements Reader.
func (t *windowReader) Close() error {
	if t.err == nil {
		t.err = &Error{Path: t.in.path, Format: t.info.Format, Offset: -1, What: "read after Close"}
	}
	return t.in.close()
}

// cutLine returns the first line of buf without its end, and how many bytes it
// takes with it; size 0 means that buf holds no whole line.
func cutLine(buf []byte, last bool) (line []byte, size int) {
	k := bytes.IndexByte(buf, '\n')
	switch {
	case k >= 0:
		line, size = buf[:k], k+1
	case last:
		line, size = buf, len(buf)
	default:
		return nil, 0
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, size
}

// maxRange is the longest byte range of one record: longer ones are damage.
const maxRange = 1 << 40

// checkRange says what is wrong with a byte range, or "".
func checkRange(addr, n uint64) string {
	if n <= maxRange && addr < 1<<63 {
		return "" // kept small, so that it is inlined
	}
	return badRange(addr, n)
}

func badRange(addr, n uint64) string {
	if n > maxRange {
		return fmt.Sprintf("a range of %d bytes is longer than the limit of 2^40", n)
	}
	if _, carry := bits.Add64(addr, n, 0); carry != 0 {
		return fmt.Sprintf("address %#x plus %d bytes is beyond 2^64", addr, n)
	}
	return ""
}

// lineDecoder is the decoder of formats whose lines each make at most one
// record; parse reports false for a line that makes none.
type lineDecoder struct {
	line  int64
	parse func(line []byte, r *Record) (ok bool, what string)
}

// decode implements decoder.
func (d *lineDecoder) decode(buf []byte, last bool, recs []Record) (n, used int, err error) {
	for n < len(recs) {
		line, size := cutLine(buf[used:], last)
		if size == 0 {
			break
		}
		d.line++
		recs[n] = Record{}
		ok, what := d.parse(line, &recs[n])
		if what != "" {
			return n, used, &fault{line: d.line, what: what}
		}
		used += size
		if ok {
			n++
		}
	}
	return n, used, nil
}
