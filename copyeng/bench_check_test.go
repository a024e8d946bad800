package copyeng_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

// benchCall is one of the ways to ask a bench for something.
type benchCall func(b *copyeng.Bench, page, n int, paths []copyeng.Path, runs int) error

func benchCalls(t *testing.T) map[string]benchCall {
	return map[string]benchCall{
		"cell to-device": func(b *copyeng.Bench, page, n int, paths []copyeng.Path, runs int) error {
			_, err := b.Cell(t.Context(), copyeng.ToDevice, page, n, paths, runs)
			return err
		},
		"cell to-host": func(b *copyeng.Bench, page, n int, paths []copyeng.Path, runs int) error {
			_, err := b.Cell(t.Context(), copyeng.ToHost, page, n, paths, runs)
			return err
		},
		"exchange": func(b *copyeng.Bench, page, n int, paths []copyeng.Path, runs int) error {
			_, err := b.Exchange(t.Context(), page, n, paths, runs)
			return err
		},
		"verify exchange": func(b *copyeng.Bench, page, n int, paths []copyeng.Path, _ int) error {
			return b.VerifyExchange(t.Context(), page, n, paths)
		},
	}
}

// What a bench cannot do is an error that says what, before anything is copied.
func TestBenchRefuses(t *testing.T) {
	g, f := fakeGPU(t, copyeng.GPUOptions{})
	b := newBench(t, g)
	before := f.Calls(cuda.SymMemcpyHtoDAsync) + f.Calls(cuda.SymMemcpyDtoHAsync)
	for name, call := range benchCalls(t) {
		chooser := []copyeng.Path{""}
		other := copyeng.PathExchange // goes the other ways only
		if strings.Contains(name, "exchange") {
			other = copyeng.PathZeroCopy
		}
		for _, c := range []struct {
			page, n int
			paths   []copyeng.Path
			runs    int
			want    string
		}{
			{0, 1, chooser, 1, "page size 0"},
			{-4096, 1, chooser, 1, "page size -4096"},
			{1000, 1, chooser, 1, "page size 1000"},
			{256, 1, chooser, 1, "page size 256"},
			{4 << 20, 1, chooser, 1, "page size 4194304"},
			{math.MinInt, 1, chooser, 1, "page size"},
			{4096, 0, chooser, 1, "0 pages"},
			{4096, -1, chooser, 1, "-1 pages"},
			{4096, math.MaxInt, chooser, 1, "pages are not from 1"},
			{4096, math.MaxInt/2 + 1, chooser, 1, "pages are not from 1"},
			{4096, copyeng.MaxPages + 1, chooser, 1, "pages are not from 1"},
			{512, copyeng.MaxPages, chooser, 1, "do not fit twice"},
			{4096, 513, chooser, 1, "do not fit twice"},
			{4096, 1, nil, 1, "no path"},
			{4096, 1, []copyeng.Path{"", "teleport"}, 1, `"teleport"`},
			{4096, 1, []copyeng.Path{other}, 1, string(other)},
			{4096, 1, []copyeng.Path{copyeng.PathMemory}, 1, "memory"},
			{4096, 1, []copyeng.Path{copyeng.PathNone}, 1, "none"},
			{4096, 1, chooser, 0, "0 runs"},
			{4096, 1, chooser, -1, "-1 runs"},
			{4096, 1, chooser, math.MaxInt, "runs are not from 1"},
		} {
			if name == "verify exchange" && strings.Contains(c.want, "runs") {
				continue
			}
			err := call(b, c.page, c.n, c.paths, c.runs)
			if err == nil || !strings.HasPrefix(err.Error(), "bench of copies: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s of %d pages of %d by %q, %d runs: %v, want %q", name, c.n, c.page, c.paths, c.runs, err, c.want)
			}
		}
	}
	for _, runs := range []int{0, -1, math.MaxInt} {
		if _, err := b.Link(t.Context(), runs); err == nil || !strings.Contains(err.Error(), "runs are not from 1") {
			t.Errorf("link, %d runs: %v", runs, err)
		}
	}
	for _, d := range []copyeng.Direction{2, 3, 255} {
		if _, err := b.Cell(t.Context(), d, 4096, 1, []copyeng.Path{""}, 1); err == nil || !strings.Contains(err.Error(), "neither ToDevice nor ToHost") {
			t.Errorf("direction %d: %v", d, err)
		}
	}
	if n := f.Calls(cuda.SymMemcpyHtoDAsync) + f.Calls(cuda.SymMemcpyDtoHAsync); n != before {
		t.Errorf("%d copies were made", n-before)
	}
}

// A path that the driver lacks is refused by its name.
func TestBenchRefusesMissingPath(t *testing.T) {
	g, _ := fakeGPU(t, copyeng.GPUOptions{}, cudafake.Version(12040))
	b := newBench(t, g)
	if _, err := b.Cell(t.Context(), copyeng.ToHost, 4096, 4, []copyeng.Path{copyeng.PathBatch2}, 1); err == nil || !strings.Contains(err.Error(), "path batch-2: not one of this GPU and driver") {
		t.Error(err)
	}
	if _, err := b.Exchange(t.Context(), 4096, 4, []copyeng.Path{copyeng.PathTwoBatches}, 1); err == nil || !strings.Contains(err.Error(), "path batches-4: not one") {
		t.Error(err)
	}
}

// The memory's size is checked before it is allocated, by the bench and by Calibrate.
func TestBenchSize(t *testing.T) {
	g, f := fakeGPU(t, copyeng.GPUOptions{})
	allocated := f.Calls(cuda.SymMemHostAlloc)
	for _, size := range []uint64{0, 1, 4<<20 - 1, 4<<20 + 1, 6 << 20, 64<<30 + 4<<20, math.MaxUint64} {
		if b, err := copyeng.NewBench(t.Context(), g, size, 1); err == nil || b != nil || !strings.Contains(err.Error(), "give a multiple of 4194304") {
			t.Errorf("%d bytes: %v", size, err)
		}
		if size == 0 {
			continue // Calibrate's default
		}
		_, err := copyeng.Calibrate(t.Context(), g.Context(), copyeng.CalibrateOptions{Bytes: size})
		if err == nil || !strings.HasPrefix(err.Error(), "calibrate: ") || !strings.Contains(err.Error(), "give a multiple of 4194304") {
			t.Errorf("calibrate over %d bytes: %v", size, err)
		}
	}
	if _, err := copyeng.NewBench(t.Context(), nil, 4<<20, 1); err == nil {
		t.Error("a bench of no engine")
	}
	if n := f.Calls(cuda.SymMemHostAlloc); n != allocated {
		t.Errorf("%d allocations", n-allocated)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := copyeng.NewBench(gone, g, 4<<20, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A bench that has been closed says so, whatever it is asked, and closes again.
func TestBenchClosed(t *testing.T) {
	g, _ := fakeGPU(t, copyeng.GPUOptions{})
	b := newBench(t, g)
	for range 2 {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, call := range benchCalls(t) {
		if err := call(b, 4096, 1, []copyeng.Path{""}, 1); !errors.Is(err, copyeng.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err1 := b.Link(t.Context(), 1)
	_, err2 := b.Small(t.Context(), copyeng.ToHost, 4096, 1)
	if !errors.Is(err1, copyeng.ErrClosed) || !errors.Is(err2, copyeng.ErrClosed) {
		t.Error(err1, err2)
	}
	var none copyeng.Bench
	for name, call := range benchCalls(t) {
		if err := call(&none, 4096, 1, []copyeng.Path{""}, 1); err == nil || !strings.Contains(err.Error(), "NewBench") {
			t.Errorf("%s of a bench that was never made: %v", name, err)
		}
	}
	var small copyeng.Small
	if small.Best() == nil || small.Excess() != 0 {
		t.Error("an empty result")
	}
}
