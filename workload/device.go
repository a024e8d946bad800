package workload

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/workload/kernels"
)

// Device runs a workload as kernels on the GPU of a Memory, on a stream of the caller's.
// It is for one goroutine.
type Device struct {
	mem    *tritier.Memory
	gpu    *cuda.Context
	stream *cuda.Stream
	sms    int
	frames int    // of T1
	page   uint64 // bytes

	outcome *cuda.DeviceMemory
	host    *cuda.HostMemory // its copy
	scratch *cuda.DeviceMemory
	values  *cuda.DeviceMemory // what the host gives kernels
	begun   *cuda.Event
	ended   *cuda.Event
	done    *cuda.Event
	k       io.Closer // the kernels of the program
	span    time.Duration
}

// mostScratch bounds the GPU memory of all warps' scratch memory, in bytes: where a warp
// needs much, fewer are launched.
const mostScratch = 1 << 30

// NewDevice loads the kernels of the workload of this name, which the driver compiles
// for the Memory's GPU. The Memory's engine must be gpu, or it is tritier.ErrNoRef.
// Kernels are launched on the stream, which the caller closes, after what it holds.
// Close the Device before the Memory.
func NewDevice(mem *tritier.Memory, stream *cuda.Stream, name string) (*Device, error) {
	gpu := mem.GPU()
	if gpu == nil {
		return nil, tritier.ErrNoRef
	}
	if stream == nil || !stream.Context().Same(gpu) {
		return nil, errors.New("kernels of a workload need a stream of the GPU that T1 lies in")
	}
	about := mem.Describe()
	d := &Device{mem: mem, gpu: gpu, stream: stream, frames: about.T1.Pages, page: uint64(about.PageSize)}
	if err := d.open(name); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Device) open(name string) (err error) {
	k, err := kindOf(name)
	if err != nil {
		return err
	}
	if d.k, err = k.load(d.gpu); err != nil {
		return err
	}
	if d.sms, err = d.gpu.Device().Attribute(cuda.MultiprocessorCount); err != nil {
		return err
	}
	if d.outcome, err = d.gpu.Alloc(kernels.OutcomeBytes); err != nil {
		return err
	}
	if d.host, err = d.gpu.AllocHost(kernels.OutcomeBytes, 0); err != nil {
		return err
	}
	for _, e := range []struct {
		to     **cuda.Event
		timing bool
	}{{&d.begun, true}, {&d.ended, true}, {&d.done, false}} {
		if *e.to, err = d.gpu.NewEvent(e.timing); err != nil {
			return err
		}
	}
	return d.stream.Memset8(d.outcome.Ptr(), 0, kernels.OutcomeBytes)
}

// Close frees what the Device has allocated on the GPU; kernels must have ended.
func (d *Device) Close() error {
	var errs []error
	if d.k != nil {
		errs = append(errs, d.k.Close())
	}
	for _, m := range []*cuda.DeviceMemory{d.outcome, d.scratch, d.values} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	if d.host != nil {
		errs = append(errs, d.host.Close())
	}
	for _, e := range []*cuda.Event{d.begun, d.ended, d.done} {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	return errors.Join(errs...)
}

// Span is the time that kernels have run since NewDevice, by the GPU's own events: from
// before each launch to behind it.
func (d *Device) Span() time.Duration { return d.span }

// loading is a function that loads kernels, for a Kind.
func loading[K io.Closer](load func(*cuda.Context) (K, error)) func(*cuda.Context) (io.Closer, error) {
	return func(gpu *cuda.Context) (io.Closer, error) {
		k, err := load(gpu)
		if err != nil {
			return nil, err // and no K that is nil
		}
		return k, nil
	}
}

// loaded are the Device's kernels.
func loaded[K io.Closer](d *Device) (K, error) {
	k, ok := d.k.(K)
	if !ok {
		return k, fmt.Errorf("the Device has the kernels of another workload, %T", d.k)
	}
	return k, nil
}

// shape is what a launch needs.
type shape struct {
	units   uint64 // of work, each for a warp
	perSM   int    // warps for each multiprocessor
	pins    int    // pages that a warp has pinned at a time
	scratch uint64 // bytes of a warp
	// meanwhile, if set, is done while the kernel runs.
	meanwhile func() error
}

// room is scratch memory as kernels take it: where, and how much each warp has.
type room struct {
	at    cuda.Ptr
	bytes uint64
}

// grid is the launch's shape: as many warps as there is work, pages to pin and scratch
// memory for, in blocks of at most 4, since misses of one hold no other up.
func (d *Device) grid(s shape) (cuda.LaunchConfig, int, error) {
	if d.frames < s.pins {
		return cuda.LaunchConfig{}, 0, &tritier.PinError{Frames: d.frames, Pinned: d.frames, Needs: s.pins}
	}
	warps := min(d.sms*s.perSM, d.frames/s.pins, int(min(max(s.units, 1), 1<<20)))
	if s.scratch > 0 {
		warps = max(min(warps, int(mostScratch/s.scratch)), 1)
	}
	each := min(warps, 4)
	blocks := warps / each
	return cuda.LaunchConfig{Grid: cuda.D1(uint32(blocks)), Block: cuda.D1(uint32(32 * each))}, blocks * each, nil
}

// grow makes *m at least so many bytes; what it held is lost.
func (d *Device) grow(m **cuda.DeviceMemory, bytes uint64) error {
	if *m != nil && (*m).Size() >= bytes {
		return nil
	}
	if *m != nil {
		old := *m
		*m = nil
		if err := old.Close(); err != nil {
			return err
		}
	}
	var err error
	if *m, err = d.gpu.Alloc(max(bytes, 256)); err != nil {
		return fmt.Errorf("%d bytes of scratch memory for kernels: %w", bytes, err)
	}
	return nil
}

// give copies bytes to the GPU, for the launches that follow, and returns where they are
// until the next call.
func (d *Device) give(b []byte) (cuda.Ptr, error) {
	if err := d.grow(&d.values, uint64(len(b))); err != nil {
		return 0, err
	}
	return d.values.Ptr(), d.stream.CopyToDevice(d.values.Ptr(), b)
}

// launch runs a kernel to its end and says whether it has found more to do. An error is
// one of accesses (*tritier.BatchError, *tritier.PinError), of what Memory.Watch says, or
// of the driver.
func (d *Device) launch(ctx context.Context, b *base, name string, s shape, kernel func(cuda.LaunchConfig, room) error) (more bool, err error) {
	cfg, warps, err := d.grid(s)
	if err != nil {
		return false, fmt.Errorf("kernel %s: %w", name, err)
	}
	s.scratch = (s.scratch + 255) / 256 * 256
	if err := d.grow(&d.scratch, uint64(warps)*s.scratch); err != nil {
		return false, fmt.Errorf("kernel %s: %w", name, err)
	}
	start := time.Now()
	if err := errors.Join(d.stream.Memset8(d.outcome.Ptr(), 0, clearedBytes), d.begun.Record(d.stream), kernel(cfg, room{d.scratch.Ptr(), s.scratch}),
		d.ended.Record(d.stream), d.stream.CopyToHost(d.host.Bytes(), d.outcome.Ptr()), d.done.Record(d.stream)); err != nil {
		return false, fmt.Errorf("kernel %s: %w", name, err)
	}
	var beside error
	if s.meanwhile != nil {
		beside = s.meanwhile()
	}
	watched := errors.Join(beside, d.mem.Watch(ctx, d.done))
	if done, err := d.done.Query(); !done {
		return false, fmt.Errorf("kernel %s: %w", name, errors.Join(watched, err))
	}
	took, err := d.ended.ElapsedSince(d.begun)
	d.span += took
	more, failed := d.result()
	if err = errors.Join(watched, failed, err); err != nil {
		return more, fmt.Errorf("kernel %s: %w", name, err)
	}
	if b.Launched != nil {
		b.Launched(Launch{Name: name, Start: start, Took: time.Since(start), Kernel: took})
	}
	return more, nil
}

// clearedBytes are those of an outcome that each launch begins anew.
const clearedBytes = kernels.OutcomeFirstAt + 8

// result reads the outcome of the launch that has ended.
func (d *Device) result() (more bool, err error) {
	o := d.host.Bytes()
	first := binary.LittleEndian.Uint64(o[kernels.OutcomeFirstAt:])
	failed := binary.LittleEndian.Uint32(o[kernels.OutcomeFailedAt:])
	return binary.LittleEndian.Uint32(o[kernels.OutcomeMoreAt:]) != 0, d.mem.AccessError(int(failed), first&0xffffffff, uint32(first>>32))
}

// pages is how many pages n elements of so many bytes take: units of work.
func (d *Device) pages(n, size uint64) uint64 { return (n*size + d.page - 1) / d.page }

// refs are arrays as kernels take them.
type refs struct {
	err error
}

type arrayRef = tritier.ArrayRef // as kernels take an array

// ref is an array's reference; errors stay with r.
func ref[T any](r *refs, a *tritier.Array[T]) *tritier.ArrayRef {
	if a == nil {
		r.err = errors.Join(r.err, errors.New("there is no array yet: Setup comes first"))
		return nil
	}
	x, err := a.Ref()
	r.err = errors.Join(r.err, err)
	return &x
}
