//go:build linux

package cuda

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestStickyErrorIsKept(t *testing.T) {
	s := newScript(t)
	c := s.open()
	other := must(c.device.Retain())(t)
	stream := must(c.NewStream())(t)
	event := must(other.NewEvent(true))(t)
	memory := must(c.Alloc(100))(t)
	if err := c.Err(); err != nil {
		t.Fatalf("before anything failed: %v", err)
	}
	s.fail(SymMemAlloc, OutOfMemory)
	if _, err := c.Alloc(1); !errors.Is(err, ErrOutOfMemory) || errors.Is(err, ErrSticky) || c.Err() != nil {
		t.Fatalf("out of memory is not the end of a context: %v, %v", err, c.Err())
	}
	s.fail(SymStreamQuery, IllegalAddress)
	if _, err := stream.Query(); !errors.Is(err, ErrSticky) || !errors.Is(err, IllegalAddress) {
		t.Fatalf("the query: %v", err)
	}
	first := c.Err()
	var e *Error
	if !errors.As(first, &e) || e.Call != "cuStreamQuery" || e.Result != IllegalAddress {
		t.Fatalf("Err is %v", first)
	}
	s.fail(SymEventQuery, LaunchFailed) // a later, other one does not replace it
	calls := s.count(SymCtxSetCurrent)
	for name, call := range map[string]func() error{
		"cuMemAlloc_v2":         func() error { _, err := c.Alloc(1); return err },
		"cuStreamQuery":         func() error { return stream.Wait(context.Background()) },
		"cuEventRecord":         func() error { return event.Record(stream) },
		"cuEventQuery":          func() error { return event.Wait(context.Background()) },
		"cuMemcpyHtoDAsync_v2":  func() error { return stream.CopyToDevice(1, nil) },
		"cuMemcpyBatchAsync_v2": func() error { return stream.CopyBatch(&CopyBatch{}) },
		"cuMemsetD8Async":       func() error { return stream.Memset8(1, 1, 0) },
		"cuCtxSynchronize":      func() error { return other.Synchronize(context.Background()) },
		"cuCtxSetCurrent":       func() error { return c.Do(func() error { return nil }) },
	} {
		err := call()
		var e *Error
		if !errors.As(err, &e) || e.Call != name || !errors.Is(err, first) || !errors.Is(err, ErrSticky) ||
			!strings.Contains(err.Error(), "cuStreamQuery") {
			t.Errorf("%s on a lost context: %v", name, err)
		}
	}
	if s.count(SymCtxSetCurrent) != calls {
		t.Error("the driver was called on a lost context")
	}
	if other.Err() != first {
		t.Error("another share of the primary context does not know that it is lost")
	}
	s.fail(SymMemFree, IllegalAddress)
	if err := memory.Free(); !errors.Is(err, ErrSticky) || s.count(SymMemFree) != 1 {
		t.Errorf("Free on a lost context: %v", err)
	}
	if err := memory.Free(); err != nil {
		t.Errorf("the second Free: %v", err)
	}
}

func TestStickyErrorEndsWithThePrimaryContext(t *testing.T) {
	s := newScript(t)
	c := s.open()
	s.fail(SymMemAlloc, LaunchFailed)
	if _, err := c.Alloc(1); !errors.Is(err, ErrSticky) {
		t.Fatal(err)
	}
	if again := must(c.device.Retain())(t); again.Err() == nil || again.Close() != nil {
		t.Error("a share of a lost context is not lost")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	s.answer(SymMemAlloc, nil)
	fresh := must(c.device.Retain())(t)
	if fresh.Err() != nil {
		t.Errorf("a new primary context is lost: %v", fresh.Err())
	}
	must(fresh.Alloc(1))(t)
}

func TestFirstStickyErrorWins(t *testing.T) {
	s := newScript(t)
	c := s.open()
	stream, memory := must(c.NewStream())(t), must(c.Alloc(1))(t)
	s.answer(SymStreamQuery, func([]uintptr) Result {
		// While this call is in the driver, another one is faster.
		s.fail(SymMemFree, ECCUncorrectable)
		if err := memory.Free(); !errors.Is(err, ECCUncorrectable) {
			t.Error(err)
		}
		return IllegalAddress
	})
	_, err := stream.Query()
	if !errors.Is(err, IllegalAddress) || !errors.Is(err, c.Err()) || !errors.Is(c.Err(), ECCUncorrectable) {
		t.Errorf("the error %v does not hold the first, %v", err, c.Err())
	}
}

func TestClosedObjects(t *testing.T) {
	s := newScript(t)
	c := s.open()
	stream, live := must(c.NewStream())(t), must(c.NewStream())(t)
	event := must(c.NewEvent(true))(t)
	memory := must(c.Alloc(4096))(t)
	module := must(c.LoadModule([]byte("ptx")))(t)
	kernel := must(module.Function("f"))(t)
	wrapped := c.WrapStream(0x99)
	for _, o := range []interface{ Close() error }{stream, event, memory, module, wrapped} {
		for range 2 {
			if err := o.Close(); err != nil {
				t.Errorf("Close of %T: %v", o, err)
			}
		}
	}
	for name, err := range map[string]error{
		"Query":      second(stream.Query()),
		"Wait":       stream.Wait(context.Background()),
		"WaitEvent":  stream.WaitEvent(event),
		"WaitEvent2": live.WaitEvent(event),
		"Copy":       stream.CopyToDevice(1, []byte{1}),
		"CopyBatch":  stream.CopyBatch(&CopyBatch{Dst: []uint64{1}, Src: []uint64{2}, Size: []uint64{3}}),
		"CopyPeer":   stream.CopyPeer(1, c, 1, c, 1),
		"Memset":     stream.Memset32(1, 1, 1),
		"Wrapped":    wrapped.Memset8(1, 1, 1),
		"Record":     event.Record(live),
		"Elapsed":    second(event.ElapsedSince(event)),
		"DMABuf":     second(memory.DMABuf()),
		"LaunchArgs": kernel.LaunchArgs(live, LaunchConfig{}, memory),
		"Launch":     kernel.Launch(live, LaunchConfig{}, nil),
		"Attribute":  second(kernel.Attribute(0)),
		"Function":   second(module.Function("f")),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := s.count(SymStreamDestroy) + s.count(SymEventDestroy) + s.count(SymMemFree) + s.count(SymModuleUnload); n != 4 {
		t.Errorf("%d handles were destroyed, not 4", n)
	}
}

func second[T any](_ T, err error) error { return err }

func TestContextCloseClosesWhatIsOpen(t *testing.T) {
	s := newScript(t)
	c := s.open()
	stream := must(c.NewStream())(t)
	must(c.NewEvent(true))(t)
	memory := must(c.Alloc(1))(t)
	host := must(c.AllocHost(10, Portable))(t)
	must(c.RegisterHost(make([]byte, 10), 0))(t)
	must(c.LoadModule([]byte("ptx")))(t)
	wrapped := c.WrapStream(1)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if left := s.leaks(); len(left) != 0 {
		t.Errorf("still open: %v", left)
	}
	for name, err := range map[string]error{
		"Alloc":       second(c.Alloc(1)),
		"NewStream":   second(c.NewStream()),
		"RegisterH":   second(c.RegisterHost([]byte{1}, 0)),
		"Do":          c.Do(func() error { t.Error("Do ran on a closed context"); return nil }),
		"Synchronize": c.Synchronize(context.Background()),
		"EnablePeer":  c.EnablePeer(c),
		"Query":       second(stream.Query()),
		"Wrapped":     second(wrapped.Query()),
		"WrapAgain":   second(c.WrapStream(0).Query()),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, o := range []interface{ Close() error }{stream, memory, host, c} {
		if err := o.Close(); err != nil {
			t.Errorf("Close of %T after the context's: %v", o, err)
		}
	}
	if s.count(SymPrimaryCtxRelease) != 1 {
		t.Error("the primary context was not released once")
	}
}

func TestContextCloseReportsEveryError(t *testing.T) {
	s := newScript(t)
	c := s.open()
	must(c.NewStream())(t)
	must(c.Alloc(1))(t)
	s.fail(SymStreamDestroy, InvalidHandle)
	s.fail(SymMemFree, InvalidValue)
	s.fail(SymPrimaryCtxRelease, InvalidContext)
	err := c.Close()
	for _, want := range []Result{InvalidHandle, InvalidValue, InvalidContext} {
		if !errors.Is(err, want) {
			t.Errorf("%v is lost: %v", want, err)
		}
	}
}

// TestContextCloseWaitsForAClosingObject: while the driver destroys a stream,
// the context must stay.
func TestContextCloseWaitsForAClosingObject(t *testing.T) {
	s := newScript(t)
	c := s.open()
	stream := must(c.NewStream())(t)
	entered, release := make(chan bool), make(chan bool)
	s.answer(SymStreamDestroy, func([]uintptr) Result { close(entered); <-release; return Success })
	var all sync.WaitGroup
	all.Go(func() { report(t, stream.Close()) })
	<-entered
	all.Go(func() { report(t, c.Close()) })
	time.Sleep(10 * time.Millisecond)
	if s.count(SymPrimaryCtxRelease) != 0 {
		t.Error("the context was released while a stream of it was being destroyed")
	}
	close(release)
	all.Wait()
	if s.count(SymPrimaryCtxRelease) != 1 {
		t.Error("the context was not released")
	}
}

// TestConcurrentUseAndClose has the script check that no destroyed handle and
// no wrong context reaches the driver.
func TestConcurrentUseAndClose(t *testing.T) {
	s := newScript(t)
	d := s.driver()
	devices := must(d.Devices())(t)
	for round := range 20 {
		var all sync.WaitGroup
		for _, v := range devices {
			c := must(v.Retain())(t)
			stream, event := must(c.NewStream())(t), must(c.NewEvent(true))(t)
			module, memory := must(c.LoadModule([]byte("ptx")))(t), must(c.Alloc(100))(t)
			kernel := must(module.Function("f"))(t)
			closers := []interface{ Close() error }{stream, event, module, memory, c}
			uses := []func() error{
				func() error { return second(stream.Query()) },
				func() error { return event.Record(stream) },
				func() error { return stream.WaitEvent(event) },
				func() error { return kernel.LaunchArgs(stream, LaunchConfig{}, memory) },
				func() error { return stream.CopyDevice(memory.Ptr(), memory.Ptr(), 10) },
				func() error { return c.Do(func() error { return second(event.ElapsedSince(event)) }) },
				func() error { return second(c.Alloc(1)) },
				func() error { return c.Synchronize(context.Background()) },
			}
			for g := range 4 {
				rng := rand.New(rand.NewPCG(uint64(round), uint64(g)))
				all.Go(func() {
					for range 50 {
						if err := uses[rng.IntN(len(uses))](); err != nil && !errors.Is(err, ErrClosed) {
							t.Errorf("round %d: %v", round, err)
							return
						}
					}
				})
			}
			rng := rand.New(rand.NewPCG(uint64(round), 99))
			all.Go(func() {
				for _, o := range closers {
					time.Sleep(time.Duration(rng.IntN(100)) * time.Microsecond)
					if err := o.Close(); err != nil {
						t.Errorf("round %d: Close of %T: %v", round, o, err)
					}
				}
			})
		}
		all.Wait()
		if left := s.leaks(); len(left) != 0 {
			t.Fatalf("round %d: still open: %v", round, left)
		}
	}
}

// TestSame: shares of a device's primary context are one context.
func TestSame(t *testing.T) {
	s := newScript(t)
	c := s.open()
	share := must(c.device.Retain())(t)
	other := must(must(c.driver.Device("1"))(t).Retain())(t)
	elsewhere := newScript(t).open() // another driver, which has the same handles
	for _, row := range []struct {
		name string
		a, b *Context
		want bool
	}{
		{"itself", c, c, true}, {"a share", c, share, true}, {"another device", c, other, false},
		{"another driver", c, elsewhere, false}, {"nil", c, nil, false}, {"of nil", nil, c, false}, {"nil and nil", nil, nil, false},
	} {
		if got := row.a.Same(row.b); got != row.want {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}

// TestFreed: memory knows whether it is still there, and whose it is.
func TestFreed(t *testing.T) {
	s := newScript(t)
	c := s.open()
	a, b := must(c.Alloc(10))(t), must(c.Alloc(10))(t)
	if a.Freed() || b.Freed() || a.Context() != c {
		t.Error("new memory is freed, or of another context")
	}
	report(t, a.Free())
	if !a.Freed() || b.Freed() {
		t.Errorf("after Free: %v, of other memory %v", a.Freed(), b.Freed())
	}
	report(t, c.Close())
	if !b.Freed() {
		t.Error("memory outlives its context")
	}
}

func TestEachCallSetsTheContext(t *testing.T) {
	s := newScript(t)
	d := s.driver()
	a := must(must(d.Device("0"))(t).Retain())(t)
	sa := must(a.NewStream())(t)
	query := func(s *Stream, n int) {
		for range n {
			if done, err := s.Query(); !done || err != nil {
				t.Errorf("query: %v, %v", done, err)
			}
		}
	}
	for _, c := range []struct {
		name string
		f    func() error
		sets int
	}{
		{"outside", func() error { query(sa, 5); return nil }, 5},
		{"inside", func() error { return a.Do(func() error { query(sa, 5); return nil }) }, 6},
	} {
		before := s.count(SymCtxSetCurrent)
		if err := c.f(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if n := s.count(SymCtxSetCurrent) - before; n != c.sets {
			t.Errorf("%s: the context was set %d times, not %d", c.name, n, c.sets)
		}
	}
	want := errors.New("f's own")
	if err := a.Do(func() error { return want }); err != want {
		t.Errorf("Do gives %v", err)
	}
}

// TestDoFails: without its context current f must not run.
func TestDoFails(t *testing.T) {
	s := newScript(t)
	c := s.open()
	s.fail(SymCtxSetCurrent, InvalidContext)
	if err := c.Do(func() error { t.Error("f ran"); return nil }); !errors.Is(err, InvalidContext) {
		t.Errorf("Do: %v", err)
	}
}

func TestSynchronize(t *testing.T) {
	s := newScript(t)
	c := s.open()
	if err := c.Synchronize(context.Background()); err != nil {
		t.Fatal(err)
	}
	release := make(chan bool)
	s.answer(SymCtxSynchronize, func([]uintptr) Result { <-release; return LaunchFailed })
	cause := errors.New("shutting down")
	longest := time.Duration(0) // a busy machine may begin to wait late, but not every time
	for range 3 {
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(30*time.Millisecond, func() { cancel(cause) })
		err := c.Synchronize(ctx)
		var e *DeadlineError
		if !errors.As(err, &e) || e.Err != cause || !strings.Contains(e.Wait, "GPU 0") {
			t.Fatalf("Synchronize: %v", err)
		}
		longest = max(longest, e.Elapsed)
	}
	if longest < 25*time.Millisecond {
		t.Errorf("Synchronize waited %v for a context that ends after 30 ms", longest)
	}
	if n := s.count(SymCtxSynchronize); n != 2 {
		t.Errorf("%d waits were started, one of them to stay: not 2", n)
	}
	close(release)
	for c.Err() == nil { // the wait that stayed behind still reports what it found
		time.Sleep(time.Millisecond)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestPeers(t *testing.T) {
	s := newScript(t)
	d := s.driver()
	a := must(must(d.Device("0"))(t).Retain())(t)
	b := must(must(d.Device("1"))(t).Retain())(t)
	var got []uintptr
	s.answer(SymCtxEnablePeerAccess, func(args []uintptr) Result { got = append([]uintptr(nil), args...); return Success })
	if err := a.EnablePeer(b); err != nil || len(got) != 2 || got[0] != b.handle || got[1] != 0 {
		t.Errorf("EnablePeer: %v, arguments %x", err, got)
	}
	s.fail(SymCtxEnablePeerAccess, PeerAccessAlreadyEnabled)
	if err := a.EnablePeer(b); err != nil {
		t.Errorf("enabled already: %v", err)
	}
	s.fail(SymCtxEnablePeerAccess, NotSupported)
	if err := a.EnablePeer(b); !errors.Is(err, ErrNotSupported) || !strings.Contains(err.Error(), "GPU 1") {
		t.Errorf("not supported: %v", err)
	}
	if err := a.EnablePeer(a); !errors.Is(err, InvalidValue) {
		t.Errorf("with itself: %v", err)
	}
	stream := must(a.NewStream())(t)
	s.answer(SymMemcpyPeerAsync, func(args []uintptr) Result { got = append([]uintptr(nil), args...); return Success })
	if err := stream.CopyPeer(1, a, 2, b, 3); err != nil || len(got) != 6 ||
		got[0] != 1 || got[1] != a.handle || got[2] != 2 || got[3] != b.handle || got[4] != 3 || got[5] != stream.handle {
		t.Errorf("CopyPeer: %v, arguments %x", err, got)
	}
	_ = b.Close()
	if err := a.EnablePeer(b); !errors.Is(err, ErrClosed) {
		t.Errorf("with a closed context: %v", err)
	}
	if err := stream.CopyPeer(1, a, 2, b, 3); !errors.Is(err, ErrClosed) {
		t.Errorf("CopyPeer with a closed context: %v", err)
	}
}

func report(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
