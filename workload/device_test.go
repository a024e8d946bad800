package workload_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/copyeng/copyfake"
	"github.com/tritier/tritier/copyeng/pieces/piecesfake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/tier/gpu/gpufake"
	"github.com/tritier/tritier/workload"
	"github.com/tritier/tritier/workload/kernels/kernelsfake"
)

// onDevice runs f where kernels can: the device's own code on CPU threads under a
// software GPU, and a real GPU if there is one.
func onDevice(t *testing.T, f func(t *testing.T, d *cuda.Driver)) {
	t.Run("fake", func(t *testing.T) {
		if !gpufake.Available || !kernelsfake.Available {
			t.Skip("the kernels on a CPU need cgo")
		}
		fake := cudafake.New()
		defer fake.Close()
		copyfake.Register(fake)
		piecesfake.Register(fake)
		gpufake.Register(fake)
		kernelsfake.Register(fake)
		d, err := cuda.OpenBackend(fake)
		if err != nil {
			t.Fatal(err)
		}
		f(t, d)
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
		f(t, d)
	})
}

// device is a Memory with kernels as orchestrator, and a Device on a stream of its own.
type device struct {
	mem *tritier.Memory
	s   *cuda.Stream
	d   *workload.Device
}

// openDevice opens them; end closes them.
func openDevice(t *testing.T, driver *cuda.Driver, c tritier.Config, name string) *device {
	t.Helper()
	c.Driver, c.GPU, c.Engine, c.PageSize, c.Buffers = driver, "0", tritier.EngineGPU, page, 16*page
	if c.Store == "" {
		c.Store = "mem:32MiB"
	}
	m, err := tritier.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.GPU().NewStream()
	if err != nil {
		t.Fatal(err)
	}
	d, err := workload.NewDevice(m, s, name)
	if err != nil {
		t.Fatal(err)
	}
	return &device{m, s, d}
}

func (x *device) end(t *testing.T) {
	t.Helper()
	if err := errors.Join(x.d.Close(), x.s.Close(), x.mem.Check(), x.mem.Close(context.Background())); err != nil {
		t.Error(err)
	}
}

// run is a workload's life.
func (x *device) run(t *testing.T, w workload.Workload) error {
	return errors.Join(w.Setup(t.Context(), x.mem), w.RunKernels(t.Context(), x.d), w.Verify(t.Context(), x.mem))
}

// kernelPolicies are the placers that kernels have, with tiers that are tiny.
var kernelPolicies = []tritier.Config{
	{T1: 4 * page, T2: 8 * page, Policy: "gmt-reuse{t1=clock,t2=fifo,vtd-direct=64}"},
	{T1: 7 * page, Policy: "bypass{t1=fifo}"},
	{T1: 5 * page, T2: 6 * page, Policy: "tier-order{t1=clock,t2=fifo}"},
	{T1: 15 * page, T2: 200 * page, Policy: "random{t1=clock,t2=fifo}"},
}

// TestKernelLanes: the same with warps of several lanes, as on a GPU.
func TestKernelLanes(t *testing.T) {
	defer kernelsfake.UseLanes(4)()
	onDevice(t, func(t *testing.T, driver *cuda.Driver) {
		for i, name := range workload.Names() {
			x := openDevice(t, driver, kernelPolicies[i%len(kernelPolicies)], name)
			if err := x.run(t, sized(t, name, workload.Params{Bytes: 100 << 10, Kernels: true, Iterations: 1})); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			x.end(t)
		}
	})
}

// TestKernels: whatever the policy and sizes, each workload's kernels compute what its
// reference does.
func TestKernels(t *testing.T) {
	onDevice(t, func(t *testing.T, driver *cuda.Driver) {
		for _, name := range workload.Names() {
			for i, c := range kernelPolicies {
				if testing.Short() && i%2 == 1 {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d", name, i), func(t *testing.T) {
					x := openDevice(t, driver, c, name)
					defer x.end(t)
					bytes := 100<<10 + rand.Uint64N(40<<10) // rows and arrays end anywhere in a page
					if name == "pathfinder" {
						bytes *= 6 // a hundred rows are few columns
					}
					w := sized(t, name, workload.Params{Bytes: bytes, Kernels: true})
					t.Log(w.Describe())
					if err := x.run(t, w); err != nil {
						t.Fatal(err)
					}
					if n := x.mem.Stats().Counters; n.T3Fetches+n.T2Hits == 0 || n.Errors != 0 {
						t.Errorf("%+v", n)
					}
				})
			}
		}
	})
}
