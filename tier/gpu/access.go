package gpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/layout"
)

// Buffer is memory of the caller: ordinary memory, or memory of the engine's GPU,
// which is used in the order of the stream.
type Buffer struct {
	Bytes  []byte
	Device cuda.Ptr
	Size   int64
	Stream *cuda.Stream
}

// holds says why n elements of a reference's size do not fit, or nil.
func (b Buffer) holds(n uint64, shift uint8) error {
	size := uint64(len(b.Bytes))
	if b.Bytes == nil {
		size = uint64(max(b.Size, 0))
	}
	if n > size>>shift {
		return fmt.Errorf("a buffer of %d bytes does not hold %d elements of %d", size, n, 1<<shift)
	}
	return nil
}

// shape is the grid for so many warps, blocks of at most 4: misses of one block's
// warps do not hold its others up.
func (e *Engine) shape(warps int) cuda.LaunchConfig {
	warps = min(max(warps, 1), e.o.Warps)
	each := min(warps, 4)
	return cuda.LaunchConfig{Grid: cuda.D1(uint32((warps + each - 1) / each)), Block: cuda.D1(uint32(32 * each))}
}

// Elements reads element index[i] of an array to place i of the buffer, writes it from
// there, or brings its page to T1, for all i. On an *AccessError the others were done.
//
// Of this and the other batch calls: Options.Retries says how often an access that a drive
// has refused is made again, at once and by itself: nothing that was written is
// written a second time. The end of ctx asks the kernel to end, and I/O
// in flight to be the last. What is left out then is unknown. After an access that has
// waited in vain for Options.Deadline the rest is not tried and counts as failed, so
// that a batch over a dead drive ends soon. Where ctx has no deadline, a kernel that does
// not get on is a *HangError. After a *RunningError the buffer still belongs to the kernel.
func (e *Engine) Elements(ctx context.Context, ref layout.ArrayRef, op tier.Op, index []uint64, buf Buffer) error {
	if op != tier.Prefetch {
		if err := buf.holds(uint64(len(index)), ref.ElementShift); err != nil {
			return err
		}
	}
	if err := e.mu.enter(ctx); err != nil {
		return err
	}
	defer e.mu.leave()
	if err := e.ready(ctx); err != nil {
		return err
	}
	ref.Engine = uint64(e.batch.Ptr())
	most := uint64(min(indexLength, e.half()>>ref.ElementShift))
	b := batch{e: e, op: op, buf: buf, shift: ref.ElementShift, n: uint64(len(index)), most: func(uint64) uint64 { return most },
		left: func(n uint64) int { return int(n) }}
	b.launch = func(at, n uint64, where cuda.Ptr) error {
		list := e.index.Bytes()
		for i, x := range index[at : at+n] {
			binary.LittleEndian.PutUint64(list[8*i:], x)
		}
		return e.k.AccessByIndex(e.stream, e.shape(int(n+31)/32), &ref, uint32(op), e.index.DevicePtr(), n, where, e.report())
	}
	return b.run(ctx)
}

// Run reads or writes n elements from number first on. Pages that a write covers
// are not fetched.
func (e *Engine) Run(ctx context.Context, ref layout.ArrayRef, op tier.Op, first, n uint64, buf Buffer) error {
	if op != tier.Read && op != tier.Write {
		return fmt.Errorf("operation %d on a run: want Read or Write", op)
	}
	if first > ref.Length || n > ref.Length-first {
		return ErrRange
	}
	if err := buf.holds(n, ref.ElementShift); err != nil {
		return err
	}
	if err := e.mu.enter(ctx); err != nil {
		return err
	}
	defer e.mu.leave()
	if err := e.ready(ctx); err != nil {
		return err
	}
	ref.Engine = uint64(e.batch.Ptr())
	each := uint64(e.o.PageSize) >> ref.ElementShift
	most := uint64(e.half()) >> ref.ElementShift // a multiple of a page's
	b := batch{e: e, op: op, buf: buf, shift: ref.ElementShift, n: n, most: func(at uint64) uint64 { return most - (first+at)%each },
		left: func(n uint64) int { return int((n + each - 1) / each) }}
	b.launch = func(at, n uint64, where cuda.Ptr) error {
		return e.k.AccessInRun(e.stream, e.shape(int(n/each)+2), &ref, uint32(op), first+at, n, where, e.report())
	}
	return b.run(ctx)
}

// call launches behind what the caller's stream holds, and waits. The caller's stream
// needs no wait afterwards: batch calls return when their kernel has ended.
func (e *Engine) call(ctx context.Context, s *cuda.Stream, launch func() error) error {
	clear(e.shared.Bytes()[reportAt:mailboxAt])
	binary.LittleEndian.PutUint32(e.shared.Bytes()[reportAt+reportRetriesAt:], uint32(e.o.Retries))
	if s == nil {
		if err := launch(); err != nil {
			return err
		}
		return e.wait(ctx, nil)
	}
	if !s.Context().Same(e.ctx) {
		return errors.New("the stream is of another context than T1's memory")
	}
	front, err := e.ctx.NewEvent(false)
	if err != nil {
		return err
	}
	defer front.Close()
	if err := errors.Join(front.Record(s), e.stream.WaitEvent(front)); err != nil {
		return err
	}
	if err := launch(); err != nil {
		return err
	}
	return e.wait(ctx, front)
}

func (e *Engine) report() cuda.Ptr { return e.shared.DevicePtr().Add(reportAt) }

// Flush writes every dirty page to T3, where it stays in its tier, and makes the
// drives durable. Kernels may run: what they write meanwhile may not be covered. An
// *AccessError names pages that are not written, with ErrFenced those of which an older
// write may still be carried out; they stay dirty, for a Flush once the drive has answered.
// A *DriveFlushError says that all were written, but may not be durable.
func (e *Engine) Flush(ctx context.Context) error {
	if err := e.mu.enter(ctx); err != nil {
		return err
	}
	defer e.mu.leave()
	return e.flush(ctx)
}

// FlushLast is Flush, and once it has written everything batch calls answer ErrClosed: one
// that waits for it meanwhile would write what nobody flushes any more.
func (e *Engine) FlushLast(ctx context.Context) error {
	if err := e.mu.enter(ctx); err != nil {
		return err
	}
	defer e.mu.leave()
	err := e.flush(ctx)
	e.retired = e.retired || err == nil
	return err
}

// flush is Flush. The caller has mu.
func (e *Engine) flush(ctx context.Context) error {
	if err := e.ready(ctx); err != nil {
		return err
	}
	cfg := e.shape(e.o.Spares) // a page of T1 needs a slot
	if err := e.call(ctx, nil, func() error { return e.k.FlushDirty(e.stream, cfg, e.batch.Ptr(), e.report()) }); err != nil {
		return err
	}
	if err := Status(binary.LittleEndian.Uint32(e.shared.Bytes()[reportAt+12:])).Err(); err != nil {
		return &DriveFlushError{err}
	}
	return nil
}
