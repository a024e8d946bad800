package cudafake

import (
	"bytes"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Poison fills new device and pinned memory.
const Poison byte = 0xA5

// canary fills the bytes between an allocation and its guard pages.
const canary byte = 0x5C

// granule is the alignment that the driver promises for device memory.
const granule = 256

// table is a set of blocks that do not overlap, sorted by address.
type table struct{ blocks []*block }

// after is the index of the first block that begins beyond a.
func (t *table) after(a uintptr) int {
	i, _ := slices.BinarySearchFunc(t.blocks, a, func(b *block, a uintptr) int {
		if b.base <= a {
			return -1
		}
		return 1
	})
	return i
}

// find is the block that holds address a, or nil.
func (t *table) find(a uintptr) *block {
	if i := t.after(a); i > 0 {
		if b := t.blocks[i-1]; uint64(a-b.base) < b.size {
			return b
		}
	}
	return nil
}

func (t *table) insert(b *block) { t.blocks = slices.Insert(t.blocks, t.after(b.base), b) }

func (t *table) remove(b *block) {
	if i := t.after(b.base); i > 0 && t.blocks[i-1] == b {
		t.blocks = slices.Delete(t.blocks, i-1, i)
	}
}

// arena is a range of address space out of which memory is cut. Each block's
// pages have at least one unmapped page on either side, and a freed range is
// used again only when the search for room has gone once around.
type arena struct {
	table
	base, size uintptr
	next       uintptr // where the search for room begins
	page       uintptr
}

func newArena(size uintptr) (*arena, error) {
	base, err := reserve(size)
	if err != nil {
		return nil, err
	}
	return &arena{base: base, size: size, next: base, page: uintptr(os.Getpagesize())}, nil
}

func (a *arena) holds(addr uintptr) bool { return addr-a.base < a.size }

// room finds n bytes of pages, aligned to align; 0 if there are none.
func (a *arena) room(n, align uintptr) uintptr {
	if first := a.search(a.next, a.base+a.size, n, align); first != 0 {
		return first
	}
	return a.search(a.base, a.base+a.size, n, align)
}

func (a *arena) search(from, end, n, align uintptr) uintptr {
	for {
		first := (from + a.page + align - 1) &^ (align - 1)
		if first+n+a.page > end {
			return 0
		}
		// The block before may reach into the gap, and so may the one after.
		i := a.after(first)
		switch {
		case i > 0 && a.blocks[i-1].last+a.page > first:
			from = a.blocks[i-1].last
		case i < len(a.blocks) && a.blocks[i].first < first+n+a.page:
			from = a.blocks[i].last
		default:
			return first
		}
	}
}

// place cuts n bytes, n > 0, out of the arena for b, poisoned and between
// canaries. The end lies at an unmapped page, as far as the alignment lets it.
func (a *arena) place(b *block, n uint64, file bool) error {
	pages := (uintptr(n) + a.page - 1) &^ (a.page - 1)
	// What the driver hands out in whole 2 MiB pages is aligned to them.
	align := min(max(uintptr(n)&-uintptr(n), a.page), 2<<20)
	b.first = a.room(pages, align)
	if b.first == 0 {
		return unix.ENOMEM
	}
	b.last = b.first + pages
	b.file = -1
	if file {
		fd, err := newFile(pages)
		if err != nil {
			return err
		}
		b.file = fd
	}
	if err := commit(b.first, b.last, b.file); err != nil {
		b.closeFile()
		return err
	}
	b.base, b.size = b.last-(uintptr(n)+granule-1)&^(granule-1), n
	b.bytes = view(b.base, n)
	fill(b.bytes, Poison)
	fill(b.before(), canary)
	fill(b.behind(), canary)
	a.insert(b)
	a.next = b.last
	return nil
}

// drop gives b's memory back; intact is false if somebody wrote to the
// canaries.
func (a *arena) drop(b *block) (intact bool, err error) {
	intact = all(b.before(), canary) && all(b.behind(), canary)
	a.remove(b)
	b.bytes = nil
	b.closeFile()
	return intact, decommit(b.first, b.last)
}

// fill sets every byte to v, by copies that double.
func fill(b []byte, v byte) {
	if len(b) == 0 {
		return
	}
	b[0] = v
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

func all(b []byte, v byte) bool {
	return len(b) == 0 || b[0] == v && bytes.Equal(b[1:], b[:len(b)-1])
}
