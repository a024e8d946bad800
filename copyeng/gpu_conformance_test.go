package copyeng_test

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/copyeng/copyengtest"
	"github.com/tritier/tritier/copyeng/copyfake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

// realContext is the first GPU, or a skip; with REQUIRE=gpu a failure.
func realContext(t *testing.T) *cuda.Context {
	t.Helper()
	ctx, err := firstGPU()
	if err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "gpu") {
			t.Fatalf("REQUIRE=gpu: %v", err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
	})
	return ctx
}

func firstGPU() (*cuda.Context, error) {
	d, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	dev, err := d.Device("0")
	if err != nil {
		return nil, err
	}
	return dev.Retain()
}

// plain reads and writes device memory by copies of the driver that the
// engine has no part in.
type plain struct{ ctx *cuda.Context }

func (p plain) do(f func(*cuda.Stream) error) (err error) {
	s, err := p.ctx.NewStream()
	if err != nil {
		return err
	}
	if err = f(s); err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		err = s.Wait(ctx)
	}
	if e := s.Close(); err == nil {
		err = e
	}
	return err
}

func (p plain) read(s *copyeng.Space, off uint64, into []byte) error {
	return p.do(func(st *cuda.Stream) error { return st.CopyToHost(into, cuda.Ptr(s.Address()).Add(off)) })
}

func (p plain) write(s *copyeng.Space, off uint64, data []byte) error {
	return p.do(func(st *cuda.Stream) error { return st.CopyToDevice(cuda.Ptr(s.Address()).Add(off), data) })
}

// The suite over the software GPU, with every path in turn.
func TestConformanceFake(t *testing.T) {
	for _, p := range []copyeng.Path{"", copyeng.PathMemcpy, copyeng.PathBatch, copyeng.PathBatch4, copyeng.PathZeroCopy, copyeng.PathHybrid50} {
		if testing.Short() && p != "" {
			continue
		}
		t.Run("path="+string(p), func(t *testing.T) {
			f := cudafake.New()
			defer func() { _ = f.Close() }()
			copyfake.Register(f)
			d, err := cuda.OpenBackend(f)
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
			conform(t, ctx, p, copyengtest.Options{Short: true})
			if err := ctx.Close(); err != nil {
				t.Error(err)
			}
			if l, v := f.Leaks(), f.Violations(); len(l)+len(v) > 0 {
				t.Errorf("leaks %v, violations %v", l, v)
			}
		})
	}
}

// The suite on a real GPU, with every path that it has.
func TestConformanceGPU(t *testing.T) {
	ctx := realContext(t)
	g, err := copyeng.OpenGPU(ctx, copyeng.GPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	paths := g.Paths()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	t.Run("chooser", func(t *testing.T) { conform(t, ctx, "", copyengtest.Options{MaxBytes: 256 << 20, Far: true}) })
	for _, p := range paths {
		t.Run("path="+string(p), func(t *testing.T) { conform(t, ctx, p, copyengtest.Options{Short: true}) })
	}
}

func conform(t *testing.T, ctx *cuda.Context, path copyeng.Path, o copyengtest.Options) {
	o.ReadDevice, o.WriteDevice = plain{ctx}.read, plain{ctx}.write
	copyengtest.Run(t, func(t *testing.T) copyeng.Engine {
		g, err := copyeng.OpenGPU(ctx, copyeng.GPUOptions{Force: path})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}, o)
}

// The soak: SOAK batches (100,000) on a real GPU, without a leak.
func TestSoakGPU(t *testing.T) {
	ctx := realContext(t)
	batches := 5000
	if s := os.Getenv("SOAK"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("SOAK: %v", err)
		}
		batches = n
	}
	soak(t, ctx, batches)
}

// A short soak over the software GPU.
func TestSoakFake(t *testing.T) {
	g, _ := fakeGPU(t, copyeng.GPUOptions{})
	soakEngine(t, g, 1500)
}

func soak(t *testing.T, ctx *cuda.Context, batches int) {
	g, err := copyeng.OpenGPU(ctx, copyeng.GPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	soakEngine(t, g, batches)
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

func soakEngine(t *testing.T, g *copyeng.GPU, batches int) {
	p := plain{g.Context()}
	copyengtest.Soak(t, g, copyengtest.SoakOptions{
		Options: copyengtest.Options{ReadDevice: p.read, WriteDevice: p.write},
		Batches: batches,
		Probes:  func() map[string]int64 { return probes(t, g.Context()) },
	})
}

// probes is what must not grow: pinned memory shows in the process's locked and
// mapped size.
func probes(t *testing.T, ctx *cuda.Context) map[string]int64 {
	list := map[string]int64{"goroutines": int64(runtime.NumGoroutine())}
	if free, total, err := ctx.MemInfo(); err == nil {
		list["device bytes"] = int64(total - free)
	} else {
		t.Error(err)
	}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		list["file descriptors"] = int64(len(fds))
	}
	// Pinned memory shows as mappings of the driver's device; the Go runtime's
	// own come and go.
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		list["driver's mappings"] = int64(strings.Count(string(maps), "/dev/nvidia"))
	}
	return list
}

// A few small batches by every path, for compute-sanitizer, under which the
// whole suite would take too long.
func TestSmallGPU(t *testing.T) {
	ctx := realContext(t)
	g, err := copyeng.OpenGPU(ctx, copyeng.GPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := copyeng.NewBench(t.Context(), g, 16<<20, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 7, 61, 130} {
		for _, page := range []int{512, 4096, 16384} {
			for _, d := range []copyeng.Direction{copyeng.ToDevice, copyeng.ToHost} {
				if _, err := b.Cell(t.Context(), d, page, n, g.Paths(), 1); err != nil {
					t.Error(err)
				}
			}
			if err := b.VerifyExchange(t.Context(), page, n, []copyeng.Path{copyeng.PathExchange, copyeng.PathTwoBatches}); err != nil {
				t.Error(err)
			}
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}
