package gpu_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/gpu"
	"github.com/tritier/tritier/tier/gpu/gpufake"
	"github.com/tritier/tritier/tier/layout"
)

const page = 4096

// onGPU runs f on a software GPU, which runs the device's code on CPU threads, and on
// a real one if there is one.
func onGPU(t *testing.T, f func(t *testing.T, ctx *cuda.Context)) {
	t.Run("fake", func(t *testing.T) {
		if !gpufake.Available {
			t.Skip("the kernels on a CPU need cgo")
		}
		fake := cudafake.New()
		defer fake.Close()
		gpufake.Register(fake)
		d, err := cuda.OpenBackend(fake)
		if err != nil {
			t.Fatal(err)
		}
		onDriver(t, d, f)
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
		onDriver(t, d, f)
	})
}

func onDriver(t *testing.T, d *cuda.Driver, f func(t *testing.T, ctx *cuda.Context)) {
	dev, err := d.Device("0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := dev.Retain()
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Close()
	f(t, ctx)
}

// world is an engine over drives of memory.
type world struct {
	*gpu.Engine
	drives []*drive.Drive
	pages  uint64
}

type setup struct {
	policy             string
	frames, t2, spares int
	drives             int
	pages              uint64
	parity             bool // and one warp
	faults             func(i int) soft.Faults
	deadline           time.Duration
	observe            func([]gpu.Access)
	every              int // of which pages
	events             func([]gpu.Event)
	eventsEvery        int
	moves              string
	curves             *copyeng.Calibration
}

func newWorld(t *testing.T, ctx *cuda.Context, s setup) *world {
	t.Helper()
	w := &world{pages: s.pages}
	n := max(s.drives, 1)
	var err error
	list := strings.Repeat(fmt.Sprintf("mem:%dKiB,", 4*(s.pages/uint64(n)+16)), n)
	if w.drives, err = drive.OpenList(t.Context(), strings.TrimSuffix(list, ","), drive.Options{Access: drive.FreshOnly, Faults: s.faults}); err != nil {
		t.Fatal(err)
	}
	policy, err := placement.Parse(s.policy)
	if err != nil {
		t.Fatal(err)
	}
	o := gpu.Options{GPU: ctx, PageSize: page, Pages: s.pages, Offset: 8 * page, Frames: s.frames, T2: s.t2, Spares: s.spares, Policy: policy, Seed: 5,
		Parity: s.parity, Warps: map[bool]int{true: 1}[s.parity], Queues: 4 * n, Deadline: cmp.Or(s.deadline, 20*time.Second),
		Observe: s.observe, ObserveEvery: s.every, Events: s.events, EventsEvery: s.eventsEvery, Moves: s.moves, Calibration: s.curves}
	for _, d := range w.drives {
		o.Drives = append(o.Drives, bamio.Drive{Name: d.URI.String(), Controller: d.Controller})
	}
	if w.Engine, err = gpu.Open(t.Context(), o); err != nil {
		t.Fatal(errors.Join(err, drive.CloseAll(w.drives)))
	}
	return w
}

func (w *world) close(t *testing.T) {
	t.Helper()
	if err := w.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := errors.Join(w.Close(), w.Close(), drive.CloseAll(w.drives)); err != nil {
		t.Error(err)
	}
}

func (w *world) ref(t *testing.T, first, length uint64, shift uint8) layout.ArrayRef {
	t.Helper()
	r, err := w.Ref(first, length, shift, "a")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var policies = []string{"bypass{t1=clock}", "tier-order{t1=clock,t2=fifo}", "random{t1=fifo,t2=fifo}", "gmt-reuse{vtd-direct=64,k=2,fit-every=64}",
	"tier-order{t1=clock,t2=fifo,t2copy=keep}", "gmt-reuse{vtd-direct=64,k=2,fit-every=64,t2copy=keep}"}

// TestContents: random batches of every kind against a model, for every policy and
// for tiers of a few pages.
func TestContents(t *testing.T) { contents(t, gpu.MovesKernel) }

func contents(t *testing.T, moves string) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		for i, policy := range policies {
			for _, s := range []setup{{frames: 4, t2: 0, spares: 8}, {frames: 4, t2: 3, spares: 8, drives: 2}, {frames: 20, t2: 40, spares: 16}} {
				if i >= 4 && (s.t2 == 0 || s.frames == 20) {
					continue // copies matter where they are few
				}
				for shift := range uint8(5) {
					if (int(shift)+i)%4 != 0 || moves == gpu.MovesCopyEngine && (shift > 2 || s.frames == 20 && i > 1) {
						continue // a request takes its time where warps are threads that spin
					}
					s.policy, s.pages, s.moves = policy, 64, moves
					seed := rand.Uint64()
					t.Logf("%s %d/%d shift %d: seed %d", policy, s.frames, s.t2, shift, seed)
					w := newWorld(t, ctx, s)
					history(t, w, shift, rand.New(rand.NewPCG(seed, 0)))
					w.close(t)
				}
			}
		}
	})
}

// history changes an array from page 3 on and compares everything at the end.
func history(t *testing.T, w *world, shift uint8, rng *rand.Rand) {
	t.Helper()
	size := uint64(1) << shift
	length := 50*page/size - 5
	ref := w.ref(t, 3, length, shift)
	want := make([]byte, length*size)
	for range 3 {
		idx := make([]uint64, rng.IntN(400))
		for i, x := range rng.Perm(int(min(length, 1<<16)))[:len(idx)] {
			idx[i] = uint64(x) * (length / min(length, 1<<16))
		}
		buf := make([]byte, uint64(len(idx))*size)
		fill(rng, buf)
		must(t, w.Elements(t.Context(), ref, tier.Write, idx, gpu.Buffer{Bytes: buf}))
		for i, x := range idx {
			copy(want[x*size:(x+1)*size], buf[uint64(i)*size:])
		}
		first := rng.Uint64N(length)
		n := rng.Uint64N(min(length-first, 4*page/size)) + 1
		run := make([]byte, n*size)
		fill(rng, run)
		must(t, w.Run(t.Context(), ref, tier.Write, first, n, gpu.Buffer{Bytes: run}))
		copy(want[first*size:], run)
		must(t, w.Elements(t.Context(), ref, tier.Prefetch, idx, gpu.Buffer{}))
		got := make([]byte, len(buf))
		must(t, w.Elements(t.Context(), ref, tier.Read, idx, gpu.Buffer{Bytes: got}))
		for i, x := range idx {
			if !slices.Equal(got[uint64(i)*size:uint64(i+1)*size], want[x*size:(x+1)*size]) {
				t.Fatalf("element %d is %x, want %x", x, got[uint64(i)*size:uint64(i+1)*size], want[x*size:(x+1)*size])
			}
		}
		if rng.IntN(4) == 0 {
			must(t, w.Flush(t.Context()))
			if n, err := w.Dirty(t.Context()); n != 0 || err != nil {
				t.Fatalf("%d dirty pages after a flush, %v", n, err)
			}
		}
		must(t, w.Check(t.Context()))
	}
	all := make([]byte, len(want))
	must(t, w.Run(t.Context(), ref, tier.Read, 0, length, gpu.Buffer{Bytes: all}))
	if !slices.Equal(all, want) {
		t.Fatal("the array differs")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func fill(rng *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
}

// TestParity: one warp, access by access, counts what the simulator counts.
func TestParity(t *testing.T) { parity(t, gpu.MovesKernel, func(*testing.T, *world) {}) }

// parity also has check look at each engine at the end.
func parity(t *testing.T, moves string, check func(t *testing.T, w *world)) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		for _, policy := range policies {
			for _, size := range [][2]int{{1, 0}, {2, 1}, {4, 3}, {8, 16}} {
				s := setup{policy: policy, frames: size[0], t2: size[1], spares: 2, pages: 48, parity: true, moves: moves}
				w := newWorld(t, ctx, s)
				compareCounts(t, w, s)
				check(t, w)
				w.close(t)
			}
		}
	})
}

func compareCounts(t *testing.T, w *world, s setup) {
	t.Helper()
	spec, err := placement.Parse(s.policy)
	must(t, err)
	p, err := spec.Build(placement.Env{T1Frames: s.frames, T2Frames: s.t2, Pages: int(s.pages), Seed: 5})
	must(t, err)
	sim, err := tier.New(tier.Config{Pages: int(s.pages), T1: p.T1, T2: p.T2, Placer: p.Placer, KeepT2Copy: p.KeepT2Copy})
	must(t, err)
	ref := w.ref(t, 0, s.pages*page/4, 2)
	rng := rand.New(rand.NewPCG(8, 8))
	for range 10 {
		// One launch: a warp whose 32 lanes have one page makes one access of it.
		var idx []uint64
		op := []tier.Op{tier.Read, tier.Write}[rng.IntN(2)]
		for range 40 {
			q := min(rng.Uint64N(s.pages), rng.Uint64N(s.pages))
			lanes := 1
			if !gpuIsFake(t) {
				lanes = 32
			}
			for range lanes {
				idx = append(idx, q*page/4+rng.Uint64N(page/4))
			}
			sim.Run([]tier.Access{tier.MakeAccess(placement.Page(q), op)})
		}
		must(t, w.Elements(t.Context(), ref, op, idx, gpu.Buffer{Bytes: make([]byte, 4*len(idx))}))
	}
	st, err := w.Stats(t.Context())
	must(t, err)
	want := sim.Counters()
	want.FinalDirty = 0
	if d := gocmp.Diff(want, st.Counters); d != "" {
		t.Errorf("%s %d/%d (-simulator +GPU):\n%s", s.policy, s.frames, s.t2, d)
	}
	if n, err := w.Dirty(t.Context()); err != nil || uint64(n) != sim.Counters().FinalDirty {
		t.Errorf("%d dirty pages, want %d; %v", n, sim.Counters().FinalDirty, err)
	}
	compareReuse(t, w, p.Placer)
}

// compareReuse compares what gmt-reuse has learnt and decided; the CPU may have samples still
// to take.
func compareReuse(t *testing.T, w *world, placer placement.Placer) {
	t.Helper()
	sim, ok := placer.(*placement.GMTReuse)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		s, err := w.Stats(t.Context())
		must(t, err)
		if !ok {
			if s.Reuse != nil {
				t.Errorf("a report of gmt-reuse by %s: %+v", placer.Name(), s.Reuse)
			}
			return
		}
		d := gocmp.Diff(sim.Report(), *s.Reuse)
		if d == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("(-simulator +GPU):\n%s", d)
		}
	}
}

// gpuIsFake says whether a lane of the GPU at hand is a warp.
func gpuIsFake(t *testing.T) bool { return strings.Contains(t.Name(), "fake") }

// TestForgetCopies: pages that are dropped take their copies in T2 with them.
func TestForgetCopies(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		w := newWorld(t, ctx, setup{policy: policies[4], frames: 4, t2: 12, spares: 8, pages: 64})
		ref := w.ref(t, 0, 16*page, 0)
		for range 3 { // seven pages go round: those that come back leave copies
			must(t, w.Elements(t.Context(), ref, tier.Read, pagesOf(0, 7), gpu.Buffer{Bytes: make([]byte, 7)}))
		}
		s, err := w.Stats(t.Context())
		if err != nil || s.Counters.T2Hits == 0 || s.Counters.CopiesSaved == 0 {
			t.Errorf("%+v, %v", s.Counters, err)
		}
		must(t, w.Forget(t.Context(), 0, 16)) // of them, T1 has four
		must(t, w.Check(t.Context()))
		history(t, w, 0, rand.New(rand.NewPCG(2, 2)))
		w.close(t)
	})
}

// TestPins: pinned pages stay where they are, and pins that leave no frame say what
// would do.
func TestPins(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		w := newWorld(t, ctx, setup{policy: policies[1], frames: 4, t2: 3, spares: 8, pages: 40})
		pages := []uint64{7, 9, 30}
		frames, err := w.Pin(t.Context(), pages)
		must(t, err)
		ref := w.ref(t, 0, 40*page/8, 3)
		for range 5 {
			idx := make([]uint64, 100)
			for i := range idx {
				idx[i] = rand.Uint64N(40 * page / 8)
			}
			must(t, w.Elements(t.Context(), ref, tier.Write, idx, gpu.Buffer{Bytes: make([]byte, 800)}))
		}
		again, err := w.Pin(t.Context(), pages)
		must(t, err)
		if !slices.Equal(frames, again) {
			t.Errorf("pinned pages moved from %v to %v", frames, again)
		}
		must(t, w.Unpin(t.Context(), pages, again))
		var ae *gpu.AccessError
		if _, err := w.Pin(t.Context(), []uint64{1, 2, 3, 4}); !errors.As(err, &ae) || ae.Needed != 5 || !errors.Is(err, gpu.ErrAllPinned) {
			t.Errorf("four pins of four frames: %v", err)
		}
		must(t, w.Unpin(t.Context(), pages, frames))
		w.close(t)
	})
}

// TestForget: pages that were dropped are nowhere, read as T3 has them, and their
// places are used again.
func TestForget(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		w := newWorld(t, ctx, setup{policy: policies[1], frames: 4, t2: 6, spares: 8, pages: 64})
		ref := w.ref(t, 0, 40*page, 0)
		buf := make([]byte, 10*page)
		fill(rand.New(rand.NewPCG(1, 1)), buf)
		must(t, w.Run(t.Context(), ref, tier.Write, 0, 10*page, gpu.Buffer{Bytes: buf}))
		must(t, w.Forget(t.Context(), 0, 10))
		if n, err := w.Dirty(t.Context()); n != 0 || err != nil {
			t.Errorf("%d dirty pages, %v", n, err)
		}
		must(t, w.Check(t.Context()))
		got := make([]byte, 10*page)
		must(t, w.Run(t.Context(), ref, tier.Read, 0, 10*page, gpu.Buffer{Bytes: got}))
		if slices.ContainsFunc(got, func(b byte) bool { return b != 0 }) {
			t.Error("forgotten pages still have what was written")
		}
		history(t, w, 0, rand.New(rand.NewPCG(2, 2)))
		if err := w.Forget(t.Context(), 60, 5); err == nil {
			t.Error("pages that do not exist are forgotten")
		}
		w.close(t)
	})
}

// faultFunc is a function as soft.Faults.
type faultFunc func(*soft.CommandInfo) soft.Fault

func (f faultFunc) Command(c *soft.CommandInfo) soft.Fault { return f(c) }

// TestFaults: reads and writes that fail come back with their page, lose nothing, and
// work once the drive does.
func TestFaults(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		var broken atomic.Bool
		faults := func(int) soft.Faults {
			return faultFunc(func(c *soft.CommandInfo) soft.Fault {
				if c.Queue != 0 && broken.Load() {
					return soft.Fault{Status: libnvm.StatusInternalError}
				}
				return soft.Fault{}
			})
		}
		w := newWorld(t, ctx, setup{policy: policies[0], frames: 4, spares: 8, pages: 40, faults: faults})
		ref := w.ref(t, 0, 40*page, 0)
		buf := make([]byte, 4*page)
		fill(rand.New(rand.NewPCG(1, 1)), buf)
		must(t, w.Run(t.Context(), ref, tier.Write, 0, 4*page, gpu.Buffer{Bytes: buf}))
		broken.Store(true)
		var ae *gpu.AccessError
		one := gpu.Buffer{Bytes: make([]byte, 1)}
		err := w.Elements(t.Context(), ref, tier.Read, []uint64{9 * page}, one)
		var wb *gpu.WriteBackError
		if !errors.As(err, &ae) || ae.Failed != 1 || !errors.As(err, &wb) {
			t.Errorf("a fill whose victim cannot be written: %v", err)
		}
		if err := w.Flush(t.Context()); !errors.As(err, &ae) || ae.Failed != 4 {
			t.Errorf("a flush: %v", err)
		}
		broken.Store(false)
		must(t, w.Flush(t.Context()))
		broken.Store(true)
		if err := w.Elements(t.Context(), ref, tier.Read, []uint64{9 * page}, one); !errors.As(err, &ae) || ae.Pages[0].Page != 9 || errors.As(err, &wb) {
			t.Errorf("a read that fails: %v", err)
		}
		broken.Store(false)
		got := make([]byte, 4*page)
		must(t, w.Run(t.Context(), ref, tier.Read, 0, 4*page, gpu.Buffer{Bytes: got}))
		if !slices.Equal(got, buf) {
			t.Error("what was written is lost")
		}
		s, err := w.Stats(t.Context())
		if err != nil || s.Counters.Errors == 0 || s.First == nil {
			t.Errorf("%+v, %v", s, err)
		}
		w.close(t)
	})
}
