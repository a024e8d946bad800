package selftest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/tritier/tritier/cuda"
)

// gpu is a device with the kernels loaded, and a stream.
type gpu struct {
	*kernels
	t      *testing.T
	ctx    *cuda.Context
	stream *cuda.Stream
}

// openGPU opens the first device. Without one the test is skipped, and fails
// when REQUIRE has gpu.
func openGPU(t *testing.T) *gpu {
	t.Helper()
	drv, err := cuda.Open()
	var devices []*cuda.Device
	if err == nil {
		devices, err = drv.Devices()
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
	g := &gpu{t: t, ctx: ctx}
	g.closeLater(ctx.Close)
	if g.kernels, err = loadKernels(ctx); err != nil {
		t.Fatalf("%+v", err)
	}
	g.closeLater(g.kernels.Close)
	if g.stream, err = ctx.NewStream(); err != nil {
		t.Fatal(err)
	}
	g.closeLater(g.stream.Close)
	return g
}

func (g *gpu) closeLater(f func() error) {
	g.t.Cleanup(func() {
		if err := f(); err != nil {
			g.t.Error(err)
		}
	})
}

// host gives n zero words of mapped host memory.
func (g *gpu) host(n int) ([]uint64, cuda.Ptr) {
	g.t.Helper()
	m, err := g.ctx.AllocHost(uint64(n)*8, 0)
	if err != nil {
		g.t.Fatal(err)
	}
	g.closeLater(m.Free)
	clear(m.Bytes())
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(m.Bytes()))), n), m.DevicePtr()
}

// host32 is host in words of 32 bits.
func (g *gpu) host32(n int) ([]uint32, cuda.Ptr) {
	g.t.Helper()
	words, p := g.host((n + 1) / 2)
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(words))), n), p
}

// device gives n zero words of device memory: host memory takes no atomics.
func (g *gpu) device(n int) cuda.Ptr {
	g.t.Helper()
	m, err := g.ctx.Alloc(uint64(n) * 8)
	if err != nil {
		g.t.Fatal(err)
	}
	g.closeLater(m.Free)
	g.ok(g.stream.Memset8(m.Ptr(), 0, uint64(n)*8))
	return m.Ptr()
}

// fetch copies n words of device memory to the host.
func (g *gpu) fetch(p cuda.Ptr, n int) []uint64 {
	g.t.Helper()
	words, to := g.host(n)
	g.ok(g.stream.CopyDevice(to, p, uint64(n)*8))
	g.done()
	return words
}

func (g *gpu) ok(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// done waits for the stream. Kernels give up after 5 s (patience) themselves.
func (g *gpu) done() {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 60*time.Second)
	defer cancel()
	g.ok(g.stream.Wait(ctx))
}

func grid(blocks, threads uint32) cuda.LaunchConfig {
	return cuda.LaunchConfig{Grid: cuda.D1(blocks), Block: cuda.D1(threads)}
}

func TestHandles(t *testing.T) {
	g := openGPU(t)
	if _, err := g.MemoryOpsFunction().Attribute(cuda.FunctionRegisters); err != nil {
		t.Error(err)
	}
	g.ok(g.kernels.Close())
	if err := g.MemoryOps(g.stream, grid(1, 1), 0, 0, 0, 0); !errors.Is(err, cuda.ErrClosed) {
		t.Errorf("launch after Close: %v", err)
	}
}
