package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/tritier/tritier/sim/trace"
)

// copyBatch is how many records are moved at a time.
const copyBatch = 4096

// pageReader is the page accesses of a reader as page-addressed records, for
// formats that do not say which writes are of whole pages.
type pageReader struct {
	*trace.Splitter
	accesses []trace.Access
}

// pagesOf splits the byte ranges of r into pages.
func pagesOf(r trace.Reader, pageSize uint64) *pageReader {
	return &pageReader{trace.NewSplitter(r, pageSize), make([]trace.Access, copyBatch)}
}

// Next implements trace.Reader.
func (p *pageReader) Next(recs []trace.Record) (int, error) {
	n, err := p.Splitter.Next(p.accesses[:min(len(recs), len(p.accesses))])
	for i, a := range p.accesses[:n] {
		flags := trace.PageAddressed
		if a.RequestStart {
			flags |= trace.RequestStart
		}
		recs[i] = trace.Record{Addr: a.Page, Time: a.Time, Array: a.Array, GPU: a.GPU, Op: a.Op, Flags: flags}
	}
	return n, err
}

// copied counts records as they are written; progress bars read it.
type copied struct{ records atomic.Int64 }

// copyRecords encodes everything that r yields.
func copyRecords(ctx context.Context, r trace.Reader, e encoder, done *copied) error {
	recs := make([]trace.Record, copyBatch)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.Next(recs)
		if errors.Is(err, io.EOF) && n == 0 {
			return e.finish()
		}
		if err != nil {
			return err
		}
		if err := e.encode(recs[:n]); err != nil {
			return err
		}
		done.records.Add(int64(n))
	}
}

// writeTrace writes all of r, which the caller closes, to a new file or stdout.
// After an error or a cancelled context, nothing of the file is left.
func writeTrace(ctx context.Context, path string, stdout io.Writer, enc encoding, about source, r trace.Reader, done *copied) (err error) {
	if path == "" && enc.binary && isTerminal(stdout) {
		return fmt.Errorf("%s is a binary format: give a file with -o, or --to ids", enc.name)
	}
	if enc.pages {
		r = pagesOf(r, about.pageSize)
	}
	out, err := createOutput(path, stdout)
	if err != nil {
		return err
	}
	e, err := enc.open(out, about)
	if err == nil {
		err = copyRecords(ctx, r, e, done)
	}
	if err != nil {
		return errors.Join(err, out.discard())
	}
	return out.commit()
}
