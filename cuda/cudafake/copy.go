package cudafake

import (
	"slices"

	"github.com/tritier/tritier/cuda"
)

// piece is how much of a copy runs before another stream may have its turn.
const piece = 256 << 10

// place is one end of a copy: either memory that the GPU knows, looked up when
// the copy runs, or bytes that are held: pageable memory, or a source that
// was read at the call.
type place struct {
	addr uintptr
	held []byte
}

// segment is one copy of n bytes.
type segment struct {
	dst, src place
	n        uint64
}

// copyRun is the work of copies, which run in the order of the list.
type copyRun struct {
	segments []segment
	blocks   []*block // pinned while it runs
	offset   uint64   // of the first segment
}

func (r *copyRun) begin(g *GPU, o *op) cuda.Result {
	for i := range r.segments {
		s := &r.segments[i]
		for _, p := range []*place{&s.dst, &s.src} {
			if p.held != nil {
				continue
			}
			b := g.find(p.addr)
			if b == nil || p.addr+uintptr(s.n) > b.end() {
				g.note("%s: %#x, %d bytes: no longer memory when it runs", o.name, p.addr, s.n)
				r.end(g)
				return cuda.IllegalAddress
			}
			b.pins++
			r.blocks = append(r.blocks, b)
			p.held = b.bytes[p.addr-b.base:][:s.n]
		}
	}
	return cuda.Success
}

func (r *copyRun) step() (last bool) {
	for budget := uint64(piece); budget > 0 && len(r.segments) > 0; {
		s := r.segments[0]
		n := min(budget, s.n-r.offset)
		copy(s.dst.held[r.offset:][:n], s.src.held[r.offset:][:n])
		r.offset += n
		budget -= n
		if r.offset == s.n {
			r.segments, r.offset = r.segments[1:], 0
		}
	}
	return len(r.segments) == 0
}

func (r *copyRun) end(g *GPU) {
	g.unpin(r.blocks)
	r.blocks = nil
}

// side is what an address is to a copy.
type side struct {
	addr  uintptr
	block *block // nil for pageable host memory
}

// side looks up n bytes at addr. InvalidValue means that they are not within
// one allocation, or in the GPU's part of the address space and no memory.
func (g *GPU) side(addr uintptr, n uint64) (side, cuda.Result) {
	b := g.find(addr)
	switch {
	case b == nil && g.owned(addr):
		return side{}, cuda.InvalidValue
	case b != nil && n > uint64(b.end()-addr):
		return side{}, cuda.InvalidValue
	}
	return side{addr, b}, cuda.Success
}

// there sees that pageable memory exists; of the GPU's, side knows it.
func (c *call) there(s side, n uint64, what string) bool {
	return s.block != nil || c.exists(s.addr, n, what)
}

// place is the side as a copy's end. Pageable memory is held as it is.
func (s side) place(n uint64) place {
	if s.block == nil {
		return place{held: view(s.addr, n)}
	}
	return place{addr: s.addr}
}

// staged is the side's content now.
func (s side) staged(n uint64) place {
	if s.block != nil {
		return place{held: slices.Clone(s.block.bytes[s.addr-s.block.base:][:n])}
	}
	return place{held: slices.Clone(view(s.addr, n))}
}

// copyTo queues a copy of n bytes, by the driver's rules: addresses decide
// where things are, and an argument that is by its type a device address must
// not be pageable. From pageable memory the source is read before the call
// returns, and to it the call returns when the copy is done.
func (c *call) copyTo(dst, src uintptr, n uint64, stream int, dstPinned, srcPinned bool) cuda.Result {
	s, r := c.stream(stream)
	if r != cuda.Success || n == 0 {
		return r
	}
	from, r1 := c.side(src, n)
	to, r2 := c.side(dst, n)
	if r1 != cuda.Success || r2 != cuda.Success ||
		from.block == nil && srcPinned || to.block == nil && dstPinned {
		return cuda.InvalidValue
	}
	if !c.there(from, n, "the source") || !c.there(to, n, "the destination") {
		return cuda.InvalidValue
	}
	if dst < src+uintptr(n) && src < dst+uintptr(n) {
		c.note("%s: source %#x and destination %#x, %d bytes, overlap", c.symbol, src, dst, n)
	}
	seg := segment{dst: to.place(n), src: from.place(n), n: n}
	if from.block == nil {
		seg.src = from.staged(n)
	}
	if from.block == nil || to.block == nil {
		c.pageable++
	}
	o := s.enqueue(copyName(from, to), &copyRun{segments: []segment{seg}})
	if to.block != nil {
		return cuda.Success
	}
	c.wait(o)
	return c.settle()
}

func copyName(from, to side) string {
	letter := func(s side) string {
		if s.block != nil && s.block.kind.device() {
			return "device"
		}
		return "host"
	}
	return "copy from " + letter(from) + " to " + letter(to)
}

func (c *call) copyToDevice() cuda.Result {
	return c.copyTo(c.ptr(0), c.ptr(1), c.u64(2), 3, true, false)
}

func (c *call) copyToHost() cuda.Result {
	return c.copyTo(c.ptr(0), c.ptr(1), c.u64(2), 3, false, true)
}

func (c *call) copyDevice() cuda.Result {
	return c.copyTo(c.ptr(0), c.ptr(1), c.u64(2), 3, true, true)
}

func (c *call) copyPeer() cuda.Result {
	for _, i := range []int{1, 3} {
		if x, ok := object[*context](c.GPU, c.ptr(i)); !ok || x.dead {
			return cuda.InvalidContext
		}
	}
	return c.copyTo(c.ptr(0), c.ptr(2), c.u64(4), 5, true, true)
}
