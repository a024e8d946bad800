package gpu_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/gpu"
	"github.com/tritier/tritier/tier/gpu/gpufake"
)

// onFake runs f on the software GPU, with a hand on it.
func onFake(t *testing.T, f func(t *testing.T, fake *cudafake.GPU, ctx *cuda.Context)) {
	t.Run("fake", func(t *testing.T) {
		if !gpufake.Available {
			t.Skip("the kernels on a CPU need cgo")
		}
		fake := cudafake.New()
		defer fake.Close()
		gpufake.Register(fake)
		d, err := cuda.OpenBackend(fake)
		must(t, err)
		onDriver(t, d, func(t *testing.T, ctx *cuda.Context) { f(t, fake, ctx) })
		if l, v := fake.Leaks(), fake.Violations(); len(l)+len(v) > 0 {
			t.Errorf("leaks: %q, violations: %q", l, v)
		}
	})
}

// busyStream is a stream of the program with work that does not end before
// fake.Release.
func busyStream(t *testing.T, fake *cudafake.GPU, ctx *cuda.Context, m *cuda.DeviceMemory) *cuda.Stream {
	t.Helper()
	s, err := ctx.NewStream()
	must(t, err)
	fake.Hang()
	must(t, s.Memset8(m.Ptr(), 7, 64))
	for fake.Hanging() == 0 {
		if _, err := s.Query(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	return s
}

// TestHangs: calls whose context has no deadline end when their kernel does not begin,
// say so, and lose nothing.
func TestHangs(t *testing.T) {
	onFake(t, func(t *testing.T, fake *cudafake.GPU, ctx *cuda.Context) {
		w := newWorld(t, ctx, setup{policy: policies[1], frames: 4, t2: 3, spares: 8, pages: 64, deadline: 500 * time.Millisecond})
		ref := w.ref(t, 0, 64*page, 0)
		was := make([]byte, 64)
		for i := range was {
			was[i] = byte(i + 1)
		}
		must(t, w.Elements(t.Context(), ref, tier.Write, pagesOf(0, 64), gpu.Buffer{Bytes: was}))
		for what, call := range map[string]func() error{
			"elements": func() error {
				return w.Elements(t.Context(), ref, tier.Read, pagesOf(0, 8), gpu.Buffer{Bytes: make([]byte, 8)})
			},
			"run": func() error { return w.Run(t.Context(), ref, tier.Read, 0, 64, gpu.Buffer{Bytes: make([]byte, 64)}) },
			"pin": func() error { _, err := w.Pin(t.Context(), []uint64{1}); return err },
			"flush": func() error {
				c, cancel := context.WithCancel(t.Context()) // no deadline either
				defer cancel()
				return w.Flush(c)
			},
		} {
			fake.Hang()
			var hang *gpu.HangError
			var running *gpu.RunningError
			within(t, soon, what, func() {
				if err := call(); !errors.As(err, &hang) || !errors.As(err, &running) || hang.Begun || hang.Stream || !strings.Contains(err.Error(), "has not begun") {
					t.Errorf("%s: %v", what, err)
				}
			})
			within(t, soon, "the next call", func() {
				if err := w.Flush(t.Context()); !errors.As(err, &running) {
					t.Errorf("beside a kernel that hangs: %v", err)
				}
			})
			fake.Release()
			for end := time.Now().Add(soon); errors.As(w.Flush(t.Context()), &running); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the engine stays closed to calls")
				}
			}
		}
		got := make([]byte, 64)
		must(t, w.Elements(t.Context(), ref, tier.Read, pagesOf(0, 64), gpu.Buffer{Bytes: got}))
		if !slices.Equal(got, was) {
			t.Errorf("%v is not what was written", got)
		}
		w.close(t)
	})
}

// TestHangsBehindStream: what the caller's stream holds is named, and bounded by the
// context's deadline where it has one. Kernels of others that get on are no hang.
func TestHangsBehindStream(t *testing.T) {
	onFake(t, func(t *testing.T, fake *cudafake.GPU, ctx *cuda.Context) {
		w := newWorld(t, ctx, setup{policy: policies[1], frames: 4, t2: 3, spares: 8, pages: 64, deadline: 500 * time.Millisecond})
		ref := w.ref(t, 0, 64*page, 0)
		m, err := ctx.Alloc(64)
		must(t, err)
		read := func(c context.Context, s *cuda.Stream) error {
			return w.Elements(c, ref, tier.Read, pagesOf(0, 8), gpu.Buffer{Device: m.Ptr(), Size: 64, Stream: s})
		}
		s := busyStream(t, fake, ctx, m)
		var hang *gpu.HangError
		if err := read(t.Context(), s); !errors.As(err, &hang) || !hang.Stream || hang.Begun || !strings.Contains(err.Error(), "stream") {
			t.Errorf("a stream that does not end: %v", err)
		}
		fake.Release()
		must(t, s.Wait(t.Context()))
		for read(t.Context(), nil) != nil {
			time.Sleep(time.Millisecond)
		}

		const longer = 4 * time.Second // than deadline and grace
		must(t, s.Close())
		s = busyStream(t, fake, ctx, m)
		time.AfterFunc(longer, fake.Release)
		patient, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		must(t, read(patient, s))

		must(t, s.Close())
		s = busyStream(t, fake, ctx, m)
		time.AfterFunc(longer, fake.Release)
		over := make(chan struct{})
		ended := make(chan error)
		go func() { ended <- keepOn(w, ctx, over) }()
		must(t, read(t.Context(), s))
		close(over)
		must(t, errors.Join(<-ended, s.Close(), m.Close()))
		w.close(t)
	})
}

// keepOn makes accesses as kernels of a program do, until over.
func keepOn(w *world, ctx *cuda.Context, over chan struct{}) error {
	s, err := ctx.NewStream()
	if err != nil {
		return err
	}
	m, err := ctx.AllocHost(1<<12, 0)
	if err != nil {
		return err
	}
	clear(m.Bytes())
	binary.LittleEndian.PutUint64(m.Bytes(), 5*page)
	ref, err := w.Ref(0, 64*page, 0, "a")
	for err == nil {
		select {
		case <-over:
			return errors.Join(s.Close(), m.Close())
		default:
		}
		at := m.DevicePtr()
		err = errors.Join(w.Launch(s, ref, tier.Read, 1, at, 1, at.Add(512), at.Add(1024)), s.Wait(context.Background()))
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// TestHangsInside: a kernel that has begun and does not end is told from one that has
// not, and ends well when it does so on request.
func TestHangsInside(t *testing.T) {
	onFake(t, func(t *testing.T, fake *cudafake.GPU, ctx *cuda.Context) {
		w := newWorld(t, ctx, setup{policy: policies[1], frames: 4, t2: 3, spares: 8, pages: 64, deadline: 500 * time.Millisecond})
		for _, obeys := range []bool{false, true} {
			end := make(chan struct{})
			fake.RegisterKernel("flush_dirty", func(*cudafake.Launch) error {
				w.SetBegun()
				for !obeys || !w.Asked() {
					select {
					case <-end:
						return nil
					case <-time.After(time.Millisecond):
					}
				}
				return nil
			})
			var hang *gpu.HangError
			var running *gpu.RunningError
			within(t, soon, "a flush that hangs", func() {
				if err := w.Flush(t.Context()); !errors.As(err, &hang) || !hang.Begun || errors.As(err, &running) == obeys {
					t.Errorf("a flush that hangs: %v", err)
				}
			})
			close(end)
			gpufake.Register(fake)
			for end := time.Now().Add(soon); errors.As(w.Flush(t.Context()), &running) && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
		}
		must(t, w.Flush(t.Context()))
		w.close(t)
	})
}

// TestSlowIsNoHang: neither I/O that takes its time nor a flush that passes over many
// clean pages looks like a kernel that hangs.
func TestSlowIsNoHang(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		var slow atomic.Bool
		w := newWorld(t, ctx, setup{policy: policies[0], frames: 4, spares: 8, pages: 1 << 14, deadline: 600 * time.Millisecond, faults: switched(&slow, soft.Fault{Delay: 150 * time.Millisecond})})
		ref := w.ref(t, 0, w.pages*page, 0)
		must(t, w.Flush(t.Context()))
		if !w.Passed() {
			t.Error("a flush does not tell how far it is")
		}
		slow.Store(true)
		const n = 72 // by three warps: longer than deadline and grace
		begun := time.Now()
		if err := w.Elements(t.Context(), ref, tier.Read, pagesOf(0, n), gpu.Buffer{Bytes: make([]byte, n)}); err != nil {
			t.Errorf("a batch over a slow drive ends after %v: %v", time.Since(begun), err)
		}
		slow.Store(false)
		w.close(t)
	})
}
