package tritier

import (
	"context"

	"github.com/tritier/tritier/placement"
)

// Pinned is a range of an array whose pages stay in T1 until Unpin.
type Pinned[T any] struct {
	a      *Array[T]
	pages  []placement.Page
	frames []int32
	first  uint64
	n      uint64
}

// Pin brings n elements from number first on into T1 and keeps their pages there.
// One frame always stays free: a *PinError says how many would be needed.
func (a *Array[T]) Pin(ctx context.Context, first, n uint64) (*Pinned[T], error) {
	if err := a.checkRange(first, n); err != nil {
		return nil, err
	}
	p := &Pinned[T]{a: a, first: first, n: n}
	for done := uint64(0); done < n; done += a.take(first+done, n-done) {
		p.pages = append(p.pages, a.a.base+placement.Page((first+done)/a.perPage))
	}
	if len(p.pages) == 0 {
		return p, nil
	}
	var err error
	if p.frames, err = a.m.host.Pin(ctx, p.pages); err != nil {
		return nil, err
	}
	return p, nil
}

// Addresses are the addresses in T1 of the pieces of the range, one a page, in
// order: GPU memory if T1 is. Kernels of the caller may read there until Unpin.
func (p *Pinned[T]) Addresses() []uint64 {
	base, page := p.a.m.tiers.t1.Address(), uint64(p.a.m.cfg.PageSize)
	list := make([]uint64, len(p.frames))
	at := p.first
	for i, f := range p.frames {
		list[i] = base + uint64(f)*page + at%p.a.perPage*p.a.size
		at += p.a.take(at, p.first+p.n-at)
	}
	return list
}

// Values are the pieces of the range, one a page, in order, to be read until Unpin;
// nil when T1 is GPU memory. A Write or Scatter to them meanwhile changes them.
func (p *Pinned[T]) Values() [][]T {
	frames := p.a.m.tiers.t1.Bytes()
	if frames == nil {
		return nil
	}
	page := uint64(p.a.m.cfg.PageSize)
	list := make([][]T, len(p.frames))
	at := p.first
	for i, f := range p.frames {
		take := p.a.take(at, p.first+p.n-at)
		from := uint64(f)*page + at%p.a.perPage*p.a.size
		list[i] = valuesOf[T](frames[from : from+take*p.a.size])
		at += take
	}
	return list
}

// Unpin lets the pages go. A second call does nothing.
func (p *Pinned[T]) Unpin() {
	p.a.m.host.Unpin(p.pages)
	p.pages, p.frames = nil, nil
}
