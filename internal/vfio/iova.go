package vfio

import (
	"fmt"
	"slices"
)

// iovaRange is a piece of the device's address space, last included.
type iovaRange struct{ first, last uint64 }

// iovaSpace hands out device addresses, first fit, from the ranges that the IOMMU can translate: what is reserved, such as the window of
// message-signalled interrupts on x86, is not among them. Its owner locks it.
type iovaSpace struct {
	free []iovaRange // sorted, not touching each other
}

// newIOVASpace leaves out the page at 0, so that a null pointer in a command is never a valid address.
func newIOVASpace(ranges []iovaRange) *iovaSpace {
	s := &iovaSpace{}
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b iovaRange) int {
		if a.first < b.first {
			return -1
		}
		return 1
	})
	for _, r := range ranges {
		first := max((r.first+iovaPage-1)&^(iovaPage-1), iovaPage)
		last := (r.last+1)&^(iovaPage-1) - 1 // a range that ends with the address space wraps to itself
		if last > r.last {
			continue // not one whole page
		}
		if r.first <= first && first < last {
			s.free = append(s.free, iovaRange{first, last})
		}
	}
	return s
}

// take finds room for size bytes, a multiple of the page.
func (s *iovaSpace) take(size uint64) (uint64, error) {
	for i, r := range s.free {
		if r.last-r.first < size-1 {
			continue
		}
		if r.last-r.first == size-1 {
			s.free = slices.Delete(s.free, i, i+1)
		} else {
			s.free[i].first += size
		}
		return r.first, nil
	}
	return 0, fmt.Errorf("no room for %d bytes in the device's address space", size)
}

// give takes back what take gave.
func (s *iovaSpace) give(iova, size uint64) {
	r := iovaRange{iova, iova + size - 1}
	i, _ := slices.BinarySearchFunc(s.free, r, func(a, b iovaRange) int {
		if a.first < b.first {
			return -1
		}
		return 1
	})
	s.free = slices.Insert(s.free, i, r)
	if i+1 < len(s.free) && s.free[i].last+1 == s.free[i+1].first {
		s.free[i].last = s.free[i+1].last
		s.free = slices.Delete(s.free, i+1, i+2)
	}
	if i > 0 && s.free[i-1].last+1 == s.free[i].first {
		s.free[i-1].last = s.free[i].last
		s.free = slices.Delete(s.free, i, i+1)
	}
}
