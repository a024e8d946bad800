package sim

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/tritier/tritier/placement"
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
	records int64 // records to expect; 0 when the reader cannot know
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
		s.prompts, s.records = i.Prompts, i.Records
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

// maxExpected bounds the tables that a stream's jobs make before it is read.
const maxExpected = 1 << 24

// expectPages guesses the number of distinct pages before reading: one a
// record, so that tables need not grow. Tables are touched only where they are
// used, so too large a guess costs address space.
func (s *Stream) expectPages() int {
	records := s.records
	if _, total := s.Progress(); records == 0 {
		records = total / 4 // no format takes less for long
	}
	return int(min(records, maxExpected))
}

// Block is a run of accesses. Requests holds the trace positions, prefetches
// counted, at which prompts start within it; Pages the distinct pages of the
// trace up to its end.
type Block struct {
	Accesses []tier.Access
	Requests []uint64
	Pages    int
}

// Next fills b with at least n more accesses, fewer only at the end, reusing
// its arrays; or returns io.EOF. Any other error is final.
func (s *Stream) Next(b *Block, n int) error {
	b.Accesses, b.Requests = b.Accesses[:0], b.Requests[:0]
	return s.extend(b, n)
}

// extend appends at least n more accesses to b.
func (s *Stream) extend(b *Block, n int) error {
	start := len(b.Accesses)
	b.Accesses = slices.Grow(b.Accesses, n+len(s.buf))
	for len(b.Accesses)-start < n && s.err == nil {
		var got int
		got, s.err = s.split.Next(s.buf)
		if err := s.number(b, s.buf[:got]); err != nil {
			s.err = err
		}
	}
	b.Pages = int(s.in.next)
	if len(b.Accesses) == start {
		return s.err
	}
	return nil
}

// number appends accs to b under their dense numbers; b has room for them.
func (s *Stream) number(b *Block, accs []trace.Access) error {
	start := len(b.Accesses)
	out := b.Accesses[start : start+len(accs)]
	array, direct := s.in.current()
	for i := range out {
		a := &accs[i]
		var p placement.Page
		if a.Array == array && a.Page < uint64(len(direct)) && direct[a.Page] != 0 {
			p = placement.Page(direct[a.Page] - 1)
		} else {
			var ok bool
			if p, ok = s.in.index(a.Array, a.Page); !ok {
				b.Accesses = b.Accesses[:start+i]
				return &TooManyPagesError{Limit: int(s.in.limit)}
			}
			array, direct = s.in.current()
		}
		op := tier.Read
		if a.Op != trace.Read {
			op = s.other(a)
		}
		if a.RequestStart {
			s.info.Requests++
			if s.prompts {
				b.Requests = append(b.Requests, s.at+uint64(i))
			}
		}
		out[i] = tier.MakeAccess(p, op)
	}
	b.Accesses = b.Accesses[:start+len(accs)]
	s.at += uint64(len(accs))
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

// reserve makes room in b for the rest of the trace, reckoned from the share
// of the input that the accesses so far came from: growing step by step would
// copy the trace several times over.
func (s *Stream) reserve(b *Block) {
	n := int64(len(b.Accesses))
	done, total := s.Progress()
	if n == 0 || done <= 0 || total <= done || cap(b.Accesses)-len(b.Accesses) >= block+len(s.buf) {
		return
	}
	rest := float64(n) * (float64(total)/float64(done) - 1) * 1.02
	b.Accesses = slices.Grow(b.Accesses, int(min(rest, maxReserve))+2*(block+len(s.buf)))
}

// maxReserve bounds what Load allocates on a trace's word alone, in accesses.
const maxReserve = 1 << 28

// Load reads s to its end. progress, if not nil, is told of input bytes.
func Load(ctx context.Context, s *Stream, progress func(done, total int64)) (*Trace, error) {
	var b Block
	if s.records > 0 {
		b.Accesses = make([]tier.Access, 0, min(s.records, maxReserve)+2*int64(block+len(s.buf)))
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if s.records == 0 {
			s.reserve(&b)
		}
		err := s.extend(&b, block)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if progress != nil {
			progress(s.Progress())
		}
	}
	t := &Trace{Info: s.Info(), Accesses: b.Accesses, Requests: b.Requests}
	if len(t.Accesses) == 0 {
		return nil, errNoAccess
	}
	return t, nil
}
