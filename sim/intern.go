package sim

import (
	"fmt"
	"math/bits"

	"github.com/tritier/tritier/placement"
)

// TooManyPagesError means that a trace touches more distinct pages than the
// dense numbering holds. Larger pages make fewer of them.
type TooManyPagesError struct{ Limit int }

// Error names the limit and what helps.
func (e *TooManyPagesError) Error() string {
	return fmt.Sprintf("sim: more than %d distinct pages: use a larger --page-size or a part of the trace", e.Limit)
}

// interner numbers (array, page) pairs densely in order of first appearance.
// No key is ever shortened: each array has its own table of 64-bit pages.
type interner struct {
	next   uint32 // pages numbered so far
	limit  uint32
	tables map[uint32]*pageTable
	array  uint32 // array of cur
	cur    *pageTable
}

func newInterner() *interner {
	return &interner{tables: map[uint32]*pageTable{}, limit: placement.MaxPages}
}

// index returns the dense number of a page, and false when there are too many.
func (in *interner) index(array uint32, page uint64) (placement.Page, bool) {
	t := in.cur
	if t == nil || in.array != array {
		t = in.table(array)
	}
	if page < uint64(len(t.direct)) {
		if id := t.direct[page]; id != 0 {
			return placement.Page(id - 1), true
		}
	}
	return in.slow(t, page)
}

// current returns the array whose page was numbered last and its direct table,
// for callers that look there first. Both are stale after the next index.
func (in *interner) current() (array uint32, direct []uint32) {
	if in.cur == nil {
		return 0, nil
	}
	return in.array, in.cur.direct
}

func (in *interner) table(array uint32) *pageTable {
	t := in.tables[array]
	if t == nil {
		t = &pageTable{alone: len(in.tables) == 0}
		in.tables[array] = t
	}
	in.array, in.cur = array, t
	return t
}

// slow handles pages outside the direct table and pages seen first.
func (in *interner) slow(t *pageTable, page uint64) (placement.Page, bool) {
	slot, id := t.find(page)
	if id == 0 {
		if in.next == in.limit {
			return 0, false
		}
		in.next++
		id = in.next
		if t.widen(page) {
			t.direct[page] = id
		} else {
			t.insert(slot, page, id)
		}
	} else if page < uint64(len(t.direct)) {
		t.direct[page] = id // found by hash once, directly from now on
	}
	return placement.Page(id - 1), true
}

// pageTable maps the pages of one array to dense numbers + 1. Pages that are
// small against the number of distinct ones sit in a direct table; the others
// in an open-addressing hash table with linear probing.
type pageTable struct {
	direct []uint32
	keys   []uint64
	ids    []uint32 // 0: the slot is empty
	used   int
	seen   int // distinct pages, direct ones included
	// alone says that it was the trace's first table: most traces have one
	// array, and a table made large at once is touched only where it is used.
	alone bool
}

// directSpare is how large the direct table may be whatever the page count;
// beyond it, directFactor entries per distinct page (16 B) are the limit.
const (
	directSpare  = 1 << 18
	directFactor = 4
)

// widen counts a new page, makes the direct table cover it if it may, and says
// whether it does.
func (t *pageTable) widen(page uint64) bool {
	t.seen++
	if page < uint64(len(t.direct)) {
		return true
	}
	// Growing by less than a quarter would copy the table again and again.
	limit := uint64(max(directSpare, directFactor*t.seen))
	if page >= limit || limit < uint64(len(t.direct))*5/4 {
		return false
	}
	n := limit
	if limit == directSpare && !t.alone {
		n = min(limit, max(page+1, 2*uint64(len(t.direct)), 1024))
	}
	grown := make([]uint32, n)
	copy(grown, t.direct)
	t.direct = grown
	return true
}

// find returns page's id, or 0 and the empty slot where it belongs.
func (t *pageTable) find(page uint64) (slot int, id uint32) {
	if len(t.ids) == 0 {
		return 0, 0
	}
	mask := len(t.ids) - 1
	for i := t.home(page); ; i = (i + 1) & mask {
		if t.ids[i] == 0 || t.keys[i] == page {
			return i, t.ids[i]
		}
	}
}

// home is Fibonacci hashing: the top bits of a multiplication by 2^64/phi.
func (t *pageTable) home(page uint64) int {
	h := (page ^ page>>32) * 0x9e3779b97f4a7c15
	return int(h >> (64 - uint(bits.TrailingZeros(uint(len(t.ids))))))
}

// insert stores page at slot, which find returned.
func (t *pageTable) insert(slot int, page uint64, id uint32) {
	if 4*(t.used+1) > 3*len(t.ids) {
		t.rehash(max(1024, 2*len(t.ids)))
		slot, _ = t.find(page)
	}
	t.keys[slot], t.ids[slot] = page, id
	t.used++
}

func (t *pageTable) rehash(size int) {
	keys, ids := t.keys, t.ids
	t.keys, t.ids = make([]uint64, size), make([]uint32, size)
	for i, id := range ids {
		if id != 0 {
			slot, _ := t.find(keys[i])
			t.keys[slot], t.ids[slot] = keys[i], id
		}
	}
}
