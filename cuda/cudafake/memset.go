package cudafake

import (
	"encoding/binary"
	"math"

	"github.com/tritier/tritier/cuda"
)

// setRun is the work of a memset: the pattern over and over.
type setRun struct {
	addr    uintptr
	n       uint64
	pattern [4]byte
	block   *block
	left    []byte // what is not yet set
}

func (r *setRun) begin(g *GPU, o *op) cuda.Result {
	b := g.find(r.addr)
	if b == nil || r.n > uint64(b.end()-r.addr) {
		g.note("%s: %#x, %d bytes: no longer memory when it runs", o.name, r.addr, r.n)
		return cuda.IllegalAddress
	}
	b.pins++
	r.block, r.left = b, b.bytes[r.addr-b.base:][:r.n]
	return cuda.Success
}

func (r *setRun) step() (last bool) {
	now := r.left[:min(piece, len(r.left))]
	for n := copy(now, r.pattern[:]); n < len(now); n *= 2 {
		copy(now[n:], now[:n])
	}
	r.left = r.left[len(now):]
	return len(r.left) == 0
}

func (r *setRun) end(g *GPU) { g.unpin([]*block{r.block}) }

func (c *call) memset8() cuda.Result {
	v := byte(c.u32(1))
	return c.set(c.u64(2), [4]byte{v, v, v, v})
}

func (c *call) memset32() cuda.Result {
	if c.ptr(0)%4 != 0 || c.u64(2) > math.MaxUint64/4 {
		return cuda.InvalidValue
	}
	var pattern [4]byte
	binary.NativeEndian.PutUint32(pattern[:], c.u32(1))
	return c.set(4*c.u64(2), pattern)
}

func (c *call) set(n uint64, pattern [4]byte) cuda.Result {
	s, r := c.stream(3)
	if r != cuda.Success || n == 0 {
		return r
	}
	to, r := c.side(c.ptr(0), n)
	if r != cuda.Success || to.block == nil {
		return cuda.InvalidValue
	}
	s.enqueue("memset", &setRun{addr: c.ptr(0), n: n, pattern: pattern})
	return cuda.Success
}
