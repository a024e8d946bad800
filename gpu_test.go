package tritier_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/copyeng/copyfake"
	"github.com/tritier/tritier/copyeng/pieces/piecesfake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

// onGPU runs f with T1 in the memory of a software GPU, and of a real one if there is.
func onGPU(t *testing.T, f func(t *testing.T, d *cuda.Driver, fake *cudafake.GPU)) {
	t.Run("fake", func(t *testing.T) {
		fake := cudafake.New()
		defer func() {
			if !t.Failed() { // a memory that could not be closed still looks at what this unmaps
				fake.Close()
			}
		}()
		copyfake.Register(fake)
		piecesfake.Register(fake)
		defer tritier.UseBackend(fake)()
		d, err := tritier.OpenDriver()
		if err != nil {
			t.Fatal(err)
		}
		f(t, d, fake)
		if l, v := fake.Leaks(), fake.Violations(); len(l)+len(v) > 0 {
			t.Errorf("leaks: %q, violations: %q", l, v)
		}
	})
	t.Run("gpu", func(t *testing.T) {
		d, err := cuda.Open()
		if err != nil && strings.Contains(os.Getenv("REQUIRE"), "gpu") {
			t.Fatal(err)
		}
		if err != nil {
			t.Skip(err)
		}
		f(t, d, nil)
	})
}

// openGPU opens a Memory on the GPU; the caller closes it.
func openGPU(t *testing.T, c tritier.Config) *tritier.Memory {
	t.Helper()
	c.GPU = "0"
	m, err := tritier.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestContentsOnGPU: the same histories as in ordinary memory.
func TestContentsOnGPU(t *testing.T) {
	onGPU(t, func(t *testing.T, _ *cuda.Driver, _ *cudafake.GPU) {
		for i, policy := range policies {
			for _, size := range [][2]tritier.Size{{2, 0}, {2, 3}, {9, 20}, {400, 10}} {
				seed := rand.Uint64()
				t.Logf("%s %v: seed %d", policy, size, seed)
				m := openGPU(t, tritier.Config{Store: "mem:8MiB", PageSize: page, T1: size[0] * page, T2: size[1] * page,
					Buffers: 8 * page, Policy: policy, Checksums: i%2 == 0})
				a, err := tritier.NewArray[uint64](t.Context(), m, "a", 51217)
				if err != nil {
					t.Fatal(err)
				}
				want := make([]uint64, a.Len())
				change(t, rand.New(rand.NewPCG(seed, 0)), a, want, 2)
				compare(t, a, want)
				if d := m.Describe(); d.T1.Why != "" || !strings.Contains(d.T1.Where, "GPU") {
					t.Errorf("T1 is said to be in %+v", d.T1)
				}
				closeMemory(t, m)
			}
		}
	})
}

// TestDeviceBuffers: values come to, and from, memory of the GPU in the order of
// the caller's stream.
func TestDeviceBuffers(t *testing.T) {
	onGPU(t, func(t *testing.T, d *cuda.Driver, _ *cudafake.GPU) {
		dev, err := d.Device("0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, err := dev.Retain()
		if err != nil {
			t.Fatal(err)
		}
		defer ctx.Close()
		s, err := ctx.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		mem, err := ctx.Alloc(1 << 16)
		if err != nil {
			t.Fatal(err)
		}
		defer mem.Close()
		m := openGPU(t, tritier.Config{Store: "mem:8MiB", PageSize: page, T1: 3 * page, T2: 4 * page})
		defer closeMemory(t, m)
		a, err := tritier.NewArray[uint32](t.Context(), m, "a", 51217)
		if err != nil {
			t.Fatal(err)
		}
		buf := tritier.DeviceBuffer{Ptr: mem.Ptr(), Size: 1 << 16, Stream: s}
		idx, bytes := make([]uint64, 5000), make([]byte, 20000)
		for i, x := range rand.Perm(51217)[:5000] {
			idx[i] = uint64(x)
		}
		for i := range bytes {
			bytes[i] = byte(rand.Uint32())
		}
		got, run := make([]byte, len(bytes)), make([]byte, len(bytes))
		if err := errors.Join(s.CopyToDevice(buf.Ptr, bytes), a.ScatterFrom(t.Context(), idx, buf), s.Memset8(buf.Ptr, 0, 1<<16),
			a.GatherTo(t.Context(), idx, buf), s.CopyToHost(got, buf.Ptr), a.WriteFrom(t.Context(), 17, 5000, buf), s.Memset8(buf.Ptr, 0, 1<<16),
			a.ReadTo(t.Context(), 17, 5000, buf), s.CopyToHost(run, buf.Ptr), s.Wait(t.Context())); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, bytes) || !slices.Equal(run, bytes) {
			t.Error("what was gathered is not what was scattered")
		}
		if err := a.GatherTo(t.Context(), idx, tritier.DeviceBuffer{Ptr: buf.Ptr.Add(1<<16 - 8), Size: 1 << 16}); err == nil {
			t.Error("a buffer that leaves its memory is accepted")
		}
		buf.Size = 19999
		if a.GatherTo(t.Context(), idx, buf) == nil || a.WriteFrom(t.Context(), 0, 5000, buf) == nil || a.ReadTo(t.Context(), 0, 1, tritier.DeviceBuffer{}) == nil {
			t.Error("a buffer that is too small is accepted")
		}
	})
	m := open(t, tritier.Config{Store: "mem:8MiB", PageSize: page, T1: 3 * page})
	a, err := tritier.NewArray[uint32](t.Context(), m, "a", 100)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.ReadTo(t.Context(), 0, 1, tritier.DeviceBuffer{Ptr: 4096, Size: 4}); err == nil {
		t.Error("without a GPU, GPU memory is filled")
	}
}

// failing is a driver of which one call fails: the one with this number, counted
// from where it was set. Calls that give something back always work.
type failing struct {
	cuda.Backend
	left atomic.Int64
}

func (f *failing) Call(s cuda.Symbol, args []uintptr) cuda.Result {
	name := s.String()
	if !strings.Contains(name, "Free") && !strings.Contains(name, "Destroy") && !strings.Contains(name, "Release") && !strings.Contains(name, "Unload") &&
		!strings.Contains(name, "Unregister") && !strings.Contains(name, "SetCurrent") && !strings.Contains(name, "GetError") && f.left.Add(-1) == 0 {
		return cuda.OutOfMemory
	}
	return f.Backend.Call(s, args)
}

// TestGPUFailures: whichever call of the driver fails while a Memory opens, works
// and closes, an error says so and nothing is left behind.
func TestGPUFailures(t *testing.T) {
	fake := cudafake.New()
	defer fake.Close()
	copyfake.Register(fake)
	piecesfake.Register(fake)
	f := &failing{Backend: fake}
	defer tritier.UseBackend(f)()
	for n := int64(1); ; n += 1 + n/12 {
		f.left.Store(n)
		err := useAll(t)
		if f.left.Load() > 0 {
			if err != nil {
				t.Errorf("no call failed, and yet: %v", err)
			}
			t.Logf("%d calls", n)
			break
		}
		if l := fake.Leaks(); len(l) > 0 {
			t.Fatalf("after call %d failed with %v: %q", n, err, l)
		}
	}
}

// useAll opens a Memory, writes, reads and closes.
func useAll(t *testing.T) error {
	m, err := tritier.Open(t.Context(), tritier.Config{Store: "mem:8MiB", PageSize: page, T1: 2 * page, T2: 2 * page, GPU: "0"})
	if err != nil {
		return err
	}
	a, err := tritier.NewArray[uint32](t.Context(), m, "a", 5000)
	if err == nil {
		err = errors.Join(a.Write(t.Context(), 0, make([]uint32, 5000)), a.Read(t.Context(), 0, make([]uint32, 5000)))
	}
	return errors.Join(err, m.Close(t.Context()))
}

// TestNoGPU: without a usable GPU auto falls back and says why, and a GPU that was
// named is an error.
func TestNoGPU(t *testing.T) {
	defer tritier.UseBackend(nil)()
	c := tritier.Config{Store: "mem:8MiB", PageSize: page, T1: 3 * page}
	m, err := tritier.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if d := m.Describe(); !strings.Contains(d.T1.Why, "no GPU") || d.T1.Where != "ordinary memory" || !strings.Contains(d.String(), "no GPU") {
		t.Errorf("%+v", d)
	}
	closeMemory(t, m)
	for _, gpu := range []string{"0", "7", "GPU-00000000-0000-0000-0000-000000000000"} {
		c.GPU = gpu
		if _, err := tritier.Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "gpu "+gpu) {
			t.Errorf("GPU %s of none: %v", gpu, err)
		}
	}
}
