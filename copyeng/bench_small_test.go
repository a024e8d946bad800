package copyeng_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

func newBench(t *testing.T, g *copyeng.GPU) *copyeng.Bench {
	t.Helper()
	b, err := copyeng.NewBench(t.Context(), g, 4<<20, 7)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil && !errors.Is(err, cuda.ErrSticky) {
			t.Errorf("close bench: %v", err)
		}
	})
	return b
}

func TestSmallBatches(t *testing.T) {
	g, f := fakeGPU(t, copyeng.GPUOptions{})
	b := newBench(t, g)
	singles, batches := f.Calls(cuda.SymMemcpyHtoDAsync), f.Calls(cuda.SymMemcpyBatchAsyncV2)+f.Calls(cuda.SymMemcpyBatchAsync)
	const runs = 5
	toDevice, err1 := b.Small(t.Context(), copyeng.ToDevice, 4096, runs)
	toHost, err2 := b.Small(t.Context(), copyeng.ToHost, 4096, runs)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for i, s := range slices.Concat(toDevice, toHost) {
		if n := []int{1, 2, 4, 8}[i%4]; s.Pages != n || s.Dir != copyeng.Direction(i/4) {
			t.Errorf("shape %d: %d pages %s", i, s.Pages, s.Dir)
		}
		want := 2
		if s.Pages == 1 {
			want = 1
		}
		if len(s.Raw) != want || s.Raw[0].Path != copyeng.PathMemcpy || len(s.Queue.Runs) != runs || !s.Queue.Chosen {
			t.Errorf("%+v", s)
		}
		if chosen := g.Choose(s.Dir, s.Page, s.Pages).Path; s.Queue.Path != chosen {
			t.Errorf("%d pages went by %s, the chooser takes %s", s.Pages, s.Queue.Path, chosen)
		}
		for _, raw := range s.Raw {
			if len(raw.Runs) != runs || raw.Median() < s.Best().Median() {
				t.Errorf("%d pages: best %v of %+v", s.Pages, s.Best(), s.Raw)
			}
		}
		if s.Excess() != s.Queue.Median()-s.Best().Median() {
			t.Errorf("excess %v", s.Excess())
		}
	}
	// Raw runs, the first included: 1+2+4+8 single calls, and 3 batches, each way.
	if n := f.Calls(cuda.SymMemcpyHtoDAsync) - singles; n < (runs+1)*15 {
		t.Errorf("%d single copies to the device", n)
	}
	if n := f.Calls(cuda.SymMemcpyBatchAsyncV2) + f.Calls(cuda.SymMemcpyBatchAsync) - batches; n < (runs+1)*3*2 {
		t.Errorf("%d batched copies", n)
	}
}

func TestSmallWithoutBatchedCopy(t *testing.T) {
	g, _ := fakeGPU(t, copyeng.GPUOptions{}, cudafake.Version(12040))
	list, err := newBench(t, g).Small(t.Context(), copyeng.ToHost, 512, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if len(s.Raw) != 1 {
			t.Errorf("%d pages: raw ways %+v on a driver without batched copies", s.Pages, s.Raw)
		}
	}
}

func TestSmallRefuses(t *testing.T) {
	g, _ := fakeGPU(t, copyeng.GPUOptions{})
	b := newBench(t, g)
	for name, c := range map[string]struct {
		dir        copyeng.Direction
		page, runs int
	}{"page size 1000": {0, 1000, 3}, "0 runs": {0, 4096, 0}, "do not fit": {0, 1 << 20, 3}, "bench of small copies: direction 2": {2, 4096, 3}} {
		if _, err := b.Small(t.Context(), c.dir, c.page, c.runs); err == nil || !strings.HasPrefix(err.Error(), "bench of small copies: ") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Small(ctx, copyeng.ToDevice, 4096, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A copy that hangs ends with the caller's context; the bench can be used and
// closed once the copy is done.
func TestSmallInterrupted(t *testing.T) {
	g, f := fakeGPU(t, copyeng.GPUOptions{})
	b := newBench(t, g)
	f.Hang()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := b.Small(ctx, copyeng.ToDevice, 4096, 3)
	f.Release() // before anything waits for the memory
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := b.Small(t.Context(), copyeng.ToDevice, 4096, 3); err != nil {
		t.Errorf("after the copy was let go: %v", err)
	}
}

func TestVerifyExchange(t *testing.T) {
	g, _ := fakeGPU(t, copyeng.GPUOptions{})
	b := newBench(t, g)
	for _, c := range []struct{ page, n int }{{512, 1}, {4096, 200}, {256 << 10, 4}} {
		if err := b.VerifyExchange(t.Context(), c.page, c.n, []copyeng.Path{"", copyeng.PathExchange, copyeng.PathSequential, copyeng.PathTwoBatches}); err != nil {
			t.Errorf("%d pages of %d bytes: %v", c.n, c.page, err)
		}
	}
	if err := b.VerifyExchange(t.Context(), 1<<20, 2, []copyeng.Path{""}); err == nil {
		t.Error("pages that do not fit were taken")
	}
}

// Every way for an exchange to be wrong is found.
func TestVerifyExchangeFindsFaults(t *testing.T) {
	for name, broken := range map[string]exchangeKernel{
		"nothing":       {pages: func(uint32) uint32 { return 0 }},
		"one page less": {pages: func(n uint32) uint32 { return n - 1 }},
		"turned around": {turn: true},
		"one bit":       {flip: true},
	} {
		t.Run(name, func(t *testing.T) {
			g, f := fakeGPU(t, copyeng.GPUOptions{})
			b := newBench(t, g)
			f.RegisterKernel("exchange", broken.run)
			err := b.VerifyExchange(t.Context(), 4096, 50, []copyeng.Path{copyeng.PathExchange})
			if err == nil || !strings.Contains(err.Error(), "differ after the copy") || !strings.Contains(err.Error(), "seed 7") {
				t.Errorf("not found: %v", err)
			}
		})
	}
}

// exchangeKernel is the device's code with a mistake put in.
type exchangeKernel struct {
	pages      func(uint32) uint32
	turn, flip bool
}

func (k exchangeKernel) run(l *cudafake.Launch) error {
	for side := range 2 {
		at := 32 * side
		n, size := l.U32(at+24), uint64(1)<<l.U32(at+28)
		list, err := l.Memory(l.U64(at+16), 8*uint64(n))
		if err != nil {
			return err
		}
		if k.pages != nil {
			n = k.pages(n)
		}
		for i := range n {
			h, err := l.Memory(l.U64(at)+uint64(binary.LittleEndian.Uint32(list[8*i:]))*size, size)
			if err != nil {
				return err
			}
			d, err := l.Memory(l.U64(at+8)+uint64(binary.LittleEndian.Uint32(list[8*i+4:]))*size, size)
			if err != nil {
				return err
			}
			if (side == 0) == k.turn {
				d, h = h, d
			}
			copy(d, h)
			if k.flip && i == n/2 {
				d[size-1] ^= 1
			}
		}
	}
	return nil
}
