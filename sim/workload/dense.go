package workload

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/tritier/tritier/sim/trace"
)

// The dense kernels: every warp works through one tile of consecutive elements
// of the array that the kernel writes, and holds each page that it needs while
// it does, so that a tile makes one access to each page of each operand. With
// the default tile, a page, an array read once costs one access a page; tile=128B
// is a warp of 32 threads with 4-byte elements and no page held over.

// dense emits the accesses of dense kernels.
type dense struct {
	*stream
	pageSize uint64
	elem     uint64 // bytes of an element
	tile     uint64 // elements of a tile
}

// vector is an array of a dense kernel.
type vector struct {
	id     uint32
	length uint64 // elements
}

func newDense(s *stream, v values) *dense {
	return &dense{s, v.uint("page-size"), v.uint("elem"), v.uint("tile") / v.uint("elem")}
}

// tiles calls f for every tile of n elements until the stream is closed. It is
// one kernel launch.
func (d *dense) tiles(n uint64, f func(low, high uint64)) {
	d.request()
	for low := uint64(0); low < n && !d.closed; low += d.tile {
		f(low, min(low+d.tile, n))
	}
}

// access puts the range [low, high) of elements as one record. A range that
// reaches the end of the array covers the rest of the last page too: nothing
// else is in it, so overwriting the tail is overwriting the page.
func (d *dense) access(a vector, low, high uint64, op trace.Op, flags uint8) {
	if low >= high {
		return
	}
	from, to := low*d.elem, high*d.elem
	if high == a.length {
		to = (to + d.pageSize - 1) &^ (d.pageSize - 1)
	}
	d.put(trace.Record{Addr: from, Bytes: to - from, Array: a.id, Op: op, Flags: flags})
}

func (d *dense) load(a vector, low, high uint64)  { d.access(a, low, high, trace.Read, 0) }
func (d *dense) store(a vector, low, high uint64) { d.access(a, low, high, trace.Write, 0) }

// update reads and writes a range.
func (d *dense) update(a vector, low, high uint64) {
	d.access(a, low, high, trace.Write, trace.Update)
}

// span is a range of elements.
type span struct{ low, high uint64 }

// loadAll loads ascending spans of one array that a tile holds together: one
// access to each distinct page.
func (d *dense) loadAll(a vector, spans ...span) {
	flags := uint8(0)
	for i := 0; i < len(spans); {
		s := spans[i]
		for i++; i < len(spans) && spans[i].low <= s.high; i++ {
			s.high = max(s.high, spans[i].high)
		}
		if s.low < s.high {
			d.access(a, s.low, s.high, trace.Read, flags)
			flags = trace.SameGroup
		}
	}
}

// denseParams are the parameters of every dense kernel, after its own.
func denseParams(own ...Param) []Param {
	return append(own, elemParam, pageSizeParam, tileParam)
}

// deriveTile fills the tile in and checks it.
func deriveTile(v values) error {
	if !v.has("tile") {
		v.set("tile", v.uint("page-size"))
	}
	if tile, elem := v.uint("tile"), v.uint("elem"); tile < elem || tile%elem != 0 {
		return fmt.Errorf("tile=%d is not a multiple of elem=%d", tile, elem)
	} else if limit := maxTilePages * v.uint("page-size"); tile > limit {
		return fmt.Errorf("tile=%d is more than %d pages", tile, maxTilePages)
	}
	return nil
}

// deriveGrid derives rows and cols of square grids from a total size.
func deriveGrid(grids uint64) func(values) error {
	return func(v values) error {
		if v.has("bytes") {
			side := isqrt(v.uint("bytes") / v.uint("elem") / grids)
			v.set("rows", side)
			v.set("cols", side)
		}
		return deriveTile(v)
	}
}

// isqrt is the integer square root.
func isqrt(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	// Newton's iteration from above falls until it is there.
	x := uint64(1) << ((bits.Len64(n) + 1) / 2)
	for {
		y := (x + n/x) / 2
		if y >= x {
			return x
		}
		x = y
	}
}

// openDense is the open function of a dense kernel.
func openDense(run func(d *dense, v values)) func(context.Context, values) (func(*stream), error) {
	return func(_ context.Context, v values) (func(*stream), error) {
		return func(s *stream) { run(newDense(s, v), v) }, nil
	}
}

// Limits of the dense kernels: an array of 2^40 elements of 4 KiB still has
// 64-bit addresses.
const (
	maxElements = 1 << 40
	maxSide     = 1 << 20
	// A stencil reads three tiles as one group of ranges, whose pages a
	// Splitter holds at once.
	maxTilePages = 256
)
