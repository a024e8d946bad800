package pinned

import (
	"fmt"
	"math/bits"
	"os"
)

// Slab is a part of a pool that belongs to its holder until Free.
type Slab struct {
	pool  *Pool
	off   uint64
	size  uint64 // asked for
	taken uint64 // size in whole pages
	freed bool   // guarded by pool.mu
}

// Alloc takes n bytes, in whole pages, at an address that is a multiple of align: a power of two, raised to the page size. The first
// extent that fits is taken. Slabs of at most ChunkBytes lie within one registration. They hold what their last holder left.
//
// Errors: a [*FullError] at once, never a wait; ErrClosed; an error for n = 0 and an align that is no power of two.
func (p *Pool) Alloc(n, align uint64) (*Slab, error) {
	page := uint64(os.Getpagesize())
	align = max(align, page)
	if n == 0 || bits.OnesCount64(align) != 1 {
		return nil, fmt.Errorf("pinned: cannot allocate %d bytes aligned to %d: give a size from 1 and a power of two", n, align)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return nil, ErrClosed
	}
	if n <= p.m.size { // else rounding may overflow
		taken := (n + page - 1) / page * page
		if off, ok := p.ext.take(taken, align); ok {
			p.slabs++
			return &Slab{pool: p, off: off, size: n, taken: taken}, nil
		}
	}
	free, largest := p.ext.sum()
	return nil, &FullError{Need: n, Align: align, Free: free, Largest: largest}
}

// Free gives the slab back. The caller has ended every use of it before, copies in flight included. Errors: [*FreeError] when it was
// freed before; ErrClosed.
func (s *Slab) Free() error {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case s.freed:
		return &FreeError{s.off, s.size}
	case p.closed.Load():
		return ErrClosed
	}
	s.freed = true
	p.slabs--
	p.ext.give(s.off, s.taken)
	return nil
}

// Offset returns where in the pool the slab begins.
func (s *Slab) Offset() uint64 { return s.off }

// Size returns the bytes that were asked for.
func (s *Slab) Size() uint64 { return s.size }

// Bytes returns the slab's memory; nil after the pool's Close. It must not be used after Free.
func (s *Slab) Bytes() []byte {
	mem := s.pool.Bytes()
	if mem == nil {
		return nil
	}
	return mem[s.off : s.off+s.size : s.off+s.size]
}

// DeviceAddr is [Pool.DeviceAddr] of the slab's first byte.
func (s *Slab) DeviceAddr() (uint64, error) { return s.pool.DeviceAddr(s.off) }
