package check

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/bamio/layout"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm/drive"
)

// TestOnGPU: what a kernel finds behind Engine.Ptr is what the host has set up,
// and it reaches rings and stop flag in host memory.
func TestOnGPU(t *testing.T) {
	gpu := openGPU(t)
	defer gpu.Close()
	d, err := drive.Open(t.Context(), "mem:1MiB", drive.Options{Access: drive.FreshOnly})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	e, err := bamio.Open(t.Context(), bamio.Options{
		GPU: gpu, Drives: []bamio.Drive{{Name: d.URI.String(), Controller: d.Controller}}, Queues: 3, Depth: 16, Buffers: 7,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	found := make([]byte, 32)
	run(t, gpu, e, found)
	for i, want := range []byte{layout.Version, 1, 3, 7, 1, 16, 0, 1} {
		if got := found[4*i]; got != want {
			t.Errorf("word %d is %d, want %d", i, got, want)
		}
	}
}

func openGPU(t *testing.T) *cuda.Context {
	t.Helper()
	missing := t.Skip
	if strings.Contains(os.Getenv("REQUIRE"), "gpu") {
		missing = t.Fatal
	}
	driver, err := cuda.Open()
	if err != nil {
		missing(err)
	}
	v, err := driver.Device("0")
	if err != nil {
		missing(err)
	}
	gpu, err := v.Retain()
	if err != nil {
		t.Fatal(err)
	}
	return gpu
}

// run has the kernel write what it finds and copies that to out.
func run(t *testing.T, gpu *cuda.Context, e *bamio.Engine, out []byte) {
	t.Helper()
	k, err := loadKernels(gpu)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	m, err := gpu.Alloc(uint64(len(out)))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	s, err := gpu.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := k.LayoutProbe(s, cuda.LaunchConfig{Grid: cuda.D1(1), Block: cuda.D1(32)}, e.Ptr(), m.Ptr()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := e.Watch(ctx, s); err != nil {
		t.Fatal(err)
	}
	if err := s.CopyToHost(out, m.Ptr()); err != nil {
		t.Fatal(err)
	}
}
