package workload_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/workload"
)

// TestKernelsSmallest: shapes that are all border, run again and again, with as few
// frames as the programs can do with, and a policy drawn by chance.
func TestKernelsSmallest(t *testing.T) {
	onDevice(t, func(t *testing.T, driver *cuda.Driver) {
		for i, name := range workload.Names() {
			c := kernelPolicies[rand.IntN(len(kernelPolicies))]
			c.T1 = 3 * page
			x := openDevice(t, driver, c, name)
			for _, p := range []workload.Params{{Scale: 2, Iterations: 3}, {Scale: 5, Iterations: 2}, {Scale: 8, Iterations: 3}, {Scale: 10 + i%2}} {
				p.Kernels = true
				w := sized(t, name, p)
				if err := x.run(t, w); err != nil {
					t.Errorf("%s of scale %d, %s: %v", name, p.Scale, c.Policy, err)
				}
				if done, total := w.Progress(); total > 0 && done == 0 {
					t.Errorf("%s: %d of %d steps", name, done, total)
				}
				for _, a := range w.Arrays() {
					if err := x.mem.DropArray(t.Context(), a); err != nil {
						t.Error(err)
					}
				}
			}
			x.end(t)
		}
	})
}

// TestKernelsAfterBatches: both forms in turn over one Memory, where kernels can be given
// the batch form's arrays.
func TestKernelsAfterBatches(t *testing.T) {
	onDevice(t, func(t *testing.T, driver *cuda.Driver) {
		for _, name := range []string{"pathfinder", "bfs"} {
			x := openDevice(t, driver, kernelPolicies[2], name)
			w := sized(t, name, workload.Params{Bytes: 100 << 10, Batch: 5000})
			if err := errors.Join(w.Setup(t.Context(), x.mem), w.Run(t.Context(), x.mem), w.Verify(t.Context(), x.mem),
				w.RunKernels(t.Context(), x.d), w.Verify(t.Context(), x.mem), w.Run(t.Context(), x.mem), w.Verify(t.Context(), x.mem)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			x.end(t)
		}
	})
}

// TestKernelLaunches: every launch is told of, with the GPU's own time, and they add up.
func TestKernelLaunches(t *testing.T) {
	onDevice(t, func(t *testing.T, driver *cuda.Driver) {
		x := openDevice(t, driver, kernelPolicies[0], "pathfinder")
		defer x.end(t)
		var list []workload.Launch
		w := sized(t, "pathfinder", workload.Params{Bytes: 100 << 10, Kernels: true, Launched: func(l workload.Launch) { list = append(list, l) }})
		if err := x.run(t, w); err != nil {
			t.Fatal(err)
		}
		var sum time.Duration
		for _, l := range list {
			if sum += l.Kernel; l.Kernel <= 0 || l.Took < l.Kernel/2 {
				t.Errorf("%+v", l)
			}
		}
		if len(list) != 6 || list[0].Name != "first row" || list[5].Name != "rows" || sum != x.d.Span() {
			t.Errorf("%d launches, %v in all, %v: %+v", len(list), sum, x.d.Span(), list)
		}
	})
}

// TestTooFewFrames: a T1 that cannot hold what one warp pins at a time is an error before
// anything hangs, and it names the size that can.
func TestTooFewFrames(t *testing.T) {
	onDevice(t, func(t *testing.T, driver *cuda.Driver) {
		for name, needs := range map[string]int{"multi-vector-add": 3, "backprop": 2, "bfs": 2, "sssp": 3, "pagerank": 2} {
			for frames := 1; frames <= needs; frames++ {
				x := openDevice(t, driver, tritier.Config{T1: tritier.Size(frames) * page, T2: 4 * page, Policy: "tier-order{t1=clock,t2=fifo}"}, name)
				err := x.run(t, sized(t, name, workload.Params{Scale: 6, Kernels: true}))
				var pin *tritier.PinError
				if frames < needs && (!errors.As(err, &pin) || pin.Needs != needs || pin.Frames != frames) || frames == needs && err != nil {
					t.Errorf("%s with %d frames: %v", name, frames, err)
				}
				x.end(t)
			}
		}
	})
}

// drive fails reads while on.
type drive struct{ on atomic.Bool }

// Command implements soft.Faults.
func (f *drive) Command(c *soft.CommandInfo) soft.Fault {
	if c.Queue == 0 || !f.on.Load() || c.Opcode != 2 {
		return soft.Fault{}
	}
	return soft.Fault{Status: libnvm.StatusUnrecoveredRead}
}

// TestKernelErrors: accesses that fail are typed errors that name the kernel and the page;
// the program ends soon, and runs again when the drive does.
func TestKernelErrors(t *testing.T) {
	onDevice(t, func(t *testing.T, driver *cuda.Driver) {
		for _, name := range workload.Names() {
			f := &drive{}
			c := kernelPolicies[1]
			c.T1, c.Faults = 4*page, func(int) soft.Faults { return f }
			x := openDevice(t, driver, c, name)
			w := sized(t, name, workload.Params{Bytes: 100 << 10, Kernels: true, Iterations: 1})
			if err := w.Setup(t.Context(), x.mem); err != nil {
				t.Fatal(err)
			}
			f.on.Store(true)
			err := w.RunKernels(t.Context(), x.d)
			f.on.Store(false)
			var batch *tritier.BatchError
			var one *tritier.PageError
			var status *bamio.StatusError
			if !errors.As(err, &batch) || !errors.As(err, &one) || batch.Failed < 1 || !strings.HasPrefix(one.Array, strings.SplitN(w.Arrays()[0], ".", 2)[0]) ||
				!strings.HasPrefix(err.Error(), "kernel ") || !errors.As(err, &status) || status.Status != bamio.Status(libnvm.StatusUnrecoveredRead) {
				t.Errorf("%s: %v", name, err)
			}
			if err := errors.Join(w.RunKernels(t.Context(), x.d), w.Verify(t.Context(), x.mem)); err != nil {
				t.Errorf("%s, when the drive works again: %v", name, err)
			}
			x.end(t)
		}
	})
}

// TestKernelsInterrupted: the end of the context ends the program, with its cause.
func TestKernelsInterrupted(t *testing.T) {
	onDevice(t, func(t *testing.T, driver *cuda.Driver) {
		x := openDevice(t, driver, kernelPolicies[0], "hotspot")
		defer x.end(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		n, cause := 0, errors.New("enough")
		w := sized(t, "hotspot", workload.Params{Bytes: 200 << 10, Kernels: true, Iterations: 1000, Launched: func(workload.Launch) {
			if n++; n == 3 {
				cancel(cause)
			}
		}})
		if err := w.Setup(t.Context(), x.mem); err != nil {
			t.Fatal(err)
		}
		if err := w.RunKernels(ctx, x.d); !errors.Is(err, cause) || n > 4 {
			t.Errorf("%d launches, %v", n, err)
		}
		// In the middle of a kernel too, wherever it is; others work again afterwards.
		for range 3 {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Duration(rand.IntN(30))*time.Millisecond, func() { cancel(cause) })
			if err := w.RunKernels(ctx, x.d); !errors.Is(err, cause) {
				t.Error(err)
			}
		}
		w = sized(t, "hotspot", workload.Params{Bytes: 200 << 10, Kernels: true, Iterations: 3})
		if err := x.run(t, w); err != nil {
			t.Error(err)
		}
	})
}

// TestDeviceRefuses: what a Device cannot do is refused.
func TestDeviceRefuses(t *testing.T) {
	m := open(t, tritier.Config{T1: 4 * page})
	if _, err := workload.NewDevice(m, nil, "bfs"); !errors.Is(err, tritier.ErrNoRef) {
		t.Errorf("the CPU decides: %v", err)
	}
	onDevice(t, func(t *testing.T, driver *cuda.Driver) {
		x := openDevice(t, driver, kernelPolicies[1], "bfs")
		defer x.end(t)
		if _, err := workload.NewDevice(x.mem, nil, "bfs"); err == nil {
			t.Error("no stream is accepted")
		}
		if _, err := workload.NewDevice(x.mem, x.s, "dance"); err == nil {
			t.Error("an unknown workload is accepted")
		}
		w := sized(t, "hotspot", workload.Params{Scale: 8, Kernels: true})
		if err := w.RunKernels(t.Context(), x.d); err == nil || !strings.Contains(err.Error(), "another workload") {
			t.Errorf("kernels of another workload: %v", err)
		}
		w = sized(t, "bfs", workload.Params{Scale: 8, Kernels: true})
		if err := w.RunKernels(t.Context(), x.d); err == nil || !strings.Contains(err.Error(), "Setup comes first") {
			t.Errorf("before Setup: %v", err)
		}
	})
}
