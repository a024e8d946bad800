package workload

import (
	"io"
	"iter"

	"github.com/tritier/tritier/sim/trace"
)

// stream is where a generator puts its records. The generator runs as a
// coroutine that fills the caller's batch in place and is suspended whenever
// the batch is full, so that generators are plain loops and nothing is copied.
type stream struct {
	batch   []trace.Record // the caller's slice of the current Next
	n       int            // records in batch
	suspend func() bool    // hands the batch over; false when the reader was closed
	closed  bool
	start   bool // the next record starts a request
}

// request makes the next record the first of a request.
func (s *stream) request() { s.start = true }

// put appends a record. Once the reader is closed it does nothing, and loops
// end early by looking at s.closed.
func (s *stream) put(r trace.Record) {
	if s.n == len(s.batch) && !s.wait() {
		return
	}
	if s.start {
		r.Flags |= trace.RequestStart
		s.start = false
	}
	s.batch[s.n] = r
	s.n++
}

// wait suspends the generator until there is an empty batch; false means that
// there will be none.
func (s *stream) wait() bool {
	if s.closed || !s.suspend() {
		s.batch, s.n, s.closed = nil, 0, true
		return false
	}
	return true
}

// page puts one access to a page by number.
func (s *stream) page(array uint32, page uint64, op trace.Op) {
	s.put(trace.Record{Addr: page, Array: array, Op: op, Flags: trace.PageAddressed})
}

// reader is a generator as a trace.Reader.
type reader struct {
	name   string
	stream stream
	next   func() (struct{}, bool)
	stop   func()
	closed bool
}

func newReader(name string, run func(*stream)) *reader {
	r := &reader{name: name}
	r.next, r.stop = iter.Pull(func(yield func(struct{}) bool) {
		r.stream.suspend = func() bool { return yield(struct{}{}) }
		r.stream.request()
		run(&r.stream)
	})
	return r
}

// Next fills recs.
func (r *reader) Next(recs []trace.Record) (int, error) {
	if r.closed {
		return 0, &trace.Error{Path: r.name, Format: "generated", What: "read after Close"}
	}
	if len(recs) == 0 {
		return 0, nil
	}
	r.stream.batch, r.stream.n = recs, 0
	r.next()
	n := r.stream.n
	r.stream.batch, r.stream.n = nil, 0
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close ends the generator.
func (r *reader) Close() error {
	r.closed = true
	r.stop()
	return nil
}
