package cudafake

import (
	"math"

	"github.com/tritier/tritier/cuda"
)

// When a batch reads its sources (CUmemcpySrcAccessOrder).
const (
	inStreamOrder = 1
	duringCall    = 2
	anyOrder      = 3
)

// attributeBytes is the size of CUmemcpyAttributes: access order, two
// locations of two words each, flags.
const attributeBytes = 24

// batch is the arguments of a batched copy.
type batch struct {
	dsts, srcs, sizes uintptr
	count             uint64
	attrs, first      uintptr // attributes, and the first copy of each
	attrCount         uint64
}

// copyBatch answers both forms of the call: that of CUDA 12.8 has a place for
// the index of the copy at fault before the stream.
func (c *call) copyBatch() cuda.Result {
	b := batch{c.ptr(0), c.ptr(1), c.ptr(2), c.u64(3), c.ptr(4), c.ptr(5), c.u64(6)}
	stream, fail := 7, uint64(math.MaxUint64)
	if c.symbol == cuda.SymMemcpyBatchAsync {
		stream = 8
	}
	if stream == 8 && c.ptr(7) >= lowest {
		touch(c.ptr(7))
	}
	r := c.queueBatch(b, stream, &fail)
	if stream == 8 && c.ptr(7) >= lowest {
		c.put64(7, fail)
	}
	return r
}

// queueBatch checks the whole batch before it queues anything; fail is the
// index of the copy at fault, left alone where none is.
func (c *call) queueBatch(b batch, stream int, fail *uint64) cuda.Result {
	if h := c.ptr(stream); h == nullStream || h == legacyStream {
		return cuda.InvalidValue
	}
	s, r := c.stream(stream)
	if r != cuda.Success {
		return r
	}
	if !b.listed() || !c.lists(b) {
		return cuda.InvalidValue
	}
	orders, ok := b.orders()
	if !ok {
		return cuda.InvalidValue
	}
	segments := make([]segment, 0, b.count)
	pageable, within := 0, false // within the host: from pageable to any host memory, or back
	for i := range b.count {
		seg, paged, host, ok := c.batchSegment(b, i, orders[i])
		if !ok {
			*fail = i
			return cuda.InvalidValue
		}
		segments = append(segments, seg)
		within = within || host
		if paged {
			pageable++
		}
	}
	c.pageable += pageable
	// Copies of a batch are in no order: code that relies on one is wrong.
	c.rng.Shuffle(len(segments), func(i, j int) { segments[i], segments[j] = segments[j], segments[i] })
	o := s.enqueue("batch of copies", &copyRun{segments: segments})
	if !within {
		return cuda.Success
	}
	c.wait(o)
	return c.settle()
}

// batchSegment is the i-th copy. Sources are read when their order says:
// where that is any, a drawn one of now and later. Pageable memory at either
// end is, unlike in single copies, no reason to wait, except between places
// of the host.
func (c *call) batchSegment(b batch, i uint64, order uint32) (seg segment, paged, host, ok bool) {
	at := uintptr(8 * i)
	dst, src, n := uintptr(get64(b.dsts+at)), uintptr(get64(b.srcs+at)), get64(b.sizes+at)
	if n == 0 {
		return seg, false, false, false
	}
	from, r1 := c.side(src, n)
	to, r2 := c.side(dst, n)
	if r1 != cuda.Success || r2 != cuda.Success || !c.there(from, n, "the source") || !c.there(to, n, "the destination") {
		return seg, false, false, false
	}
	seg = segment{dst: to.place(n), src: from.place(n), n: n}
	if order == duringCall || order == anyOrder && c.rng.IntN(2) == 0 {
		seg.src = from.staged(n)
	}
	paged = from.block == nil || to.block == nil
	host = paged && !from.device() && !to.device()
	return seg, paged, host, true
}

func (s side) device() bool { return s.block != nil && s.block.kind.device() }

// listed says whether there are copies, and attributes for them.
func (b batch) listed() bool {
	return b.count != 0 && b.attrCount != 0 && b.attrCount <= b.count && b.attrs >= lowest && b.first >= lowest
}

// lists sees that the lists are as long as they are said to be.
func (c *call) lists(b batch) bool {
	if b.count > maxBytes/attributeBytes {
		c.note("%s: a batch of %d copies: no lists are as long", c.symbol, b.count)
		return false
	}
	n := 8 * b.count
	return c.exists(b.dsts, n, "the list of destinations") && c.exists(b.srcs, n, "the list of sources") &&
		c.exists(b.sizes, n, "the list of sizes") && c.exists(b.attrs, attributeBytes*b.attrCount, "the list of attributes") &&
		c.exists(b.first, 8*b.attrCount, "the list of the attributes' copies")
}

// orders is the access order of each copy, ok if the attributes are in order.
func (b batch) orders() (orders []uint32, ok bool) {
	orders = make([]uint32, b.count)
	for k := range b.attrCount {
		a := b.attrs + uintptr(k)*attributeBytes
		order, flags := get32(a), get32(a+attributeBytes-4)
		from, to := get64(b.first+uintptr(8*k)), b.count
		if k+1 < b.attrCount {
			to = get64(b.first + uintptr(8*(k+1)))
		}
		if order < inStreamOrder || order > anyOrder || flags > 1 || k == 0 && from != 0 || from >= to || to > b.count {
			return nil, false
		}
		for i := from; i < to; i++ {
			orders[i] = order
		}
	}
	return orders, true
}
