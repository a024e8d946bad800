package copyeng_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/copyeng/copyfake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

// refused sees that an error is an *ArgumentError about an argument, and has a
// reason if that is not nil.
func refused(t *testing.T, what string, err error, argument string, reason error) {
	t.Helper()
	wrong := new(copyeng.ArgumentError)
	if !errors.As(err, &wrong) || wrong.Name != argument || wrong.What == "" || !strings.Contains(err.Error(), argument) {
		t.Errorf("%s: %v, want an ArgumentError about the %s", what, err, argument)
	}
	if reason != nil && !errors.Is(err, reason) {
		t.Errorf("%s: %v, want %v in its chain", what, err, reason)
	}
}

// Streams that no queue can work on are refused when they are wrapped, and what
// comes with the error is nil.
func TestWrapQueueRefusals(t *testing.T) {
	g, _ := fakeGPU(t, copyeng.GPUOptions{}, cudafake.Devices(2))
	wrap := func(what string, s *cuda.Stream, reason error) {
		t.Helper()
		q, err := g.WrapQueue(s)
		refused(t, what, err, "stream", reason)
		if q != nil {
			t.Errorf("%s: a queue beside the error", what)
		}
	}
	wrap("nil", nil, nil)
	wrap("no stream of a context", new(cuda.Stream), nil)
	ctx := g.Context()
	for handle, reason := range map[uintptr]error{0: cuda.ErrLegacyStream, 1: cuda.ErrLegacyStream, 2: nil} {
		s := ctx.WrapStream(handle)
		wrap(s.String(), s, reason)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	closed, err := ctx.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	wrap("closed stream", closed, copyeng.ErrClosed)
	wrap("closed stream", closed, cuda.ErrClosed)

	dev, err := ctx.Device().Driver().Device("1")
	if err != nil {
		t.Fatal(err)
	}
	other, err := dev.Retain()
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	wrap("stream of another GPU", foreign, nil)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
}

// Another share of the same primary context has streams that serve as well,
// and wrapping one takes no error of the caller's work away.
func TestWrapQueueOfTheSamePrimaryContext(t *testing.T) {
	g, f := fakeGPU(t, copyeng.GPUOptions{})
	r := newRig(t, g, 1<<20)
	share, err := g.Context().Device().Retain()
	if err != nil {
		t.Fatal(err)
	}
	s, err := share.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	e, err := share.NewEvent(false)
	if err != nil {
		t.Fatal(err)
	}
	f.FailAsync(cuda.OutOfMemory)
	if err := errors.Join(s.Memset8(cuda.Ptr(r.device.Address()), 1, 512), e.Record(s)); err != nil {
		t.Fatal(err)
	}
	if err := e.Wait(t.Context()); err != nil { // unlike a wait for the stream it takes no error
		t.Fatal(err)
	}
	q, err := g.WrapQueue(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context()); !errors.Is(err, cuda.OutOfMemory) {
		t.Errorf("the caller's stream: %v, want the error of the caller's work", err)
	}
	for _, n := range []uint32{1, 50, 200} {
		if _, err := q.Copy(r.batch(copyeng.ToDevice, 4096, straight(0, n))); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(wait(t, q), q.Close(), share.Close()); err != nil {
		t.Error(err)
	}
}

// Missing arguments are errors.
func TestMissingArguments(t *testing.T) {
	var none context.Context
	_, err := copyeng.OpenGPU(nil, copyeng.GPUOptions{})
	refused(t, "OpenGPU", err, "context", nil)
	g, _ := fakeGPU(t, copyeng.GPUOptions{})
	_, err = g.AllocateHostProgress(none, 4096, nil)
	refused(t, "AllocateHostProgress", err, "context", nil)
	_, err = g.AllocateHostProgress(none, 64<<20, nil)
	refused(t, "AllocateHostProgress", err, "context", nil)
	r := newRig(t, g, 1<<20)
	refused(t, "Wait", r.queue.Wait(none), "context", nil)
	good := r.batch(copyeng.ToDevice, 4096, straight(0, 1))
	for what, call := range map[string]func() error{
		"copy":                func() error { _, err := r.queue.Copy(nil); return err },
		"copy of nothing":     func() error { _, err := r.queue.Copy(&copyeng.Batch{}); return err },
		"copy without a host": func() error { _, err := r.queue.Copy(&copyeng.Batch{PageSize: 4096, Device: r.device}); return err },
		"copy without a GPU":  func() error { _, err := r.queue.Copy(&copyeng.Batch{PageSize: 4096, Host: r.host}); return err },
		"copy of no space": func() error {
			_, err := r.queue.Copy(&copyeng.Batch{PageSize: 4096, Host: new(copyeng.Space)})
			return err
		},
		"exchange":             func() error { _, err := r.queue.Exchange(nil, nil); return err },
		"exchange with no out": func() error { _, err := r.queue.Exchange(good, nil); return err },
		"exchange with no in":  func() error { _, err := r.queue.Exchange(nil, good); return err },
	} {
		if wrong := new(copyeng.BatchError); !errors.As(call(), &wrong) {
			t.Errorf("%s: %v, want a BatchError", what, call())
		}
	}
}

// Only what carries a single batch can be forced; the error lists it.
func TestForcedPaths(t *testing.T) {
	g, _ := fakeGPU(t, copyeng.GPUOptions{})
	for _, p := range g.Paths() {
		forced, err := copyeng.OpenGPU(g.Context(), copyeng.GPUOptions{Force: p})
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		if err := forced.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, p := range []copyeng.Path{copyeng.PathExchange, copyeng.PathTwoBatches, copyeng.PathSequential, copyeng.PathNone, copyeng.PathMemory, "warp"} {
		_, err := copyeng.OpenGPU(g.Context(), copyeng.GPUOptions{Force: p})
		if err == nil {
			t.Errorf("%s can be forced", p)
			continue
		}
		for _, valid := range append(g.Paths(), p) {
			if !strings.Contains(err.Error(), string(valid)) {
				t.Errorf("%s: %v: %s is not in it", p, err, valid)
			}
		}
	}
}

// blockCounter notes the grids of kernels.
type blockCounter struct {
	mu    sync.Mutex // protects grids
	grids map[string]uint32
}

func countBlocks(f *cudafake.GPU) *blockCounter {
	c := &blockCounter{grids: map[string]uint32{}}
	for name, kernel := range copyfake.Kernels() {
		f.RegisterKernel(name, func(l *cudafake.Launch) error {
			c.mu.Lock()
			c.grids[name] = l.Grid[0]
			c.mu.Unlock()
			return kernel(l)
		})
	}
	return c
}

// MaxBlocks bounds the grid of every kernel; without it the default does.
func TestMaxBlocks(t *testing.T) {
	for blocks, want := range map[int]map[string]uint32{
		0:    {"copy_inline": 64, "copy_list": 64, "exchange": 32},
		-1:   {"copy_inline": 64, "copy_list": 64, "exchange": 32},
		5:    {"copy_inline": 5, "copy_list": 5, "exchange": 5},
		50:   {"copy_inline": 50, "copy_list": 50, "exchange": 32},
		1000: {"copy_inline": 160, "copy_list": 400, "exchange": 32},
	} {
		opts := exchanging(t, copyeng.PathExchange)
		opts.Force, opts.MaxBlocks = copyeng.PathZeroCopy, blocks
		g, f := fakeGPU(t, opts)
		counted := countBlocks(f)
		r := newRig(t, g, 16<<20)
		const page = 64 << 10 // 32 pieces, for 4 blocks of 8 warps
		for _, n := range []uint32{40, 100} {
			if _, err := r.queue.Copy(r.batch(copyeng.ToDevice, page, straight(0, n))); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.queue.Exchange(r.batch(copyeng.ToDevice, page, straight(0, 100)), r.batch(copyeng.ToHost, page, straight(100, 100))); err != nil {
			t.Fatal(err)
		}
		if err := wait(t, r.queue); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(counted.grids, want) {
			t.Errorf("MaxBlocks %d: grids %v, want %v", blocks, counted.grids, want)
		}
	}
}

// Exchanges go by their own curves, whatever one way would take, and count once
// each way however many launches they need.
func TestExchangesByTheirCurves(t *testing.T) {
	for _, p := range []copyeng.Path{copyeng.PathExchange, copyeng.PathTwoBatches, copyeng.PathSequential} {
		for _, force := range []copyeng.Path{"", copyeng.PathMemcpy} {
			opts := exchanging(t, p)
			opts.Force = force
			g, p0 := tappedGPU(t, opts)
			r := newRig(t, g, 512*40000)
			in, out := r.batch(copyeng.ToDevice, 512, straight(0, 20000)), r.batch(copyeng.ToHost, 512, straight(20000, 17000))
			c, err := r.queue.Exchange(in, out)
			if err != nil {
				t.Fatal(err)
			}
			if c.Path != p || c.Pages != 20000 || g.ChooseExchange(512, 20000).Path != p {
				t.Errorf("exchange of %d pages by %s (ChooseExchange: %s), want %s", c.Pages, c.Path, g.ChooseExchange(512, 20000).Path, p)
			}
			// One that fails on its way does not count.
			p0.failNth(cuda.SymLaunchKernel, 2, 2, cuda.OutOfMemory)
			if p == copyeng.PathExchange {
				if _, err := r.queue.Exchange(in, out); !errors.Is(err, cuda.OutOfMemory) {
					t.Errorf("%v, want out of memory", err)
				}
			}
			p0.set(nil)
			if _, err := r.queue.Exchange(r.batch(copyeng.ToDevice, 4096, straight(0, 3)), r.batch(copyeng.ToHost, 512, straight(20000, 5))); err != nil {
				t.Fatal(err)
			}
			if err := wait(t, r.queue); err != nil {
				t.Fatal(err)
			}
			counted(t, g.Stats(), p, force)
		}
	}
}

// counted compares the statistics of the two exchanges above.
func counted(t *testing.T, s copyeng.Stats, p, force copyeng.Path) {
	t.Helper()
	for dir, side := range []struct {
		got  map[copyeng.Path]copyeng.PathStats
		want copyeng.PathStats
	}{
		{s.ToDevice, copyeng.PathStats{Batches: 2, Pages: 20003, Bytes: 20000*512 + 3*4096}},
		{s.ToHost, copyeng.PathStats{Batches: 2, Pages: 17005, Bytes: 17005 * 512}},
	} {
		var sum copyeng.PathStats
		for _, c := range side.got {
			sum.Batches, sum.Pages, sum.Bytes = sum.Batches+c.Batches, sum.Pages+c.Pages, sum.Bytes+c.Bytes
		}
		if sum != side.want {
			t.Errorf("%s: %s: %+v, want %+v", p, copyeng.Direction(dir), side.got, side.want)
		}
		paths := slices.Collect(maps.Keys(side.got))
		switch {
		case p != copyeng.PathSequential && !slices.Equal(paths, []copyeng.Path{p}):
			t.Errorf("%s: counted under %v", p, paths)
		case p == copyeng.PathSequential && force != "" && !slices.Equal(paths, []copyeng.Path{force}):
			t.Errorf("%s with %s: counted under %v", p, force, paths)
		}
	}
}
