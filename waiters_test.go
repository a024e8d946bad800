package tritier_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/libnvm/soft"
)

// TestWaitersGiveUp: a call that waits for another one, which a slow drive holds up, ends
// when its context does, with either engine; the Memory goes on.
func TestWaitersGiveUp(t *testing.T) {
	t.Run("host", func(t *testing.T) { waiters(t, tritier.Config{GPU: "none"}) })
	t.Run("gpu", func(t *testing.T) {
		onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) { waiters(t, tritier.Config{GPU: "0", Engine: tritier.EngineGPU}) })
	})
}

func waiters(t *testing.T, c tritier.Config) {
	begun, let := make(chan struct{}, 100), make(chan struct{})
	f := &faultFunc{f: func(*soft.CommandInfo) soft.Fault {
		begun <- struct{}{}
		<-let // all of the drive waits
		return soft.Fault{}
	}}
	f.on.Store(false)
	c.Store, c.Create, c.PageSize, c.T1, c.Buffers, c.Policy = "mem:8MiB", true, page, 4*page, 16*page, "bypass{t1=clock}"
	c.Faults = func(int) soft.Faults { return f }
	m, err := tritier.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	a, err := tritier.NewArray[uint64](t.Context(), m, "a", 32*page/8)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]uint64, 1)
	calls := map[string]func(ctx context.Context) error{
		"gather":  func(ctx context.Context) error { return a.Gather(ctx, []uint64{0}, make([]uint64, 1)) },
		"scatter": func(ctx context.Context) error { return a.Scatter(ctx, []uint64{0}, values) },
		"read":    func(ctx context.Context) error { return a.Read(ctx, 0, make([]uint64, 1)) },
		"write":   func(ctx context.Context) error { return a.Write(ctx, 0, values) },
		"pin":     func(ctx context.Context) error { _, err := a.Pin(ctx, 0, 1); return err },
		"flush":   m.Flush,
		"close":   m.Close,
	}
	givesUp(t, f, begun, func() error { return a.Gather(t.Context(), []uint64{31 * page / 8}, make([]uint64, 1)) }, let, calls)
	if err := errors.Join(m.Check(), a.Write(t.Context(), 0, values)); err != nil {
		t.Error(err)
	}
	let = make(chan struct{})
	givesUp(t, f, begun, func() error { return m.Close(t.Context()) }, let, map[string]func(ctx context.Context) error{
		"new":   func(ctx context.Context) error { _, err := tritier.NewArray[uint64](ctx, m, "b", 1); return err },
		"drop":  func(ctx context.Context) error { return m.DropArray(ctx, "b") },
		"close": m.Close,
	})
}

// givesUp has held wait for the drive, and then every call for held.
func givesUp(t *testing.T, f *faultFunc, begun chan struct{}, held func() error, let chan struct{}, calls map[string]func(ctx context.Context) error) {
	t.Helper()
	f.on.Store(true)
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := held(); err != nil {
			t.Errorf("the call that was held up: %v", err)
		}
	})
	select {
	case <-begun:
	case <-time.After(10 * time.Second):
		t.Fatal("the drive was not asked for anything")
	}
	for name, call := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		ended := make(chan error, 1)
		wait.Go(func() { ended <- call(ctx) })
		select {
		case err := <-ended:
			if !errors.Is(err, context.DeadlineExceeded) || (name == "close") != errors.Is(err, tritier.ErrNotClosed) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s waits on, after its context has ended", name)
		}
		cancel()
		if t.Failed() {
			break
		}
	}
	f.on.Store(false)
	close(let)
	wait.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
