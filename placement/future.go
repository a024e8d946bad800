package placement

import "fmt"

// Never is the next use of a page that is not used again.
const Never uint32 = 1<<32 - 1

// Future is what an offline policy knows of the accesses to come. One Future
// serves every tier of a replay: the caller calls At before each access, then
// the evictors. Virtual time is the index of an access.
type Future struct {
	accesses []uint32 // page<<2 | op, the caller's slice
	next     []uint32 // by access: the next access of the same page, or Never
	use      []uint32 // by page: its first access after now, or Never
}

// NewFuture learns accesses, each page<<2 | operation, of pages below pages.
// It keeps accesses, which must not change while it is in use, and 4 bytes
// for each of them, and 4 a page.
func NewFuture(accesses []uint32, pages int) (*Future, error) {
	if pages < 0 || pages > MaxPages {
		return nil, fmt.Errorf("placement: future: page count %d is outside 0..%d: use larger pages", pages, MaxPages)
	}
	if uint64(len(accesses)) >= uint64(Never) {
		return nil, fmt.Errorf("placement: future: %d accesses are more than %d: split the trace", len(accesses), Never-1)
	}
	f := &Future{accesses: accesses, next: make([]uint32, len(accesses)), use: make([]uint32, pages)}
	for p := range f.use {
		f.use[p] = Never
	}
	for i := len(accesses) - 1; i >= 0; i-- {
		p := accesses[i] >> 2
		if int(p) >= pages {
			return nil, fmt.Errorf("placement: future: access %d is to page %d, but there are %d pages", i, p, pages)
		}
		f.next[i], f.use[p] = f.use[p], uint32(i)
	}
	return f, nil
}

// Len returns the number of accesses.
func (f *Future) Len() int { return len(f.accesses) }

// At says that access i, below Len, happens now. The caller goes through all
// accesses in order.
func (f *Future) At(i uint32) { f.use[f.accesses[i]>>2] = f.next[i] }

// Use returns the next access to p after now, or Never.
func (f *Future) Use(p Page) uint32 {
	if int(p) >= len(f.use) {
		return Never
	}
	return f.use[p]
}
