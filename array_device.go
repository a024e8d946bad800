package tritier

import (
	"context"
	"errors"
	"fmt"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/host"
	"github.com/tritier/tritier/tier/layout"
)

// DeviceBuffer is memory of the GPU that T1 lies in. A call orders itself with the
// stream: values are read after what the stream holds already, and what is put into
// the stream later finds values written. Without a stream the caller must wait itself
// for what fills the buffer.
type DeviceBuffer struct {
	Ptr    cuda.Ptr
	Size   int64 // bytes
	Stream *cuda.Stream
}

func (b DeviceBuffer) buffer() host.Buffer {
	return host.Buffer{Device: uint64(b.Ptr), Size: b.Size, Stream: b.Stream}
}

// check refuses a buffer that does not hold n elements.
func (a *Array[T]) check(b DeviceBuffer, n int) error {
	if b.Ptr == 0 || b.Size < 0 || uint64(b.Size) < uint64(n)*a.a.size {
		return fmt.Errorf("a buffer of %d bytes at %#x does not hold %d elements of %d bytes", b.Size, uint64(b.Ptr), n, a.a.size)
	}
	return nil
}

// GatherTo is Gather into GPU memory: element indices[i] comes to place i of dst.
func (a *Array[T]) GatherTo(ctx context.Context, indices []uint64, dst DeviceBuffer) error {
	if err := a.check(dst, len(indices)); err != nil {
		return err
	}
	return a.each(ctx, tier.Read, indices, len(indices), dst.buffer())
}

// ScatterFrom is Scatter from GPU memory. An index that occurs more than once gets
// any of its values.
func (a *Array[T]) ScatterFrom(ctx context.Context, indices []uint64, src DeviceBuffer) error {
	if err := a.check(src, len(indices)); err != nil {
		return err
	}
	return a.each(ctx, tier.Write, indices, len(indices), src.buffer())
}

// ReadTo is Read into GPU memory: n elements from number first on.
func (a *Array[T]) ReadTo(ctx context.Context, first uint64, n int, dst DeviceBuffer) error {
	if err := a.check(dst, max(n, 0)); err != nil || n <= 0 {
		return err
	}
	return a.run(ctx, tier.Read, first, uint64(n), dst.buffer())
}

// WriteFrom is Write from GPU memory: n elements from number first on.
func (a *Array[T]) WriteFrom(ctx context.Context, first uint64, n int, src DeviceBuffer) error {
	if err := a.check(src, max(n, 0)); err != nil || n <= 0 {
		return err
	}
	return a.run(ctx, tier.Write, first, uint64(n), src.buffer())
}

// ErrNoRef is Ref on a Memory whose engine is the CPU.
var ErrNoRef = errors.New("kernels cannot use the array: the Memory's engine is the CPU; open it with Engine gpu")

// ArrayRef is an array as kernels take it, by value: a plain struct of 64 bytes, of
// the layout of tritier::array_ref in the device headers. It is valid until the Memory
// is closed (from the first Close on, also where that leaves it open) or the array dropped.
type ArrayRef = layout.ArrayRef

// Ref gives the array to kernels. The Memory's engine must be gpu, or it is ErrNoRef.
func (a *Array[T]) Ref() (ArrayRef, error) {
	done, err := a.use()
	if err != nil {
		return ArrayRef{}, err
	}
	defer done()
	o, ok := a.m.eng.(*onDevice)
	if !ok {
		return ArrayRef{}, ErrNoRef
	}
	return o.ref(a.a)
}

// Watch waits for kernels that use arrays of the Memory, and ends with an error that
// has a dump instead of a hang: see bamio.Engine.Watch.
func (m *Memory) Watch(ctx context.Context, work bamio.Work) error {
	if err := m.open(); err != nil {
		return err
	}
	o, ok := m.eng.(*onDevice)
	if !ok {
		return ErrNoRef
	}
	err := o.e.Watch(ctx, work)
	if errors.Is(err, bamio.ErrClosed) {
		return errors.Join(ErrClosed, err) // kernels may still run
	}
	return err
}
