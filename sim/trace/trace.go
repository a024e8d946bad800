// Package trace reads and writes page-access traces.
//
// A Reader yields Records in file order, in batches. Open detects the
// compression (gzip, zstd, xz) and the format by content; formats that cannot
// be told apart by content need an explicit name and the error says so.
// Compressed input that is cut off is an error wherever the cut is, except where
// a gzip member, a zstd frame or an xz stream ends: there nothing tells that
// another one followed.
// Split turns the byte ranges of Records into pages. Readers stream: none
// holds more than a bounded window of its input.
//
// Readers and writers are not safe for concurrent use.
package trace

import "fmt"

// Op is what an access does to the bytes that it covers.
type Op uint8

// The operations of a Record.
const (
	Read     Op = iota // the bytes are read
	Write              // the bytes are written
	Prefetch           // a hint: moves a page, and is not counted as an access
)

// String names the operation as the text formats do: R, W or P.
func (o Op) String() string {
	if int(o) < len("RWP") {
		return "RWP"[o : o+1]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Flags of a Record.
const (
	// PageAddressed marks a Record whose Addr is a page or object number, not
	// a byte address: it is exactly one access, and Bytes is informative only.
	PageAddressed uint8 = 1 << iota
	// RequestStart marks the first Record of a request (a prompt, a kernel
	// launch, an I/O command), for prefix hits and request boundaries.
	RequestStart
	// SameGroup marks a byte range that belongs to one access together with
	// the Record before it: the lanes of one warp instruction. A Splitter makes
	// one access per distinct page of a group. Page-addressed Records ignore it.
	SameGroup
	// WholePage marks a page-addressed Write that covers all of the page, so
	// that the page's old contents need not be fetched. Byte ranges say this by
	// their length instead.
	WholePage
	// Update marks a Write that reads the old bytes first (lackey's M, atomics):
	// never a whole-page write, whatever its length.
	Update
)

// knownFlags is every flag that this version defines.
const knownFlags = PageAddressed | RequestStart | SameGroup | WholePage | Update

// Record is one line of a trace: a page (PageAddressed) or a byte range.
type Record struct {
	Addr  uint64 // page number if PageAddressed, else byte address
	Bytes uint64 // length of the range in bytes; 0 when unknown
	Time  uint64 // ns since the trace's own origin; 0 when the format has none
	Array uint32 // array, device or file number: part of the page's identity
	GPU   uint16 // GPU that made the access; 0 when the format has none
	Op    Op
	Flags uint8
}

// Reader yields the records of one trace in order.
type Reader interface {
	// Next fills recs from the front and returns how many it filled. At the
	// end it returns 0 and io.EOF; n > 0 always comes with a nil error. Any
	// other error is an *Error, is final, and is returned again by later calls.
	Next(recs []Record) (n int, err error)
	// Close releases the file and any decompressor.
	Close() error
}

// Error is a fault in a trace: what is wrong, in which file, and where.
type Error struct {
	Path   string // file, as the caller named it
	Format string // format being read; empty when it was not known yet
	Line   int64  // 1-based line of a text format; 0 when not a text format
	Offset int64  // byte offset in the input, decompressed, when Line is 0; -1: the file as a whole
	Packed bool   // the input is compressed: Offset is not one of the file as stored
	Record int64  // 1-based record, for faults found after decoding; else 0
	Member string // file within an archive that the place refers to, or empty
	What   string // what is wrong and, where it helps, what to do
	Err    error  // cause, or nil
}

// Error gives one line: path, place, format, fault.
func (e *Error) Error() string {
	where := e.Path
	if e.Member != "" {
		where += ": " + e.Member
	}
	switch {
	case e.Record > 0:
		where = fmt.Sprintf("%s: record %d", where, e.Record)
	case e.Line > 0:
		where = fmt.Sprintf("%s:%d", where, e.Line)
	case e.Offset >= 0:
		where = fmt.Sprintf("%s: offset %d", where, e.Offset)
		if e.Packed && e.Member == "" {
			where += " of the decompressed data"
		}
	}
	if e.Format != "" {
		where += " (" + e.Format + ")"
	}
	if e.Err != nil {
		return where + ": " + e.What + ": " + e.Err.Error()
	}
	return where + ": " + e.What
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
