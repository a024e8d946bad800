package pinned

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/tritier/tritier/cuda"
)

// The package knows nothing of CUDA; these tests join the two, as copyeng does.

func openGPU(t testing.TB) *cuda.Context {
	t.Helper()
	driver, err := cuda.Open()
	var devices []*cuda.Device
	if err == nil {
		devices, err = driver.Devices()
	}
	if err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "gpu") {
			t.Fatalf("REQUIRE has gpu: %v", err)
		}
		t.Skip(err)
	}
	ctx, err := devices[0].Retain()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
	})
	return ctx
}

// onGPU is a configuration that registers with a context.
func onGPU(ctx *cuda.Context, size uint64) Config {
	return Config{
		Size: size, Node: AnyNode,
		Register: func(mem []byte) (uint64, func() error, error) {
			r, err := ctx.RegisterHost(mem, 0)
			if err != nil {
				return 0, nil, err
			}
			return uint64(r.DevicePtr()), r.Unregister, nil
		},
		OutOfMemory: func(err error) bool { return errors.Is(err, cuda.ErrOutOfMemory) },
	}
}

// Bytes come back from the device unchanged, wherever in its chunk they lie; a copy across a boundary is refused or right.
func TestGPUCopies(t *testing.T) {
	ctx := openGPU(t)
	cfg := onGPU(ctx, 96*mib+3*page)
	cfg.ChunkBytes = 32 * mib
	p := mustOpen(t, cfg)
	stream, err := ctx.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	const n = 64 * kib
	device, err := ctx.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Free()
	const seed = 11
	t.Logf("seed %d", seed)
	rng, mem := rand.New(rand.NewPCG(seed, 0)), p.Bytes()
	roundTrip := func(off, n uint64) error {
		part, want := mem[off:off+n], make([]byte, n)
		for i := range want {
			want[i] = byte(rng.Uint32())
		}
		copy(part, want)
		if err := stream.CopyToDevice(device.Ptr(), part); err != nil {
			return err
		}
		if err := stream.Wait(t.Context()); err != nil {
			return err
		}
		clear(part)
		if err := stream.CopyToHost(part, device.Ptr()); err != nil {
			return err
		}
		if err := stream.Wait(t.Context()); err != nil {
			return err
		}
		if !bytes.Equal(part, want) {
			t.Errorf("%d bytes at offset %d came back different", n, off)
		}
		return nil
	}
	for _, off := range []uint64{0, 32*mib - n, 32 * mib, 64*mib + 4096, 96*mib + 3*page - n} {
		if err := roundTrip(off, min(n, p.ChunkEnd(off)-off)); err != nil {
			t.Errorf("offset %d: %v", off, err)
		}
		info, err := ctx.PointerInfo(cuda.Ptr(address(mem) + off))
		if addr, _ := p.DeviceAddr(off); err != nil || uint64(info.DevicePtr) != addr {
			t.Errorf("offset %d: the pool says device address %x, the driver %x, %v", off, addr, info.DevicePtr, err)
		}
	}
	t.Logf("a copy across a boundary: %v; contiguous %v", roundTrip(32*mib-4096, 8192), p.Contiguous())
}

// The start-up's rate is what this package is for. The first pool may wait for the machine's own memory, as a virtual machine's does.
func TestGPUStartRate(t *testing.T) {
	ctx := openGPU(t)
	const size = 8 * gib
	if l, err := Limits(); err != nil || l.Check(size, AnyNode) != nil {
		t.Skip("8 GiB do not fit")
	}
	best := 0.0
	for range 3 {
		p, err := Open(t.Context(), onGPU(ctx, size))
		if err != nil {
			t.Fatal(err)
		}
		s := p.Stats()
		t.Logf("%.1f GB/s: %v, touched in %v, %v in the driver, %d workers, populate %v, huge %.2f", s.Rate()/1e9, s.Total, s.Touch, s.Register, s.Workers, s.Populate, s.HugeShare)
		best = max(best, s.Rate())
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if runtime.NumCPU() >= 16 && best < 5e9 {
		t.Errorf("%.2f GB/s, want 5", best/1e9)
	}
}

// BenchmarkOpenGPU compares ways to start 8 GiB, and the driver's own.
func BenchmarkOpenGPU(b *testing.B) {
	ctx := openGPU(b)
	const size = 8 * gib
	if l, err := Limits(); err != nil || l.Check(size, AnyNode) != nil {
		b.Skip("8 GiB do not fit")
	}
	for _, loop := range []bool{false, true} {
		for _, workers := range []int{4, 8, 12, 16} {
			for _, chunk := range []uint64{256 * mib, 1 * gib, 4 * gib, 8 * gib} {
				b.Run(fmt.Sprintf("loop %v/workers %d/chunk %d MiB", loop, workers, chunk/mib), func(b *testing.B) {
					cfg := onGPU(ctx, size)
					cfg.Workers, cfg.ChunkBytes, cfg.loop = workers, chunk, loop
					b.SetBytes(size)
					for b.Loop() {
						p, err := Open(b.Context(), cfg)
						if err != nil {
							b.Fatal(err)
						}
						b.StopTimer()
						if err := p.Close(); err != nil {
							b.Fatal(err)
						}
						b.StartTimer()
					}
				})
			}
		}
	}
	b.Run("cuMemHostAlloc", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			m, err := ctx.AllocHost(size, 0)
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := m.Free(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
}
