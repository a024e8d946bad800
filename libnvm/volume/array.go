package volume

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// Array is an open array: pages in a row of the volume. It may be used from
// several goroutines.
type Array struct {
	v    *Volume
	info ArrayInfo
	refs int // handles; v.mu guards it
	gone atomic.Bool
}

// Arrays lists the arrays by their first page.
func (v *Volume) Arrays() []ArrayInfo {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.dir.arrays)
}

// CreateArray makes an array of so many pages, which read as zeroes, and opens
// it. A crash in the middle leaves no array.
func (v *Volume) CreateArray(name string, pages uint64) (*Array, error) {
	if name == "" || len(name) > MaxNameLen || strings.ContainsRune(name, 0) {
		return nil, fmt.Errorf("volume: the name of an array has 1 to %d bytes and no NUL, %q does not", MaxNameLen, name)
	}
	if pages == 0 {
		return nil, fmt.Errorf("volume: array %q of no pages", name)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.usable(); err != nil {
		return nil, err
	}
	if v.dir.find(name) >= 0 {
		return nil, fmt.Errorf("%w: %q", ErrArrayExists, name)
	}
	if len(v.dir.arrays) >= MaxArrays {
		return nil, fmt.Errorf("volume: %d arrays are the most that a volume holds", MaxArrays)
	}
	first, err := v.dir.place(pages, v.Pages())
	if err != nil {
		return nil, err
	}
	if err := v.fencedIn(first, pages); err != nil {
		return nil, err
	}
	if err := v.clearPages(first, pages); err != nil {
		return nil, fmt.Errorf("volume: clear %d pages for array %q: %w", pages, name, err)
	}
	info := ArrayInfo{Name: name, ID: v.dir.nextID, First: first, Pages: pages}
	if err := v.commit(v.dir.with(info)); err != nil {
		return nil, err
	}
	return v.open(info), nil
}

// usable says why metadata may not be changed.
func (v *Volume) usable() error {
	if v.closed {
		return ErrClosed
	}
	return v.broken
}

// clearPages makes pages read as zeroes, durably, with their checksums. No
// array holds them yet, so the order does not matter. Needs mu.
func (v *Volume) clearPages(first, n uint64) error {
	members := uint64(v.label.Members)
	for m := range members {
		// Slots [lo, hi) of member m hold those of the pages that are its own.
		lo := (first + members - 1 - m) / members
		hi := (first + n + members - 1 - m) / members
		if lo == hi {
			continue
		}
		size := int64(v.label.PageSize)
		if err := v.meta[m].zero(int64(v.label.DataOffset)+int64(lo)*size, int64(hi-lo)*size); err != nil {
			return err
		}
	}
	if v.Checksums() {
		for p := first; p < first+n; p++ {
			delete(v.pending, p)
			if err := v.setSum(p, 0); err != nil {
				return err
			}
		}
	}
	return v.checkpoint()
}

// OpenArray opens an array by name.
func (v *Volume) OpenArray(name string) (*Array, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, ErrClosed
	}
	i := v.dir.find(name)
	if i < 0 {
		return nil, fmt.Errorf("%w: %q", ErrNoArray, name)
	}
	return v.open(v.dir.arrays[i]), nil
}

// open counts a handle. Needs mu.
func (v *Volume) open(info ArrayInfo) *Array {
	a := v.arrays[info.ID]
	if a == nil {
		a = &Array{v: v, info: info}
		v.arrays[info.ID] = a
	}
	a.refs++
	return a
}

// DeleteArray removes an array that is not open.
func (v *Volume) DeleteArray(name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.usable(); err != nil {
		return err
	}
	i := v.dir.find(name)
	if i < 0 {
		return fmt.Errorf("%w: %q", ErrNoArray, name)
	}
	if v.arrays[v.dir.arrays[i].ID] != nil {
		return fmt.Errorf("delete array %q: %w", name, ErrBusy)
	}
	return v.commit(v.dir.without(i))
}

// Info describes the array.
func (a *Array) Info() ArrayInfo { return a.info }

// Pages is the number of pages.
func (a *Array) Pages() uint64 { return a.info.Pages }

// Close ends one handle. Batches on it must have ended.
func (a *Array) Close() error {
	a.v.mu.Lock()
	defer a.v.mu.Unlock()
	if a.refs == 0 {
		return ErrClosed
	}
	if a.refs--; a.refs == 0 {
		a.gone.Store(true)
		delete(a.v.arrays, a.info.ID)
	}
	return nil
}

// ErrChecksummed is returned by Layout on a volume with checksums.
var ErrChecksummed = errors.New("volume: a producer that bypasses the volume cannot keep its checksums; make the volume without them")

// Layout is what a producer of NVMe commands other than Queue, a GPU, needs to
// find pages: page p of the array is volume page g = First + p; it is slot
// g / Members of member g mod Members, at byte DataOffset + slot * PageSize.
type Layout struct {
	First      uint64
	Pages      uint64
	PageSize   uint64
	Members    uint64
	DataOffset uint64
}

// Layout describes where the array's pages are. On a volume with checksums it
// returns ErrChecksummed: pages written past them would count as corrupt.
func (a *Array) Layout() (Layout, error) {
	l, err := a.v.Layout()
	l.First, l.Pages = a.info.First, a.info.Pages
	return l, err
}

// Layout describes where all pages of the volume are, as if it were one array.
func (v *Volume) Layout() (Layout, error) {
	if v.Checksums() {
		return Layout{}, ErrChecksummed
	}
	l := &v.label
	return Layout{0, v.Pages(), uint64(l.PageSize), uint64(l.Members), l.DataOffset}, nil
}
