package trace

import (
	"fmt"
	"math/bits"
)

// Access is one access to one page.
type Access struct {
	Page         uint64
	Time         uint64 // ns since the trace's origin; 0 when the format has none
	Array        uint32 // part of the page's identity, with Page
	GPU          uint16
	Op           Op
	Whole        bool // a Write of all of the page: its old contents are not needed
	RequestStart bool // the first access of a request
}

const (
	splitBatch = 1024 // records read ahead
	// maxGroup is the largest number of distinct pages of one group: a warp has
	// 32 lanes, so more is damage.
	maxGroup = 1024
)

// Splitter turns records into page accesses. A page-addressed record is one
// access; a byte range is one access for each page that it covers, and an empty
// one (length unknown) is one access; the ranges of a group (SameGroup) are one
// access for each distinct page, which is a write if any of them writes.
type Splitter struct {
	r        Reader
	pageSize uint64
	shift    uint // log2 of pageSize
	pow2     bool // pageSize is a power of two

	recs   [splitBatch]Record
	i, n   int
	record int64 // records taken from recs so far
	rerr   error // of r, once it has no more records
	err    error // sticky

	// The range being split: pages cur.Page to end, inclusive, while more. A
	// write covers the pages in [from, upto) wholly.
	cur        Access
	end        uint64
	from, upto uint64
	more       bool

	group []Access // accesses of the current group, given out from gi
	gi    int
}

// NewSplitter splits the records of r into pages of pageSize bytes. With
// pageSize 0 only page-addressed records are accepted. Closing the Splitter
// closes r.
func NewSplitter(r Reader, pageSize uint64) *Splitter {
	return &Splitter{r: r, pageSize: pageSize, pow2: bits.OnesCount64(pageSize) == 1,
		shift: uint(bits.TrailingZeros64(pageSize)) & 63}
}

// Next fills acc from the front and returns how many it filled; at the end it
// returns 0 and io.EOF. n > 0 always comes with a nil error, any error but
// io.EOF is an *Error, and an error stays.
func (s *Splitter) Next(acc []Access) (n int, err error) {
	for n < len(acc) && s.err == nil {
		switch {
		case s.gi < len(s.group):
			k := copy(acc[n:], s.group[s.gi:])
			s.gi, n = s.gi+k, n+k
		case s.more:
			n += s.pages(acc[n:])
		case s.i < s.n && s.recs[s.i].Flags&PageAddressed != 0:
			n += s.fast(acc[n:])
		case s.i < s.n:
			k := s.ranges(acc[n:])
			if n += k; k == 0 {
				s.err = s.begin()
			}
		case n > 0:
			return n, nil // enough to work on: do not wait for more input
		default:
			s.err = s.fill()
		}
	}
	if n > 0 {
		return n, nil
	}
	return 0, s.err
}

// Close closes the Reader.
func (s *Splitter) Close() error { return s.r.Close() }

// fill reads the next records; the ones before are all taken.
func (s *Splitter) fill() error {
	if s.rerr == nil {
		s.i = 0
		if s.n, s.rerr = s.r.Next(s.recs[:]); s.n > 0 {
			return nil
		}
	}
	return s.rerr
}

// fast makes accesses of page-addressed records.
func (s *Splitter) fast(acc []Access) int {
	recs := s.recs[s.i:s.n]
	if len(recs) > len(acc) {
		recs = recs[:len(acc)]
	}
	for i := range recs {
		r := &recs[i]
		if r.Flags&PageAddressed == 0 {
			recs = recs[:i]
			break
		}
		a := &acc[i]
		a.Page, a.Time, a.Array, a.GPU, a.Op = r.Addr, r.Time, r.Array, r.GPU, r.Op
		a.Whole = r.Flags&(WholePage|Update) == WholePage && r.Op == Write
		a.RequestStart = r.Flags&RequestStart != 0
	}
	s.i += len(recs)
	s.record += int64(len(recs))
	return len(recs)
}

// ranges makes accesses of byte ranges that stand alone and fit into acc; it
// stops before any other record, and leaves faults to begin.
func (s *Splitter) ranges(acc []Access) (n int) {
	for s.i+1 < s.n && s.pageSize > 0 {
		r := &s.recs[s.i]
		if r.Flags&PageAddressed != 0 || s.recs[s.i+1].Flags&(SameGroup|PageAddressed) == SameGroup ||
			r.Bytes > maxRange || r.Addr >= 1<<63 {
			break
		}
		p, end := s.page(r.Addr), s.page(r.Addr+max(r.Bytes, 1)-1)
		if end-p >= uint64(len(acc)-n) {
			break
		}
		from, upto := s.covered(r, p)
		start := r.Flags&RequestStart != 0
		for ; p <= end; p++ {
			a := &acc[n]
			a.Page, a.Time, a.Array, a.GPU, a.Op = p, r.Time, r.Array, r.GPU, r.Op
			a.Whole = p >= from && p < upto
			a.RequestStart = start
			start = false
			n++
		}
		s.i++
		s.record++
	}
	return n
}

// covered returns the pages [from, upto) that a write covers wholly; first is
// the page of its first byte.
func (s *Splitter) covered(r *Record, first uint64) (from, upto uint64) {
	if r.Op != Write || r.Flags&Update != 0 {
		return 0, 0
	}
	if r.Addr != first*s.pageSize {
		first++
	}
	return first, s.page(r.Addr + r.Bytes)
}

// begin takes one byte range, or all the ranges of one group.
func (s *Splitter) begin() error {
	r, err := s.take()
	if err != nil {
		return err
	}
	s.setRange(r)
	if !s.groupGoesOn() {
		return nil
	}
	s.group, s.gi = s.group[:0], 0
	for {
		if err := s.join(); err != nil {
			return err
		}
		if !s.groupGoesOn() {
			return nil
		}
		if r, err = s.take(); err != nil {
			return err
		}
		// Most lanes of a warp do to one page what the lane before did.
		if p, last := s.page(r.Addr), &s.group[len(s.group)-1]; last.Page == p && last.Op == r.Op && last.Array == r.Array &&
			p == s.page(r.Addr+max(r.Bytes, 1)-1) && r.Bytes < s.pageSize {
			continue
		}
		s.setRange(r)
	}
}

// take returns the next record, a byte range, after checking it. It is valid
// until more records are read.
func (s *Splitter) take() (*Record, error) {
	r := &s.recs[s.i]
	s.i++
	s.record++
	if s.pageSize == 0 {
		return r, s.fault("the trace has byte addresses: a page size is needed (--page-size)")
	}
	if what := checkRange(r.Addr, r.Bytes); what != "" {
		return r, s.fault(what)
	}
	return r, nil
}

// groupGoesOn tells whether the next record belongs to the one before it.
func (s *Splitter) groupGoesOn() bool {
	if s.i == s.n && s.fill() != nil {
		return false
	}
	return s.recs[s.i].Flags&(SameGroup|PageAddressed) == SameGroup
}

// setRange makes r the range being split.
func (s *Splitter) setRange(r *Record) {
	first := s.page(r.Addr)
	s.cur = Access{Page: first, Time: r.Time, Array: r.Array, GPU: r.GPU, Op: r.Op,
		RequestStart: r.Flags&RequestStart != 0}
	s.end = s.page(r.Addr + max(r.Bytes, 1) - 1)
	s.from, s.upto = s.covered(r, first)
	s.more = true
}

// page is the page of a byte address.
func (s *Splitter) page(addr uint64) uint64 {
	if s.pow2 {
		return addr >> (s.shift & 63)
	}
	return addr / s.pageSize
}

// pages makes accesses of the range being split.
func (s *Splitter) pages(acc []Access) int {
	for n := range acc {
		s.cur.Whole = s.cur.Page >= s.from && s.cur.Page < s.upto
		acc[n] = s.cur
		s.cur.RequestStart = false
		if s.cur.Page == s.end {
			s.more = false
			return n + 1
		}
		s.cur.Page++
	}
	return len(acc)
}

// join adds the range being split to the group, one access per distinct page.
func (s *Splitter) join() error {
	var one [1]Access
	a := &one[0]
	for s.more {
		s.pages(one[:])
		g := s.find(a)
		switch {
		case g == nil && len(s.group) == maxGroup:
			return s.fault(fmt.Sprintf("one group of accesses covers more than %d pages", maxGroup))
		case g == nil:
			s.group = append(s.group, *a)
		case a.Op == Write && g.Op != Write:
			// What was read of the page before the write was not the write's.
			g.Op = Write
		case a.Op == Read && g.Op == Prefetch:
			g.Op = Read
		case a.Op == Write:
			g.Whole = g.Whole || a.Whole
		}
	}
	return nil
}

// find returns the group's access to a's page. Neighbouring lanes mostly share
// a page, so the search starts at the end.
func (s *Splitter) find(a *Access) *Access {
	for i := len(s.group) - 1; i >= 0; i-- {
		if g := &s.group[i]; g.Page == a.Page && g.Array == a.Array {
			return g
		}
	}
	return nil
}

// fault is an error on the record taken last.
func (s *Splitter) fault(what string) error {
	e := &Error{Record: s.record, What: what}
	if d, ok := s.r.(Informer); ok {
		info := d.Info()
		e.Path, e.Format = info.Path, info.Format
	}
	return e
}
