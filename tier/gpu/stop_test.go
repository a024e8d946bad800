package gpu_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/gpu"
)

// soon is what no bounded call takes, on however slow a machine, with deadlines of 1 s;
// one deadline for each page of a batch is more.
const soon = 12 * time.Second

// within fails the test when f takes longer, and says how long it took.
func within(t *testing.T, limit time.Duration, what string, f func()) {
	t.Helper()
	begun := time.Now()
	f()
	took := time.Since(begun)
	t.Logf("%s took %v", what, took.Round(time.Millisecond))
	if took > limit {
		t.Errorf("%s took %v, more than %v", what, took, limit)
	}
}

// switched are faults of every command of the drive's I/O queues while on is set.
func switched(on *atomic.Bool, f soft.Fault) func(int) soft.Faults {
	return func(int) soft.Faults {
		return faultFunc(func(c *soft.CommandInfo) soft.Fault {
			if c.Queue != 0 && on.Load() {
				return f
			}
			return soft.Fault{}
		})
	}
}

// pagesOf are n indices of bytes, each in a page of its own.
func pagesOf(first, n uint64) []uint64 {
	idx := make([]uint64, n)
	for i := range idx {
		idx[i] = (first + uint64(i)) * page
	}
	return idx
}

// TestBatchesAfterCancel: the end of a batch's context ends that batch alone. The next
// ones find all that was written before, and every slot.
func TestBatchesAfterCancel(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		var slow atomic.Bool
		w := newWorld(t, ctx, setup{policy: policies[1], frames: 4, t2: 3, spares: 8, pages: 64, faults: switched(&slow, soft.Fault{Delay: 100 * time.Millisecond})})
		ref := w.ref(t, 0, 64*page, 0)
		idx, was := pagesOf(0, 64), make([]byte, 64)
		for i := range was {
			was[i] = byte(i + 1)
		}
		must(t, w.Elements(t.Context(), ref, tier.Write, idx, gpu.Buffer{Bytes: was}))
		for _, call := range []func(context.Context) error{
			func(c context.Context) error { return w.Elements(c, ref, tier.Write, idx, gpu.Buffer{Bytes: was}) },
			func(c context.Context) error {
				return w.Run(c, ref, tier.Write, 0, 64, gpu.Buffer{Bytes: make([]byte, 64)})
			},
			func(c context.Context) error { return w.Elements(c, ref, tier.Prefetch, idx, gpu.Buffer{}) },
			w.Flush,
			func(c context.Context) error { _, err := w.Pin(c, []uint64{50, 51, 52}); return err },
		} {
			slow.Store(true)
			c, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if err := call(c); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a call whose context ends: %v", err)
			}
			cancel()
			slow.Store(false)
			var running *gpu.RunningError
			if err := w.Elements(c, ref, tier.Read, idx, gpu.Buffer{Bytes: make([]byte, 64)}); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &running) {
				t.Errorf("a call whose context has ended before: %v", err)
			}
			must(t, w.Check(t.Context()))
			got := make([]byte, 64)
			must(t, w.Elements(t.Context(), ref, tier.Read, idx[1:], gpu.Buffer{Bytes: got[1:]}))
			for i := 1; i < len(got); i++ {
				if got[i] != was[i] {
					t.Fatalf("page %d has %d, want %d", i, got[i], was[i])
				}
			}
		}
		must(t, w.Flush(t.Context()))
		s, err := w.Stats(t.Context())
		if err != nil || s.Device.LostSlots != 0 {
			t.Errorf("%d slots are lost, %v", s.Device.LostSlots, err)
		}
		w.close(t)
	})
}

// TestCancelStops: a batch whose context ends begins no further I/O, and needs neither
// its deadline, which is 20 s here, nor the minutes of all its commands.
func TestCancelStops(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		var slow atomic.Bool
		var sent atomic.Int64
		faults := func(int) soft.Faults {
			return faultFunc(func(c *soft.CommandInfo) soft.Fault {
				if c.Queue == 0 || !slow.Load() {
					return soft.Fault{}
				}
				sent.Add(1)
				return soft.Fault{Delay: 300 * time.Millisecond}
			})
		}
		w := newWorld(t, ctx, setup{policy: policies[0], frames: 4, spares: 8, pages: 4096, faults: faults})
		ref := w.ref(t, 0, 4096*page, 0)
		for _, call := range []func(context.Context) error{
			func(c context.Context) error {
				return w.Elements(c, ref, tier.Read, pagesOf(0, 4096), gpu.Buffer{Bytes: make([]byte, 4096)})
			},
			func(c context.Context) error {
				return w.Run(c, ref, tier.Read, 0, 2000*page, gpu.Buffer{Bytes: make([]byte, 2000*page)})
			},
		} {
			sent.Store(0)
			slow.Store(true)
			c, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			within(t, soon, "a cancelled batch", func() {
				if err := call(c); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("it ends with %v", err)
				}
			})
			cancel()
			slow.Store(false)
			if n := sent.Load(); n > 200 {
				t.Errorf("%d commands were sent", n)
			}
		}
		w.close(t)
	})
}

// TestLateKernel: a kernel that does not end when it is asked to makes the engine
// refuse work, until it has ended.
func TestLateKernel(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		w := newWorld(t, ctx, setup{policy: policies[0], frames: 4, spares: 8, pages: 64, deadline: time.Second})
		ref := w.ref(t, 0, 64*page, 0)
		var ended atomic.Bool
		c, cancel := context.WithCancel(t.Context())
		cancel()
		var stall *bamio.StallError
		if err := w.Watch(c, bamio.WorkFunc(func() (bool, error) { return ended.Load(), nil })); !errors.As(err, &stall) || stall.Ended {
			t.Errorf("a kernel that does not end: %v", err)
		}
		read := func() error {
			return w.Elements(t.Context(), ref, tier.Read, pagesOf(0, 4), gpu.Buffer{Bytes: make([]byte, 4)})
		}
		var running *gpu.RunningError
		_, pinned := w.Pin(t.Context(), []uint64{1})
		for _, err := range []error{read(), read(), w.Flush(t.Context()), pinned, w.Forget(t.Context(), 0, 1)} {
			if !errors.As(err, &running) || !errors.As(err, &stall) {
				t.Errorf("a call beside it: %v", err)
			}
		}
		ended.Store(true)
		must(t, read())
		// One that ends when it is asked to leaves nothing behind.
		looks := 0
		if err := w.Watch(c, bamio.WorkFunc(func() (bool, error) { looks++; return looks > 1, nil })); !errors.Is(err, context.Canceled) || errors.As(err, &stall) {
			t.Errorf("a kernel that ends: %v", err)
		}
		must(t, read())
		w.close(t)
	})
}

// TestDeadDrive: a batch over a drive that answers nothing more ends soon, whatever
// the number of its pages, and so do those after it.
func TestDeadDrive(t *testing.T) {
	for name, c := range map[string]struct {
		fault soft.Fault
		op    tier.Op // of the pages in the tiers
	}{
		"fatal": {soft.Fault{Fatal: true}, tier.Read}, "gone": {soft.Fault{Gone: true}, tier.Read},
		"gone, dirty": {soft.Fault{Gone: true}, tier.Write}, "drop": {soft.Fault{Drop: true}, tier.Write},
	} {
		t.Run(name, func(t *testing.T) {
			onGPU(t, func(t *testing.T, ctx *cuda.Context) {
				var dead atomic.Bool
				w := newWorld(t, ctx, setup{policy: policies[1], frames: 4, t2: 3, spares: 8, pages: 64, deadline: time.Second, faults: switched(&dead, c.fault)})
				ref := w.ref(t, 0, 64*page, 0)
				must(t, w.Elements(t.Context(), ref, c.op, pagesOf(0, 7), gpu.Buffer{Bytes: make([]byte, 7)}))
				dead.Store(true)
				var ae *gpu.AccessError
				batches(t, w, func(what string, err error, n int) {
					if !errors.As(err, &ae) || ae.Failed == 0 || ae.Failed > n || c.fault.Drop && !errors.Is(err, gpu.ErrGivenUp) && !errors.Is(err, gpu.ErrFenced) {
						t.Errorf("%s of %d: %v", what, n, err)
					}
				})
				t.Log(ae)
				// What is sent to a queue that has failed costs a slot each time. A miss may have sent a
				// write and, beside it, a read.
				if s, err := w.Stats(t.Context()); err != nil || s.Device.LostSlots > 4 && gpuIsFake(t) && !c.fault.Drop {
					t.Errorf("%d slots are lost, %v", s.Device.LostSlots, err)
				}
				within(t, soon, "close", func() { t.Log(w.Close()) })
				// A drive that is gone keeps its memory until it was closed.
				if err := errors.Join(drive.CloseAll(w.drives), w.Close()); err != nil && name == "drop" {
					t.Error(err)
				}
			})
		})
	}
}

// TestLateAnswers: slots of commands that nobody waited for are of no use until the
// drive has answered, and then they are again.
func TestLateAnswers(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		var gated atomic.Bool
		gate := make(chan struct{})
		const spares = 5
		w := newWorld(t, ctx, setup{policy: policies[1], frames: 4, t2: 3, spares: spares, pages: 64, deadline: 300 * time.Millisecond, faults: switched(&gated, soft.Fault{Gate: gate})})
		ref := w.ref(t, 0, 64*page, 0)
		was := make([]byte, 64)
		for i := range was {
			was[i] = byte(i + 1)
		}
		must(t, w.Elements(t.Context(), ref, tier.Write, pagesOf(0, 64), gpu.Buffer{Bytes: was}))
		must(t, w.Flush(t.Context()))
		gated.Store(true)
		for n := uint64(0); ; n++ {
			err := w.Elements(t.Context(), ref, tier.Read, pagesOf(n, 3), gpu.Buffer{Bytes: make([]byte, 3)})
			if errors.Is(err, gpu.ErrNoSlot) {
				break
			}
			if !errors.Is(err, gpu.ErrTimeout) || n > 3*spares {
				t.Fatalf("batch %d over a drive that does not answer: %v", n, err)
			}
		}
		s, err := w.Stats(t.Context())
		if err != nil || s.Device.LostSlots < 3 || s.Device.LostSlots > spares || s.Device.RetakenSlots != 0 {
			t.Errorf("%d slots are lost, %d taken back, %v", s.Device.LostSlots, s.Device.RetakenSlots, err)
		}
		must(t, w.Check(t.Context()))
		gated.Store(false)
		close(gate)
		got := make([]byte, 64)
		within(t, soon, "reads of a drive that answers", func() {
			for w.Elements(t.Context(), ref, tier.Read, pagesOf(0, 64), gpu.Buffer{Bytes: got}) != nil {
				time.Sleep(10 * time.Millisecond)
			}
		})
		if !slices.Equal(got, was) {
			t.Errorf("%v is not what was written", got)
		}
		within(t, soon, "flushes", func() {
			for s.Device.LostSlots != s.Device.RetakenSlots {
				must(t, w.Flush(t.Context()))
				s, err = w.Stats(t.Context())
				must(t, err)
			}
		})
		w.close(t)
	})
}

// batches makes one of each kind over pages that are in no tier.
func batches(t *testing.T, w *world, check func(what string, err error, n int)) {
	t.Helper()
	ref := w.ref(t, 0, 64*page, 0)
	within(t, soon, "a batch of reads", func() {
		check("reads", w.Elements(t.Context(), ref, tier.Read, pagesOf(20, 40), gpu.Buffer{Bytes: make([]byte, 40)}), 40)
	})
	within(t, soon, "a batch of writes", func() {
		check("writes", w.Elements(t.Context(), ref, tier.Write, pagesOf(20, 40), gpu.Buffer{Bytes: make([]byte, 40)}), 40)
	})
	within(t, soon, "a run", func() {
		check("a run", w.Run(t.Context(), ref, tier.Read, 20*page, 40*page, gpu.Buffer{Bytes: make([]byte, 40*page)}), 40)
	})
	within(t, soon, "a prefetch", func() {
		if err := w.Elements(t.Context(), ref, tier.Prefetch, pagesOf(20, 40), gpu.Buffer{}); err != nil {
			check("a prefetch", err, 40)
		}
	})
	within(t, soon, "a flush", func() {
		if err := w.Flush(t.Context()); err == nil {
			t.Error("a flush to a dead drive works")
		}
	})
}

// TestCallsWaitInTime: a call that waits for another gives up when its own context ends.
func TestCallsWaitInTime(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		w := newWorld(t, ctx, setup{policy: policies[0], frames: 8, spares: 8, pages: 40})
		ref := w.ref(t, 0, 40*page, 0)
		undo := w.Enter()
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		for name, call := range map[string]func() error{
			"Elements": func() error {
				return w.Elements(short, ref, tier.Read, []uint64{5}, gpu.Buffer{Bytes: make([]byte, 1)})
			},
			"Run":   func() error { return w.Run(short, ref, tier.Read, 0, 1, gpu.Buffer{Bytes: make([]byte, 1)}) },
			"Flush": func() error { return w.Flush(short) },
			"Stats": func() error { _, err := w.Stats(short); return err },
			"Check": func() error { return w.Check(short) },
			"Pin":   func() error { _, err := w.Pin(short, []uint64{1}); return err },
		} {
			if err := call(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		}
		undo()
		w.close(t)
	})
}
