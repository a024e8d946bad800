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
	var failed AccessError
	most := min(indexLength, stageBytes>>ref.ElementShift)
	for at := 0; at < len(index); at += most {
		part := index[at:min(at+most, len(index))]
		list := e.index.Bytes()
		for i, x := range part {
			binary.LittleEndian.PutUint64(list[8*i:], x)
		}
		err := e.part(ctx, op, buf, at<<ref.ElementShift, len(part)<<ref.ElementShift, func(at cuda.Ptr, cfg cuda.LaunchConfig) error {
			return e.k.AccessByIndex(e.stream, cfg, &ref, uint32(op), e.index.DevicePtr(), uint64(len(part)), at, e.report())
		}, (len(part)+31)/32)
		if !failed.take(err) {
			return err
		}
		if failed.ended {
			failed.Failed += len(index) - at - len(part)
			break
		}
	}
	return failed.orNil()
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
	var failed AccessError
	each := uint64(e.o.PageSize) >> ref.ElementShift
	most := uint64(stageBytes) >> ref.ElementShift // a multiple of a page's
	for done := uint64(0); done < n; {
		x := first + done
		take := min(n-done, most-x%each)
		err := e.part(ctx, op, buf, int(done<<ref.ElementShift), int(take<<ref.ElementShift), func(at cuda.Ptr, cfg cuda.LaunchConfig) error {
			return e.k.AccessInRun(e.stream, cfg, &ref, uint32(op), x, take, at, e.report())
		}, int(take/each)+2)
		if !failed.take(err) {
			return err
		}
		done += take
		if failed.ended {
			failed.Failed += int((n - done + each - 1) / each)
			break
		}
	}
	return failed.orNil()
}

// part moves bytes at..at+n of the buffer by one launch for so many warps.
func (e *Engine) part(ctx context.Context, op tier.Op, buf Buffer, at, n int, launch func(cuda.Ptr, cuda.LaunchConfig) error, warps int) error {
	where := buf.Device.Add(uint64(at))
	staged := buf.Bytes != nil && op != tier.Prefetch
	if staged {
		where = e.stage.DevicePtr()
		copy(e.stage.Bytes(), buf.Bytes[at:at+n]) // reads too: what fails keeps its value
	}
	err := e.call(ctx, buf.Stream, func() error { return launch(where, e.shape(warps)) })
	var access *AccessError
	if staged && op == tier.Read && (err == nil || errors.As(err, &access)) {
		copy(buf.Bytes[at:at+n], e.stage.Bytes())
	}
	return err
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
