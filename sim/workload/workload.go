// Package workload generates access traces of known shape: abstract ones
// (zipf, uniform, scan, loop, mix, shift) and the access patterns of GPU
// programs (vector addition, stencils, dynamic programming, a neural network,
// graph algorithms that really run on a generated graph).
//
// # Reproducibility
//
// The stream is a function of the canonical Spec alone. It does not depend on
// the processor: randomness is PCG (math/rand/v2) or a stateless hash, and the
// floating-point functions in use are this package's own, free of fused
// operations, because those of package math differ between processors. Golden
// checksums in the tests keep the streams equal from version to version.
//
// # Accesses
//
// The abstract shapes yield page numbers. The programs yield byte ranges, from
// which a trace.Splitter makes one access for each distinct page that a warp of
// 32 threads touches with one instruction or, in the dense kernels, that it
// holds while it works through its tile. The ranges are exact for pages of
// page-size bytes and for larger ones; smaller pages would count pages between
// two elements of a warp that were never touched.
//
// A write that covers a whole page needs no fetch. A page that is both read
// and written gives a read, then a write.
//
// Readers stream with bounded memory; only a graph is held whole.
package workload

import (
	"context"
	"fmt"

	"github.com/tritier/tritier/sim/trace"
)

// Spec is a parsed workload: a shape with a value for every parameter. Its
// zero value is no workload. A Spec is immutable and safe for concurrent use.
type Spec struct {
	shape  *shape
	values values
}

// Error is a workload that cannot be: what is wrong with which text.
type Error struct {
	Spec string // the text given to Parse, or the canonical form
	What string // what is wrong, and what is valid
	Err  error  // cause, or nil
}

// Error gives one line.
func (e *Error) Error() string { return fmt.Sprintf("workload %q: %s", e.Spec, e.What) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Name is the shape's name, zipf for example.
func (s Spec) Name() string {
	if s.shape == nil {
		return ""
	}
	return s.shape.name
}

// String is the canonical form: every parameter, in the order of the
// catalogue. Parse reads it back to an equal Spec.
func (s Spec) String() string {
	if s.shape == nil {
		return ""
	}
	return s.shape.canonical(s.values)
}

// PageSize is the page size in bytes that the stream is made for.
func (s Spec) PageSize() uint64 { return s.values.uint("page-size") }

// PageAddressed says whether the records are page numbers, not byte ranges.
func (s Spec) PageAddressed() bool { return s.shape != nil && s.shape.accesses != nil }

// Accesses is the length of the stream in records, where the shape fixes it
// in advance; ok is false for the programs.
func (s Spec) Accesses() (n uint64, ok bool) {
	if s.shape == nil || s.shape.accesses == nil {
		return 0, false
	}
	return s.shape.accesses(s.values), true
}

// Open starts the generator. A graph is built before Open returns; ctx ends
// that early. The caller closes the Reader, which is not safe for concurrent
// use.
func (s Spec) Open(ctx context.Context) (trace.Reader, error) {
	if s.shape == nil {
		return nil, &Error{What: "no shape; use Parse"}
	}
	run, err := s.shape.open(ctx, s.values)
	if err != nil {
		return nil, &Error{s.String(), err.Error(), err}
	}
	return newReader(s.String(), run), nil
}
