package trace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Orders in which a session trace joins its sessions.
const (
	Merged       = "merged"       // by request time across sessions, all starting at 0
	Concatenated = "concatenated" // one session after the other, in file order
)

// Options say how to read a trace. The zero value detects everything.
type Options struct {
	// Format is a name from Formats; empty detects it by content.
	Format string
	// Order is how session traces are joined: Merged (also when empty) or
	// Concatenated. Other formats ignore it.
	Order string
	// Columns names the columns of a csv file that has no header line.
	Columns []string
	// Limit ends the trace after so many records; 0 reads all of them.
	Limit int64
}

// Info describes a trace that is being read, so that results can name it.
type Info struct {
	Path          string
	Format        string // a name from Formats
	Compression   string // gzip, zstd, xz, or empty
	Order         string // of a session trace; empty for other formats
	PageAddressed bool   // records are pages; a page size has no meaning
	Writes        bool   // the format tells writes from reads
	Times         bool   // the format has times
	Requests      bool   // the format has request boundaries
	Prompts       bool   // its requests are prompts: prefix hits are meaningful
	Records       int64  // number of records when known in advance, else 0
	PageSize      uint64 // page size that a native header names, else 0
	Source        string // origin that a native header names, else empty
}

// Informer is a Reader that can describe its trace.
type Informer interface{ Info() Info }

// Progresser is a Reader that knows how far it is. done counts the bytes of the
// file as stored (compressed) that were read; total is 0 when unknown. Progress
// may be called while another goroutine is in Next.
type Progresser interface {
	Progress() (done, total int64)
}

// Open opens the trace file at path; the caller closes the Reader. Every error
// is an *Error.
func Open(path string, o Options) (Reader, error) {
	return OpenContext(context.Background(), path, o)
}

// OpenContext is Open whose waits end with ctx: for the first writer of a FIFO,
// and in reads, here and in Next, of a pipe or a terminal. The error is then an
// *Error that wraps ctx's. Reads of regular files do not look at ctx.
func OpenContext(ctx context.Context, path string, o Options) (Reader, error) {
	f, size, err := openFile(ctx, path)
	if err != nil {
		return nil, openFault(path, err)
	}
	return open(f, size, path, o, []io.Closer{f})
}

// openFault describes a file that cannot be opened.
func openFault(path string, err error) *Error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	what := "cannot be opened"
	if ended(err) {
		what = "opening it was ended"
	}
	return &Error{Path: cmp.Or(path, `""`), Offset: -1, What: what, Err: err}
}

// New reads a trace from r; path is for messages and as a hint to the format.
// Closing the Reader does not close r. Every error is an *Error.
func New(r io.Reader, path string, o Options) (Reader, error) {
	return open(r, -1, path, o, nil)
}

// open assembles decompressor, detection and reader; it owns closers.
func open(r io.Reader, size int64, path string, o Options, closers []io.Closer) (Reader, error) {
	in := &input{path: path, raw: &countingReader{r: r}, size: size, total: max(size, 0), closers: closers}
	in.src = in.raw
	t, err := assemble(in, &o)
	if err != nil {
		if cerr := in.close(); cerr != nil {
			err.Err = errors.Join(err.Err, cerr)
		}
		return nil, err
	}
	if o.Limit > 0 {
		t = &limited{Reader: t, left: o.Limit}
	}
	return t, nil
}

// byteOrderMark starts UTF-8 text files of some programs, and means nothing.
const byteOrderMark = "\xef\xbb\xbf"

func assemble(in *input, o *Options) (Reader, *Error) {
	if what := o.check(); what != "" {
		return nil, &Error{Path: in.path, Offset: -1, What: what}
	}
	if err := decompress(in); err != nil {
		return nil, err
	}
	buf, err := in.peek(headBytes)
	if err != nil {
		return nil, in.fault(o.Format, err)
	}
	if bytes.HasPrefix(buf, []byte(byteOrderMark)) {
		in.advance(len(byteOrderMark))
		buf = in.window()
	}
	if len(buf) == 0 {
		return nil, &Error{Path: in.path, Format: o.Format, Offset: -1, What: in.nothing()}
	}
	h := &head{buf: buf, complete: in.last, size: in.size, name: filepath.Base(in.path)}
	if in.last {
		h.size = int64(len(buf))
	}
	f, fault := choose(h, o)
	if fault != nil {
		fault.Path = in.path
		return nil, fault
	}
	info := f.info
	info.Path, info.Format, info.Compression = in.path, f.name, in.compression
	return f.open(in, info, h, o)
}

// check says what is wrong with the options, or "".
func (o *Options) check() string {
	if o.Order != "" && o.Order != Merged && o.Order != Concatenated {
		return fmt.Sprintf("unknown order %q; orders are %s, %s", o.Order, Merged, Concatenated)
	}
	if o.Limit < 0 {
		return fmt.Sprintf("a limit of %d records is negative", o.Limit)
	}
	if o.Format != "" && byName(o.Format) == nil {
		return fmt.Sprintf("unknown format %q; formats are %s", o.Format, strings.Join(formatNames(), ", "))
	}
	return ""
}

// choose finds the format that the caller named or that the content proves.
func choose(h *head, o *Options) (*format, *Error) {
	if o.Format != "" {
		return byName(o.Format), nil
	}
	h.columns = o.Columns
	if len(h.columns) == 0 && h.complete && h.blank() {
		return nil, unknown(h)
	}
	sure, maybe := detect(h)
	if len(sure) == 1 {
		return byName(sure[0]), nil
	}
	names := slices.Concat(sure, maybe)
	if len(names) > 0 {
		return nil, &Error{Offset: -1, What: fmt.Sprintf("the content does not decide the format; it may be %s: say which with --format NAME",
			strings.Join(names, " or "))}
	}
	return nil, unknown(h)
}

// limited ends a Reader after a number of records.
type limited struct {
	Reader
	left int64
}

// Next implements Reader.
func (l *limited) Next(recs []Record) (int, error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	n, err := l.Reader.Next(recs[:min(int64(len(recs)), l.left)])
	l.left -= int64(n)
	return n, err
}

// Info implements Informer.
func (l *limited) Info() Info {
	info := l.Reader.(Informer).Info()
	if info.Records > 0 {
		info.Records = min(info.Records, l.left)
	}
	return info
}

// Progress implements Progresser.
func (l *limited) Progress() (done, total int64) { return l.Reader.(Progresser).Progress() }
