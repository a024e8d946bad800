package sim

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/tritier/tritier/sim/trace"
	"github.com/tritier/tritier/tier"
)

// SourceOptions say how a trace is read.
type SourceOptions struct {
	Trace    trace.Options
	PageSize uint64 // bytes; byte ranges are split into pages of this size
}

// Stream is a trace as densely numbered page accesses, block by block. It has
// one reader and is not safe for concurrent use.
type Stream struct {
	reader trace.Reader
	split  *trace.Splitter
	in     *interner
	buf    []trace.Access
	info   TraceInfo
	at     uint64 // trace positions read: accesses and prefetches
	err    error  // final: io.EOF or what went wrong
	// prompts says that the format's requests are prompts, for which prefix hits
	// mean something; the starts of I/O requests are only counted.
	prompts bool
}

// Open opens the trace in the named file, "-" being standard input.
func Open(path string, o SourceOptions) (*Stream, error) {
	r, err := trace.Open(path, o.Trace)
	if err != nil {
		return nil, err
	}
	return NewStream(r, path, o.PageSize), nil
}

// NewStream numbers the pages of the trace that r reads. Close closes r.
func NewStream(r trace.Reader, name string, pageSize uint64) *Stream {
	s := &Stream{reader: r, split: trace.NewSplitter(r, pageSize), in: newInterner(), buf: make([]trace.Access, 4096),
		info: TraceInfo{Name: name, PageSize: pageSize}}
	if d, ok := r.(trace.Informer); ok {
		i := d.Info()
		s.prompts = i.Prompts
		s.info.Format, s.info.Compression, s.info.Order = i.Format, i.Compression, i.Order
	}
	return s
}

// Close closes the reader.
func (s *Stream) Close() error { return s.reader.Close() }

// Info describes the trace as far as it has been read.
func (s *Stream) Info() TraceInfo {
	i := s.info
	i.Pages = int(s.in.next)
	return i
}

// Progress is how much of the input has been consumed, in bytes of the file as
// it is stored; total is 0 when that is unknown.
func (s *Stream) Progress() (done, total int64) {
	if p, ok := s.reader.(trace.Progresser); ok {
		return p.Progress()
	}
	return 0, 0
}

// Block is a run of accesses. Requests holds the trace positions, prefetches
// counted, at which prompts start within it; Pages the distinct pages of the
// trace up to its end.
type Block struct {
	Accesses []tier.Access
	Requests []uint64
	Pages    int
}

// Next fills b with about n more accesses, reusing its arrays, or returns
// io.EOF at the end. Any other error is final.
func (s *Stream) Next(b *Block, n int) error {
	b.Accesses, b.Requests = b.Accesses[:0], b.Requests[:0]
	for len(b.Accesses) < n && s.err == nil {
		var got int
		got, s.err = s.split.Next(s.buf)
		if err := s.number(b, s.buf[:got]); err != nil {
			s.err = err
		}
	}
	b.Pages = int(s.in.next)
	if len(b.Accesses) == 0 {
		return s.err
	}
	return nil
}

// number appends accs to b under their dense numbers.
func (s *Stream) number(b *Block, accs []trace.Access) error {
	out := slices.Grow(b.Accesses, len(accs))
	for i := range accs {
		a := &accs[i]
		p, ok := s.in.index(a.Array, a.Page)
		if !ok {
			b.Accesses = out
			return &TooManyPagesError{Limit: int(s.in.limit)}
		}
		op := tier.Read
		if a.Op != trace.Read {
			op = s.other(a)
		}
		if a.RequestStart {
			s.info.Requests++
			if s.prompts {
				b.Requests = append(b.Requests, s.at)
			}
		}
		out = append(out, tier.MakeAccess(p, op))
		s.at++
	}
	b.Accesses = out
	s.info.Accesses = s.at - s.info.Prefetches
	return nil
}

// other counts a that is not a read and returns the machine's operation.
func (s *Stream) other(a *trace.Access) tier.Op {
	if a.Op == trace.Prefetch {
		s.info.Prefetches++
		return tier.Prefetch
	}
	s.info.Writes++
	if a.Whole {
		return tier.Overwrite
	}
	return tier.Write
}

var errNoAccess = errors.New("sim: the trace has no accesses")

// Trace is a whole trace in memory.
type Trace struct {
	Info     TraceInfo
	Accesses []tier.Access
	Requests []uint64 // trace positions at which prompts start
}

// Load reads s to its end. progress, if not nil, is told of input bytes.
func Load(ctx context.Context, s *Stream, progress func(done, total int64)) (*Trace, error) {
	t := &Trace{}
	var b Block
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := s.Next(&b, block)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		t.Accesses = append(t.Accesses, b.Accesses...)
		t.Requests = append(t.Requests, b.Requests...)
		if progress != nil {
			progress(s.Progress())
		}
	}
	t.Info = s.Info()
	if len(t.Accesses) == 0 {
		return nil, errNoAccess
	}
	return t, nil
}
