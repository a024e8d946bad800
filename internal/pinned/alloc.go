package pinned

import (
	"cmp"
	"slices"
)

// extent is a range of free bytes.
type extent struct{ off, size uint64 }

func (e extent) end() uint64 { return e.off + e.size }

// extents is a first-fit allocator of ranges. The free ranges are ordered, and no two of them touch: their number is bounded by that of
// the slabs. It is not safe for concurrent use.
type extents struct {
	free     []extent
	base     uint64 // address of offset 0, to which alignment applies
	boundary uint64 // multiples of it are not crossed by what fits between two; 0 for none
}

// take finds size bytes whose address is a multiple of align, a power of two.
func (x *extents) take(size, align uint64) (off uint64, ok bool) {
	for i, e := range x.free {
		if e.size < size {
			continue
		}
		if off, ok := x.fit(e, size, align); ok {
			x.cut(i, off, size)
			return off, true
		}
	}
	return 0, false
}

// fit returns the first place in e. Each round moves past a boundary, so that the loop ends.
func (x *extents) fit(e extent, size, align uint64) (uint64, bool) {
	off := x.align(e.off, align)
	for off >= e.off && off < e.end() && e.end()-off >= size {
		if x.boundary == 0 || size > x.boundary {
			return off, true
		}
		next := (off/x.boundary + 1) * x.boundary
		if next-off >= size {
			return off, true
		}
		off = x.align(next, align)
	}
	return 0, false
}

// align rounds off up so that its address is a multiple of align. It wraps around where there is no such address; fit sees that.
func (x *extents) align(off, align uint64) uint64 {
	return (x.base+off+align-1)&^(align-1) - x.base
}

// cut removes a range from the i-th extent.
func (x *extents) cut(i int, off, size uint64) {
	e := x.free[i]
	var rest []extent
	if off > e.off {
		rest = append(rest, extent{e.off, off - e.off})
	}
	if off+size < e.end() {
		rest = append(rest, extent{off + size, e.end() - off - size})
	}
	x.free = slices.Replace(x.free, i, i+1, rest...)
}

// give returns a range that was taken, and joins it with its neighbours.
func (x *extents) give(off, size uint64) {
	i, _ := slices.BinarySearchFunc(x.free, off, func(e extent, off uint64) int { return cmp.Compare(e.off, off) })
	e, from, to := extent{off, size}, i, i
	if i > 0 && x.free[i-1].end() == off {
		from, e = i-1, extent{x.free[i-1].off, x.free[i-1].size + size}
	}
	if i < len(x.free) && x.free[i].off == off+size {
		to, e.size = i+1, e.size+x.free[i].size
	}
	x.free = slices.Replace(x.free, from, to, e)
}

// sum returns all free bytes and those of the largest extent.
func (x *extents) sum() (free, largest uint64) {
	for _, e := range x.free {
		free, largest = free+e.size, max(largest, e.size)
	}
	return free, largest
}
