package cuda

import (
	"math"
	"unsafe"
)

// CopyOrder says when a batch may read its sources (CUmemcpySrcAccessOrder).
type CopyOrder uint32

// The orders. In each, writes keep the stream's order.
const (
	// SourceInStreamOrder reads after the work before the batch. It is the
	// default, and right for every kind of memory.
	SourceInStreamOrder CopyOrder = iota
	// SourceDuringCall reads before CopyBatch returns.
	SourceDuringCall
	// SourceAtAnyTime reads before or after the work before the batch: only
	// for sources that no work in flight writes.
	SourceAtAnyTime
)

// CopyBatch is a list of copies, of host or device memory to host or device
// memory. It may be used again, with its slices resliced, for any number of
// calls, by one goroutine at a time.
type CopyBatch struct {
	// Dst and Src are addresses: device addresses, or addresses of pinned
	// host memory as the CPU uses them. Size is in bytes. All have the same
	// length.
	Dst, Src, Size []uint64
	// Order is one for all copies.
	Order CopyOrder
	// OverlapCompute asks for copies that disturb kernels less.
	OverlapCompute bool
}

// Add appends one copy of n bytes.
func (b *CopyBatch) Add(dst, src, n uint64) {
	b.Dst, b.Src, b.Size = append(b.Dst, dst), append(b.Src, src), append(b.Size, n)
}

// Reset empties the batch and keeps its memory.
func (b *CopyBatch) Reset() { b.Dst, b.Src, b.Size = b.Dst[:0], b.Src[:0], b.Size[:0] }

// copyAttributes is CUmemcpyAttributes: 24 bytes, in CUDA 12.8 and 13. The
// places are hints for memory that CUDA did not allocate; zero is no hint.
type copyAttributes struct {
	srcAccessOrder   uint32
	srcType, srcID   int32
	destType, destID int32
	flags            uint32
}

// copyPreferOverlap is CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE.
const copyPreferOverlap = 1

// CopyBatch submits all copies of the batch with one call. The batch keeps the
// stream's order; its copies run in any order, so they must not depend on each
// other. Memory must stay valid until the work is done; the batch itself is
// free when CopyBatch returns. An empty batch is no work.
//
// It needs CUDA 12.8: a *MissingSymbolError says that the driver is older. On
// the legacy default stream the driver refuses it: ErrLegacyStream.
func (s *Stream) CopyBatch(b *CopyBatch) error {
	const call = "cuda.Stream.CopyBatch"
	if err := s.acquire(call); err != nil {
		return err
	}
	defer s.release()
	sym := SymMemcpyBatchAsync
	if s.ctx.driver.has[SymMemcpyBatchAsyncV2] {
		sym = SymMemcpyBatchAsyncV2
	}
	if err := s.checkBatch(call, b); err != nil {
		return err
	}
	if len(b.Dst) == 0 {
		return s.alive(sym)
	}
	f := newFrame()
	defer f.free()
	n := f.batch(sym, b, s.handle)
	if err := s.ctx.run(sym, f, n); err != nil {
		return f.batchError(err, sym, b, s)
	}
	return nil
}

// checkBatch refuses what the driver would refuse, or would read out of bounds.
func (s *Stream) checkBatch(call string, b *CopyBatch) error {
	if b == nil {
		return missing(call, "batch")
	}
	if s.legacy() {
		e := refused(call, "use a stream of NewStream", "%s", s)
		e.cause = ErrLegacyStream
		return e
	}
	if len(b.Dst) != len(b.Src) || len(b.Dst) != len(b.Size) {
		return refused(call, "give the three the same length",
			"a batch of %d destinations, %d sources, %d sizes", len(b.Dst), len(b.Src), len(b.Size))
	}
	if b.Order > SourceAtAnyTime {
		return refused(call, "see CopyOrder", "order %d", b.Order)
	}
	return nil
}

// batch sets the arguments: (dsts, srcs, sizes, count, attrs, attrsIdxs,
// numAttrs, failIdx, stream), where CUDA 13.0 has no failIdx.
func (f *frame) batch(sym Symbol, b *CopyBatch, stream uintptr) int {
	f.keep[0] = unsafe.Pointer(unsafe.SliceData(b.Dst))
	f.keep[1] = unsafe.Pointer(unsafe.SliceData(b.Src))
	f.keep[2] = unsafe.Pointer(unsafe.SliceData(b.Size))
	f.attrs = copyAttributes{srcAccessOrder: uint32(b.Order) + 1} // CUDA counts from 1
	if b.OverlapCompute {
		f.attrs.flags = copyPreferOverlap
	}
	f.index, f.fail = 0, math.MaxUint64
	a := append(f.args[:0], uintptr(f.keep[0]), uintptr(f.keep[1]), uintptr(f.keep[2]), uintptr(len(b.Dst)),
		uintptr(unsafe.Pointer(&f.attrs)), uintptr(unsafe.Pointer(&f.index)), 1)
	if sym == SymMemcpyBatchAsync {
		a = append(a, uintptr(unsafe.Pointer(&f.fail)))
	}
	return len(append(a, stream))
}

// batchError says which copy of the batch failed, where the driver tells.
func (f *frame) batchError(err error, sym Symbol, b *CopyBatch, s *Stream) error {
	if i := f.fail; sym == SymMemcpyBatchAsync && i < uint64(len(b.Dst)) {
		return about(err, "copy %d of a batch of %d in %s: %d bytes from %#x to %#x",
			i, len(b.Dst), s, b.Size[i], b.Src[i], b.Dst[i])
	}
	return about(err, "a batch of %d copies in %s", len(b.Dst), s)
}
