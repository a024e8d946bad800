package gpu_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/gpu"
	"github.com/tritier/tritier/tier/gpu/gpufake"
)

// TestLongRun: a run of several launches moves every byte, and fetches only the two
// pages that it does not cover.
func TestLongRun(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		const pages, first, n = 2100, 3*page + 48, 8<<20 + 9*page + 100
		w := newWorld(t, ctx, setup{policy: policies[0], frames: 64, spares: 8, pages: pages})
		ref := w.ref(t, 0, pages*page, 0)
		want, got := make([]byte, n), make([]byte, n)
		fill(rand.New(rand.NewPCG(7, 7)), want)
		must(t, w.Run(t.Context(), ref, tier.Write, first, n, gpu.Buffer{Bytes: want}))
		const touched = (first+n-1)/page - first/page + 1
		if s, err := w.Stats(t.Context()); err != nil || s.Counters.T3Fetches != 2 || s.Counters.Overwrites != touched-2 {
			t.Errorf("%d pages were fetched and %d overwritten, want 2 and %d; %v", s.Counters.T3Fetches, s.Counters.Overwrites, touched-2, err)
		}
		must(t, w.Run(t.Context(), ref, tier.Read, first, n, gpu.Buffer{Bytes: got}))
		if !slices.Equal(got, want) {
			t.Error("the run differs")
		}
		w.close(t)
	})
}

// TestNowhere: the page where kernels look for indices that are none has an entry in the
// table, which no page of the engine has, and which says that it is absent.
func TestNowhere(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		const pages = 1024 // whose entries fill what is allocated
		w := newWorld(t, ctx, setup{policy: policies[0], frames: 4, spares: 8, pages: pages})
		ref := w.ref(t, 0, pages*page, 0)
		entries, err := w.Entries(t.Context(), ref.Nowhere)
		if err != nil || ref.Nowhere < pages || entries[ref.Nowhere] != 0 {
			t.Errorf("page %d of %d is nowhere, and its entry: %v", ref.Nowhere, pages, err)
		}
		w.close(t)
	})
}

// TestStreamOrder: batches over GPU memory come after what the caller's stream holds.
func TestStreamOrder(t *testing.T) {
	if !gpufake.Available {
		t.Skip("the kernels on a CPU need cgo")
	}
	fake := cudafake.New()
	defer fake.Close()
	gpufake.Register(fake)
	d, err := cuda.OpenBackend(fake)
	must(t, err)
	onDriver(t, d, func(t *testing.T, ctx *cuda.Context) {
		w := newWorld(t, ctx, setup{policy: policies[1], frames: 4, t2: 3, spares: 8, pages: 16})
		ref := w.ref(t, 0, 16*page, 0)
		s, err := ctx.NewStream()
		must(t, err)
		m, err := ctx.Alloc(page)
		must(t, err)
		for round, write := range []func(gpu.Buffer) error{
			func(b gpu.Buffer) error { return w.Elements(t.Context(), ref, tier.Write, pagesOf(0, 16), b) },
			func(b gpu.Buffer) error { return w.Run(t.Context(), ref, tier.Write, 0, 16, b) },
		} {
			fake.DelayOps(300 * time.Millisecond)
			must(t, s.Memset8(m.Ptr(), byte(7+round), page))
			fake.DelayOps(0)
			must(t, write(gpu.Buffer{Device: m.Ptr(), Size: page, Stream: s}))
			got := make([]byte, 1)
			must(t, w.Elements(t.Context(), ref, tier.Read, []uint64{0}, gpu.Buffer{Bytes: got}))
			if got[0] != byte(7+round) {
				t.Errorf("write %d took %d from a buffer before its stream had filled it", round, got[0])
			}
		}
		must(t, errors.Join(s.Wait(t.Context()), s.Close(), m.Close()))
		w.close(t)
	})
}

// half is an engine whose first two pages are in T1, and whose drive fails while the
// flag is set.
func half(t *testing.T, ctx *cuda.Context) (*world, *atomic.Bool) {
	t.Helper()
	broken := new(atomic.Bool)
	w := newWorld(t, ctx, setup{policy: policies[0], frames: 4, spares: 8, pages: 16, faults: switched(broken, soft.Fault{Status: libnvm.StatusInternalError})})
	must(t, w.Elements(t.Context(), w.ref(t, 0, 16*page, 0), tier.Write, pagesOf(0, 2), gpu.Buffer{Bytes: []byte{1, 2}}))
	broken.Store(true)
	return w, broken
}

// TestFailedReadsKeepTheBuffer: a batch that fails in part fills in what it has read,
// and leaves the rest as it was.
func TestFailedReadsKeepTheBuffer(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		w, broken := half(t, ctx)
		ref := w.ref(t, 0, 16*page, 0)
		var ae *gpu.AccessError
		got := []byte{0xe0, 0xe1, 0xe2}
		if err := w.Elements(t.Context(), ref, tier.Read, []uint64{page, 9 * page, 0}, gpu.Buffer{Bytes: got}); !errors.As(err, &ae) || ae.Failed != 1 {
			t.Errorf("a read of which one page fails: %v", err)
		}
		if !slices.Equal(got, []byte{2, 0xe1, 1}) {
			t.Errorf("it leaves %x", got)
		}
		run := slices.Repeat([]byte{0xee}, 2*page)
		if err := w.Run(t.Context(), ref, tier.Read, page, 2*page, gpu.Buffer{Bytes: run}); !errors.As(err, &ae) || ae.Failed != 1 {
			t.Errorf("a run of which one page fails: %v", err)
		}
		if run[0] != 2 || run[1] != 0 || !slices.Equal(run[page:], slices.Repeat([]byte{0xee}, page)) {
			t.Errorf("it leaves %x, %x", run[:2], run[page:page+2])
		}
		broken.Store(false)
		w.close(t)
	})
}

// TestFailedPin: a pin that fails in part pins nothing.
func TestFailedPin(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		w, broken := half(t, ctx)
		var ae *gpu.AccessError
		if frames, err := w.Pin(t.Context(), []uint64{0, 9, 1}); !errors.As(err, &ae) || ae.Failed != 1 || ae.Pages[0].Page != 9 || frames != nil {
			t.Errorf("a pin of which one page fails: %v, %v", frames, err)
		}
		must(t, w.Check(t.Context())) // which refuses pins
		broken.Store(false)
		w.close(t)
	})
}
