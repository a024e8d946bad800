package tritier_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/tier/gpu"
	"github.com/tritier/tritier/tier/gpu/gpufake"
)

// onFakeKernels runs f with kernels under the software GPU.
func onFakeKernels(t *testing.T, f func(t *testing.T, fake *cudafake.GPU)) {
	onGPU(t, func(t *testing.T, _ *cuda.Driver, fake *cudafake.GPU) {
		if fake == nil || !gpufake.Available {
			t.Skip("for the software GPU, whose kernels need cgo")
		}
		gpufake.Register(fake)
		f(t, fake)
	})
}

// dirtyOnDevice is a memory where kernels decide, with an array that is all dirty.
func dirtyOnDevice(t *testing.T, c tritier.Config) (*tritier.Memory, *tritier.Array[uint64], []uint64) {
	t.Helper()
	c.Create, c.PageSize, c.T1, c.T2, c.Buffers, c.Engine = true, page, 8*page, 8*page, 8*page, tritier.EngineGPU
	m := openGPU(t, c)
	a, err := tritier.NewArray[uint64](t.Context(), m, "a", 12*page/8)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]uint64, a.Len())
	for i := range want {
		want[i] = uint64(i)*7 + 1
	}
	if err := a.Write(t.Context(), 0, want); err != nil {
		t.Fatal(err)
	}
	return m, a, want
}

// TestCloseInTimeOnDevice: a Close that ends early, or that finds kernels running, leaves
// the memory open and loses nothing.
func TestCloseInTimeOnDevice(t *testing.T) {
	for _, kind := range []string{"ended context", "hanging kernel", "hanging flush", "no deadline"} {
		t.Run(kind, func(t *testing.T) {
			onFakeKernels(t, func(t *testing.T, fake *cudafake.GPU) {
				store := "file:" + filepath.Join(t.TempDir(), "s") + "?size=8MiB"
				timeout := 6 * time.Second // more than a slow disk needs for the last Close
				if kind == "no deadline" {
					timeout = 4 * time.Second // which that one waits for
				}
				m, a, want := dirtyOnDevice(t, tritier.Config{Store: store, Timeout: timeout})
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				switch kind {
				case "ended context":
					cancel()
				case "hanging kernel":
					fake.Hang()
					var running *gpu.RunningError
					if err := a.Read(ctx, 0, make([]uint64, 10)); !errors.As(err, &running) {
						t.Errorf("a read that hangs: %v", err)
					}
					ctx = t.Context()
				case "hanging flush":
					fake.Hang()
				case "no deadline":
					fake.Hang()
					ctx = t.Context()
				}
				err := m.Close(ctx)
				var hang *gpu.HangError
				if !errors.Is(err, tritier.ErrNotClosed) || errors.As(err, &hang) != (kind == "no deadline") {
					t.Errorf("close: %v", err)
				}
				fake.Release()
				await(t, func() bool { return a.Read(t.Context(), 0, make([]uint64, 10)) == nil })
				closeMemory(t, m)
				again := open(t, tritier.Config{Store: store, T1: 8 * page, Buffers: 8 * page})
				b, err := tritier.OpenArray[uint64](t.Context(), again, "a")
				if err != nil {
					t.Fatal(err)
				}
				compare(t, b, want)
			})
		})
	}
}

// TestAsyncErrorOnDevice: an error of the GPU that does not last is the error of the call
// that it hit, and costs a Close nothing.
func TestAsyncErrorOnDevice(t *testing.T) {
	onFakeKernels(t, func(t *testing.T, fake *cudafake.GPU) {
		store := "file:" + filepath.Join(t.TempDir(), "s") + "?size=8MiB"
		m, a, want := dirtyOnDevice(t, tritier.Config{Store: store})
		fake.FailAsync(cuda.Unknown)
		if err := a.Read(t.Context(), 0, make([]uint64, 10)); !errors.Is(err, cuda.Unknown) {
			t.Errorf("a read whose kernel fails: %v", err)
		}
		compare(t, a, want)
		fake.FailAsync(cuda.Unknown)
		if err := m.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
		again := open(t, tritier.Config{Store: store, T1: 8 * page, Buffers: 8 * page})
		b, err := tritier.OpenArray[uint64](t.Context(), again, "a")
		if err != nil {
			t.Fatal(err)
		}
		compare(t, b, want)
	})
}

// TestFlushErrorAlike: drives that do not make durable what was written are a *FlushError
// without pages, whoever decides, and another Flush can succeed.
func TestFlushErrorAlike(t *testing.T) {
	onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) {
		for _, engine := range []string{tritier.EngineHost, tritier.EngineGPU} {
			f := &faultFunc{f: func(c *soft.CommandInfo) soft.Fault {
				if c.Opcode == libnvm.OpFlush {
					return soft.Fault{Status: libnvm.StatusInternalError, DNR: true}
				}
				return soft.Fault{}
			}}
			c := withFaults(f, "mem:8MiB")
			c.Engine, c.GPU, c.Policy = engine, "", "bypass{t1=clock}"
			m, a := faultyArray(t, c)
			if err := a.Write(t.Context(), 0, make([]uint64, 10)); err != nil {
				t.Fatal(err)
			}
			f.on.Store(true)
			var fe *tritier.FlushError
			if err := m.Flush(t.Context()); !errors.As(err, &fe) || fe.Failed != 0 || fe.Err == nil || !strings.Contains(err.Error(), "Internal Error") {
				t.Errorf("engine %s: %v", engine, err)
			}
			f.on.Store(false)
			if err := m.Flush(t.Context()); err != nil {
				t.Errorf("engine %s, again: %v", engine, err)
			}
			closeMemory(t, m)
		}
	})
}

// TestFlushTriesAgainOnDevice: what a drive refuses once costs neither Flush nor Close a
// page, unless no retries are wanted.
func TestFlushTriesAgainOnDevice(t *testing.T) {
	onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) {
		for _, retries := range []int{0, -1} { // 0: the default
			for name, call := range map[string]func(*tritier.Memory, context.Context) error{"flush": (*tritier.Memory).Flush, "close": (*tritier.Memory).Close} {
				var n atomic.Int32
				f := &faultFunc{f: func(c *soft.CommandInfo) soft.Fault {
					if c.Opcode == opWrite && n.Add(1) == 3 || c.Opcode == libnvm.OpFlush && n.Load() < 100 && n.Add(100) > 0 {
						return soft.Fault{Status: libnvm.StatusInternalError}
					}
					return soft.Fault{}
				}}
				c := withFaults(f, "mem:8MiB")
				c.GPU, c.Policy, c.Retries = "", "bypass{t1=clock}", retries
				m, _, _ := dirtyOnDevice(t, c)
				f.on.Store(true)
				var fe *tritier.FlushError
				if err := call(m, t.Context()); (err == nil) != (retries == 0) || err != nil && !errors.As(err, &fe) {
					t.Errorf("%s with %d retries: %v", name, retries, err)
				}
				if fe != nil && (fe.Failed != 1 || strings.Contains(fe.Error(), "no room")) {
					t.Errorf("%s: a page that could not be written: %v", name, fe)
				}
				if n.Load() < 100 && retries == 0 {
					t.Errorf("%s: only %d writes, and no flush", name, n.Load())
				}
				f.on.Store(false)
				closeMemory(t, m)
			}
		}
	})
}

// TestCloseAwaitsAnswersOnDevice: a page of which a write was not answered in time is not
// lost by a Close: it waits for the answer, and at last resets the drive and writes the page.
func TestCloseAwaitsAnswersOnDevice(t *testing.T) {
	onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) {
		for _, answers := range []bool{true, false} {
			var n atomic.Int32
			gate := make(chan struct{})
			f := &faultFunc{f: func(c *soft.CommandInfo) soft.Fault {
				if c.Opcode == opWrite && n.Add(1) == 3 {
					return soft.Fault{Gate: gate, Drop: !answers}
				}
				return soft.Fault{}
			}}
			c := withFaults(f, "mem:8MiB")
			c.GPU, c.Policy = "", "bypass{t1=clock}"
			c.Store, c.Timeout = "file:"+filepath.Join(t.TempDir(), "s")+"?size=8MiB", 4*time.Second // a file may be slow too
			m, _, want := dirtyOnDevice(t, c)
			f.on.Store(true)
			if err := m.Flush(t.Context()); !errors.Is(err, gpu.ErrFenced) {
				t.Fatalf("a write is not answered: %v", err)
			}
			time.AfterFunc(200*time.Millisecond, func() { close(gate) })
			if err := m.Close(t.Context()); err != nil {
				t.Errorf("close of a drive that answers: %v: %v", answers, err)
			}
			if resets := m.Stats().Recoveries; (resets == 0) != answers {
				t.Errorf("a drive that answers: %v: %d resets", answers, resets)
			}
			again := open(t, tritier.Config{Store: c.Store, T1: 8 * page, Buffers: 8 * page})
			b, err := tritier.OpenArray[uint64](t.Context(), again, "a")
			if err != nil {
				t.Fatal(err)
			}
			compare(t, b, want)
			closeMemory(t, again)
		}
	})
}

// await waits until something holds.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come to hold")
		}
	}
}

// TestGoneDriveOnDevice: a memory whose drive is gone closes, says what is lost, and
// gives its store back.
func TestGoneDriveOnDevice(t *testing.T) {
	onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) {
		f := &faultFunc{f: func(*soft.CommandInfo) soft.Fault { return soft.Fault{Gone: true} }}
		c := withFaults(f, "file:"+filepath.Join(t.TempDir(), "s")+"?size=8MiB")
		c.Timeout = 2 * time.Second
		m, a, _ := dirtyOnDevice(t, c)
		if err := m.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.Write(t.Context(), 0, make([]uint64, 4*page/8)); err != nil {
			t.Fatal(err)
		}
		f.on.Store(true)
		if err := a.Read(t.Context(), 0, make([]uint64, a.Len())); err == nil {
			t.Error("a read of a drive that is gone")
		}
		f.on.Store(false)
		var lost *tritier.FlushError
		if err := m.Close(t.Context()); !errors.As(err, &lost) || lost.Failed == 0 {
			t.Errorf("Close says nothing of what is lost: %v", err)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Errorf("Close again: %v", err)
		}
		closeMemory(t, open(t, tritier.Config{Store: c.Store, T1: 4 * page, Buffers: 8 * page}))
	})
}
