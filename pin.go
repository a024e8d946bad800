package tritier

import "context"

// Pinned is a range of an array whose pages stay in T1 until Unpin.
type Pinned[T any] struct {
	a      *Array[T]
	pages  []uint64 // of the array
	frames []int32
	first  uint64
	n      uint64
}

// Pin brings n elements from number first on into T1 and keeps their pages there.
// One frame always stays free: a *PinError says how many would be needed. With engine
// gpu, each page is an access; else a prefetch.
func (a *Array[T]) Pin(ctx context.Context, first, n uint64) (*Pinned[T], error) {
	if err := a.checkRange(first, n); err != nil {
		return nil, err
	}
	p := &Pinned[T]{a: a, first: first, n: n}
	for done := uint64(0); done < n; done += a.a.take(first+done, n-done) {
		p.pages = append(p.pages, (first+done)/a.a.perPage)
	}
	if len(p.pages) == 0 {
		return p, nil
	}
	used, err := a.use()
	if err != nil {
		return nil, err
	}
	defer used()
	if p.frames, err = a.m.eng.pin(ctx, a.a, p.pages); err != nil {
		return nil, err
	}
	return p, nil
}

// each calls f for the piece of the range on each page: where it begins in T1, in bytes.
func (p *Pinned[T]) each(f func(at, elements uint64)) {
	a, page := p.a.a, uint64(p.a.m.cfg.PageSize)
	x := p.first
	for _, frame := range p.frames {
		take := a.take(x, p.first+p.n-x)
		f(uint64(frame)*page+x%a.perPage*a.size, take)
		x += take
	}
}

// Addresses are the addresses in T1 of the pieces of the range, one a page, in
// order: GPU memory if T1 is. Kernels of the caller may read there until Unpin or Close. None
// after the Memory's Close.
func (p *Pinned[T]) Addresses() []uint64 {
	if p.a.m.open() != nil {
		return nil
	}
	base, _ := p.a.m.eng.frames()
	var list []uint64
	p.each(func(at, _ uint64) { list = append(list, base+at) })
	return list
}

// Values are the pieces of the range, one a page, in order, to be read until Unpin or Close;
// nil when T1 is GPU memory, or the Memory closed. A Write or Scatter to them meanwhile
// changes them.
func (p *Pinned[T]) Values() [][]T {
	if p.a.m.open() != nil {
		return nil
	}
	_, frames := p.a.m.eng.frames()
	if frames == nil {
		return nil
	}
	var list [][]T
	p.each(func(at, n uint64) { list = append(list, valuesOf[T](frames[at:at+n*p.a.a.size])) })
	return list
}

// Unpin lets the pages go. A second call does nothing.
func (p *Pinned[T]) Unpin() error {
	if len(p.pages) == 0 {
		return nil
	}
	if err := p.a.m.open(); err != nil {
		return err
	}
	err := p.a.m.eng.unpin(p.a.a, p.pages, p.frames)
	p.pages, p.frames = nil, nil
	return err
}
