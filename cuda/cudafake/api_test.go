package cudafake_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const addPTX = `
.version 6.3
.target sm_70
.address_size 64
.visible .global .align 4 .u32 bias = 7;
.visible .entry add(.param .u64 .ptr .align 1 add_0, .param .u64 add_1, .param .u32 add_2) .maxntid 256
{
	.shared .align 4 .b8 tile[1024];
	ret;
}
.visible .entry wild(.param .u64 wild_0) { ret; }
`

// rig is a context on a new GPU, which the test's end closes and checks.
type rig struct {
	*testing.T
	gpu *cudafake.GPU
	ctx *cuda.Context
}

func newRig(t *testing.T, opts ...cudafake.Option) *rig {
	t.Helper()
	g := cudafake.New(opts...)
	t.Logf("seed %d", g.Seed())
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	d, err := cuda.OpenBackend(g)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := d.Device("0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := dev.Retain()
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, g, ctx}
}

// end closes the context and checks that nothing is left and nothing was wrong.
func (r *rig) end() {
	r.Helper()
	r.must(r.ctx.Close())
	if l := r.gpu.Leaks(); len(l) > 0 {
		r.Errorf("leaks: %q", l)
	}
	if v := r.gpu.Violations(); len(v) > 0 {
		r.Errorf("violations: %q", v)
	}
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatalf("%+v", err)
	}
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%+v", err)
		}
		return v
	}
}

func (r *rig) stream() *cuda.Stream { r.Helper(); return must[*cuda.Stream](r)(r.ctx.NewStream()) }
func (r *rig) device(n uint64) *cuda.DeviceMemory {
	r.Helper()
	return must[*cuda.DeviceMemory](r)(r.ctx.Alloc(n))
}
func (r *rig) host(n uint64) *cuda.HostMemory {
	r.Helper()
	return must[*cuda.HostMemory](r)(r.ctx.AllocHost(n, 0))
}

func (r *rig) wait(s *cuda.Stream) error {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	return s.Wait(ctx)
}

func noise(seed, n uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// TestRoundTrip moves data through the device by each kind of copy.
func TestRoundTrip(t *testing.T) {
	r := newRig(t)
	const n = 3<<20 + 17
	s, a, b, in, out := r.stream(), r.device(n), r.device(n), r.host(n), r.host(n)
	want := noise(1, n)
	copy(in.Bytes(), want)
	if !bytes.Equal(out.Bytes(), bytes.Repeat([]byte{cudafake.Poison}, n)) {
		t.Error("new pinned memory is not poisoned")
	}
	r.must(s.CopyToDevice(a.Ptr(), in.Bytes()))
	r.must(s.CopyDevice(b.Ptr(), a.Ptr(), n))
	r.must(s.Memset8(b.Ptr().Add(5), 0xEE, 10))
	r.must(s.CopyToHost(out.Bytes(), b.Ptr()))
	r.must(r.wait(s))
	for i := range 10 {
		want[5+i] = 0xEE
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Error("data changed on its way through the device")
	}
	r.must(s.Close())
	r.end()
}

// TestBatchBothSignatures copies scattered pages by either form of the
// batched call.
func TestBatchBothSignatures(t *testing.T) {
	for version, symbol := range map[int]cuda.Symbol{12080: cuda.SymMemcpyBatchAsync, 13000: cuda.SymMemcpyBatchAsyncV2} {
		r := newRig(t, cudafake.Version(version))
		const page, n = 4096, 64
		s, dev, host, back := r.stream(), r.device(page*n), r.host(page*n), r.host(page*n)
		want := noise(2, page*n)
		copy(host.Bytes(), want)
		var down, up cuda.CopyBatch
		perm := rand.New(rand.NewPCG(3, 3)).Perm(n)
		for i, p := range perm {
			down.Add(uint64(dev.Ptr())+uint64(i*page), uint64(host.DevicePtr())+uint64(p*page), page)
			up.Add(uint64(back.DevicePtr())+uint64(p*page), uint64(dev.Ptr())+uint64(i*page), page)
		}
		r.must(s.CopyBatch(&down))
		r.must(s.CopyBatch(&up))
		r.must(r.wait(s))
		if !bytes.Equal(back.Bytes(), want) {
			t.Errorf("CUDA %d: pages changed", version)
		}
		if r.gpu.Calls(symbol) != 2 {
			t.Errorf("CUDA %d: %v called %d times, want 2", version, symbol, r.gpu.Calls(symbol))
		}
		r.end()
	}
	r := newRig(t, cudafake.Version(12060))
	var missing *cuda.MissingSymbolError
	if err := r.stream().CopyBatch(&cuda.CopyBatch{Dst: []uint64{1}, Src: []uint64{1}, Size: []uint64{1}}); !errors.As(err, &missing) {
		t.Errorf("a batch on CUDA 12.6: %v", err)
	}
	r.end()
}

// addKernel adds p[2] to each byte of p[1] bytes at p[0].
func addKernel(l *cudafake.Launch) error {
	m, err := l.Memory(l.U64(0), l.U64(8))
	if err != nil {
		return err
	}
	for i := range m {
		m[i] += byte(l.U32(16))
	}
	return nil
}

// TestKernels runs a registered kernel and checks what it is given.
func TestKernels(t *testing.T) {
	r := newRig(t)
	s, dev, out := r.stream(), r.device(100), r.host(100)
	m := must[*cuda.Module](t)(r.ctx.LoadModule([]byte(addPTX)))
	f := must[*cuda.Function](t)(m.Function("add"))
	r.must(s.Memset8(dev.Ptr(), 1, 100))
	if err := f.LaunchArgs(s, cuda.LaunchConfig{Grid: cuda.D1(1), Block: cuda.D1(32)}, dev, uint64(100), uint32(4)); !errors.Is(err, cuda.NotSupported) {
		t.Errorf("launch of a kernel without function: %v", err)
	}
	if v := r.gpu.Violations(); len(v) != 1 {
		t.Errorf("violations %q, want the missing function named", v)
	}
	var threads uint64
	r.gpu.RegisterKernel("add", func(l *cudafake.Launch) error {
		threads = l.Threads()
		return addKernel(l)
	})
	params := binary.LittleEndian.AppendUint64(nil, uint64(dev.Ptr()))
	params = binary.LittleEndian.AppendUint64(params, 100)
	params = binary.LittleEndian.AppendUint32(params, 2)
	r.must(f.Launch(s, cuda.LaunchConfig{Grid: cuda.D1(3), Block: cuda.D1(32)}, params, 0, 8, 16))
	r.must(f.LaunchArgs(s, cuda.LaunchConfig{Grid: cuda.D1(3), Block: cuda.D1(32)}, dev, uint64(99), uint32(40)))
	r.must(s.CopyToHost(out.Bytes(), dev.Ptr()))
	r.must(r.wait(s))
	if threads != 96 || out.Bytes()[0] != 43 || out.Bytes()[99] != 3 {
		t.Errorf("%d threads, first byte %d, last %d; want 96, 43, 3", threads, out.Bytes()[0], out.Bytes()[99])
	}
	global, size, err := m.Global("bias")
	r.must(err)
	r.must(s.CopyToHost(out.Bytes()[:size], global))
	r.must(r.wait(s))
	if got := binary.LittleEndian.Uint32(out.Bytes()); size != 4 || got != 7 {
		t.Errorf("global of %d bytes holds %d, want 4 bytes and 7", size, got)
	}
	shared := must[int](t)(f.Attribute(cuda.FunctionSharedBytes))
	if max := must[int](t)(f.Attribute(cuda.FunctionMaxThreadsPerBlock)); shared != 1024 || max != 256 {
		t.Errorf("%d bytes of shared memory and %d threads, want 1024 and 256", shared, max)
	}
	r.must(r.ctx.Close())
	if l := r.gpu.Leaks(); len(l) > 0 {
		t.Errorf("leaks: %q", l)
	}
}

// TestMissingSynchronisationShows reads the result of a copy before its
// stream is synchronised: it is not there yet.
func TestMissingSynchronisationShows(t *testing.T) {
	r := newRig(t, cudafake.Lag(-1))
	s, other, dev, out := r.stream(), r.stream(), r.device(64), r.host(64)
	r.must(s.Memset8(dev.Ptr(), 1, 64))
	r.must(s.CopyToHost(out.Bytes(), dev.Ptr()))
	r.must(r.wait(other)) // the wrong stream
	time.Sleep(5 * time.Millisecond)
	if out.Bytes()[0] != cudafake.Poison {
		t.Errorf("byte %#x before the stream is synchronised, want poison", out.Bytes()[0])
	}
	r.must(r.wait(s))
	if out.Bytes()[0] != 1 {
		t.Errorf("byte %#x after the wait, want 1", out.Bytes()[0])
	}
	r.end()
}

// TestWorkRunsByItself sees a copy's result with no call to the driver after
// it was queued.
func TestWorkRunsByItself(t *testing.T) {
	r := newRig(t)
	s, flag := r.stream(), r.host(4)
	seen := make(chan struct{})
	r.gpu.RegisterKernel("wild", func(*cudafake.Launch) error { close(seen); return nil })
	m := must[*cuda.Module](t)(r.ctx.LoadModule([]byte(addPTX)))
	f := must[*cuda.Function](t)(m.Function("wild"))
	r.must(f.LaunchArgs(s, cuda.LaunchConfig{Grid: cuda.D1(1), Block: cuda.D1(1)}, flag.DevicePtr()))
	select {
	case <-seen:
	case <-time.After(10 * time.Second):
		t.Error("the kernel did not start by itself")
	}
	r.end()
}

// TestIllegalAccessLosesTheContext launches a kernel that leaves its memory.
func TestIllegalAccessLosesTheContext(t *testing.T) {
	r := newRig(t)
	s, dev, out := r.stream(), r.device(100), r.host(100)
	r.gpu.RegisterKernel("add", addKernel)
	m := must[*cuda.Module](t)(r.ctx.LoadModule([]byte(addPTX)))
	f := must[*cuda.Function](t)(m.Function("add"))
	r.must(f.LaunchArgs(s, cuda.LaunchConfig{Grid: cuda.D1(1), Block: cuda.D1(32)}, dev, uint64(101), uint32(4)))
	r.must(s.CopyToHost(out.Bytes(), dev.Ptr()))
	err := r.wait(s)
	if !errors.Is(err, cuda.IllegalAddress) || !errors.Is(err, cuda.ErrSticky) {
		t.Errorf("wait: %v, want a sticky illegal address", err)
	}
	if _, err := r.ctx.Alloc(10); !errors.Is(err, cuda.ErrSticky) {
		t.Errorf("a later call: %v, want the sticky error", err)
	}
	if out.Bytes()[0] != cudafake.Poison {
		t.Error("a copy ran after the context was lost")
	}
	if v := r.gpu.Violations(); len(v) != 1 {
		t.Errorf("violations %q, want the access", v)
	}
	_ = r.ctx.Close() // it says again that the context is lost
	if l := r.gpu.Leaks(); len(l) > 0 {
		t.Errorf("a lost context leaks %q", l)
	}
}

// TestWaitEndsWithItsDeadline hangs an operation.
func TestWaitEndsWithItsDeadline(t *testing.T) {
	r := newRig(t)
	s, dev := r.stream(), r.device(64)
	r.gpu.Hang()
	r.must(s.Memset8(dev.Ptr(), 1, 64))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var late *cuda.DeadlineError
	if err := s.Wait(ctx); !errors.As(err, &late) {
		t.Errorf("wait for a hanging operation: %v", err)
	}
	if r.gpu.Hanging() != 1 {
		t.Errorf("%d operations hang, want 1", r.gpu.Hanging())
	}
	r.gpu.Release()
	r.must(r.wait(s))
	r.end()
}
