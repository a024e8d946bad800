package copyfake_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/copyeng/copyfake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

// bench is the kernels over a software GPU, with memory for pages and a list.
type bench struct {
	fake         *cudafake.GPU
	ctx          *cuda.Context
	module       *cuda.Module
	stream       *cuda.Stream
	host         *cuda.HostMemory
	device       *cuda.DeviceMemory
	list         *cuda.HostMemory
	hostAt, devs cuda.Ptr
}

// must unpacks a result that a test cannot go on without.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newBench(t *testing.T) *bench {
	t.Helper()
	image := must(os.ReadFile("../copy.ptx"))(t)
	b := &bench{fake: cudafake.New()}
	copyfake.Register(b.fake)
	b.ctx = must(must(must(cuda.OpenBackend(b.fake))(t).Device("0"))(t).Retain())(t)
	b.module = must(b.ctx.LoadModule(image))(t)
	b.stream = must(b.ctx.NewStream())(t)
	b.host, b.list = must(b.ctx.AllocHost(8192, 0))(t), must(b.ctx.AllocHost(4096, 0))(t)
	b.device = must(b.ctx.Alloc(8192))(t)
	clear(b.list.Bytes())
	b.hostAt, b.devs = b.host.DevicePtr(), b.device.Ptr()
	t.Cleanup(func() {
		if err := b.ctx.Close(); err != nil && b.ctx.Err() == nil {
			t.Error(err)
		}
		if err := b.fake.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// pairList and side are as the kernels have them.
type (
	pairList [60][2]uint32
	side     struct {
		Host, Device, List uint64
		Pages, Shift       uint32
	}
)

// run launches a kernel that copies one page of 512 bytes, each of the addresses
// moved on by so many bytes, and waits for it.
func (b *bench) run(t *testing.T, kernel string, host, device, list uint64) error {
	t.Helper()
	k := must(b.module.Function(kernel))(t)
	h, d, l := b.hostAt.Add(host), b.devs.Add(device), b.list.DevicePtr().Add(list)
	cfg := cuda.LaunchConfig{Block: cuda.D1(256)}
	var err error
	switch kernel {
	case "copy_inline":
		err = k.LaunchArgs(b.stream, cfg, h, d, pairList{}, uint32(1), uint32(9), uint32(1))
	case "copy_list":
		err = k.LaunchArgs(b.stream, cfg, h, d, l, uint32(1), uint32(9), uint32(0))
	case "exchange":
		good := side{uint64(b.hostAt) + 4096, uint64(b.devs) + 4096, uint64(b.list.DevicePtr()), 1, 9}
		err = k.LaunchArgs(b.stream, cfg, good, side{uint64(h), uint64(d), uint64(l), 1, 9})
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return b.stream.Wait(ctx)
}

// The device's code reads and writes pages 16 bytes at a time, which a GPU
// refuses at other addresses; a double that let them pass would hide the error.
func TestMisalignedAccesses(t *testing.T) {
	for _, kernel := range []string{"copy_inline", "copy_list", "exchange"} {
		for _, c := range []struct {
			host, device, list uint64
			ok                 bool
		}{
			{0, 0, 0, true}, {16, 0, 0, true}, {0, 48, 0, true}, {512, 256, 0, true}, {0, 0, 4, true},
			{8, 0, 0, false}, {0, 8, 0, false}, {4, 4, 0, false}, {1, 0, 0, false}, {0, 15, 0, false}, {0, 0, 2, false},
		} {
			if kernel == "copy_inline" && c.list != 0 {
				continue
			}
			b := newBench(t)
			err := b.run(t, kernel, c.host, c.device, c.list)
			found := b.fake.Violations()
			switch {
			case c.ok && (err != nil || len(found) > 0):
				t.Errorf("%s at +%d, +%d, list +%d: %v, violations %q", kernel, c.host, c.device, c.list, err, found)
			case !c.ok && (!errors.Is(err, cuda.MisalignedAddress) || len(found) != 1 || !strings.Contains(found[0], kernel)):
				t.Errorf("%s at +%d, +%d, list +%d: %v, violations %q; want a misaligned address", kernel, c.host, c.device, c.list, err, found)
			}
		}
	}
}

// A page outside of its memory is an illegal address.
func TestPagesOutside(t *testing.T) {
	for _, kernel := range []string{"copy_inline", "copy_list", "exchange"} {
		for _, at := range [][3]uint64{{8192, 0, 0}, {0, 8192, 0}, {0, 0, 8192}} {
			if kernel == "copy_inline" && at[2] != 0 {
				continue
			}
			b := newBench(t)
			if err := b.run(t, kernel, at[0], at[1], at[2]); !errors.Is(err, cuda.IllegalAddress) || len(b.fake.Violations()) != 1 {
				t.Errorf("%s at %v: %v, violations %q", kernel, at, err, b.fake.Violations())
			}
		}
	}
}
