package cudafake

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier/cuda"
)

// TestFailNext fails as many calls as asked for, one plan after the other.
func TestFailNext(t *testing.T) {
	r := newRaw(t)
	r.g.FailNext(cuda.SymMemAlloc, cuda.OutOfMemory, 2)
	r.g.FailNext(cuda.SymMemAlloc, cuda.NotPermitted, 1)
	r.g.FailNext(cuda.SymMemAlloc, cuda.Unknown, 0)
	for _, want := range []cuda.Result{cuda.OutOfMemory, cuda.OutOfMemory, cuda.NotPermitted, cuda.Success} {
		r.is(want, cuda.SymMemAlloc, newCell().at(), 10)
	}
	if n := r.g.Calls(cuda.SymMemAlloc); n != 4 {
		t.Errorf("%d calls counted, want 4", n)
	}
	if l := r.g.Leaks(); len(l) != 2 {
		t.Errorf("leaks %q, want the context and one allocation", l)
	}
}

// TestFailAsync fails an operation after its call has returned.
func TestFailAsync(t *testing.T) {
	r := newRaw(t, Lag(-1))
	a, b, d := r.stream(), r.stream(), r.alloc(16)
	r.g.FailAsync(cuda.Unknown)
	r.ok(cuda.SymMemsetD8Async, d, 1, 16, a)
	r.ok(cuda.SymMemsetD8Async, d+8, 2, 8, a)
	r.is(cuda.Unknown, cuda.SymStreamSynchronize, a)
	r.sync(a) // it is told once
	if m := view(d, 16); m[0] != Poison || m[8] != 2 {
		t.Errorf("memory %v: want the first memset undone and the second done", m)
	}

	r.g.FailAsync(cuda.ECCUncorrectable)
	r.ok(cuda.SymMemsetD8Async, d, 3, 16, a)
	r.g.DelayOps(5 * time.Millisecond)
	r.ok(cuda.SymMemsetD8Async, d, 4, 16, b)
	r.is(cuda.NotReady, cuda.SymStreamQuery, b)
	r.is(cuda.ECCUncorrectable, cuda.SymStreamSynchronize, a)
	time.Sleep(10 * time.Millisecond) // were it not dropped, it would run now
	r.is(cuda.ECCUncorrectable, cuda.SymStreamQuery, b)
	for _, s := range []cuda.Symbol{cuda.SymMemFree, cuda.SymStreamDestroy} {
		r.is(cuda.ECCUncorrectable, s, d)
	}
	if view(d, 1)[0] != Poison {
		t.Error("work ran in a lost context")
	}
	r.ok(cuda.SymCtxSetCurrent, r.ctx)
	r.ok(cuda.SymPrimaryCtxRelease, 0)
	// What an H200's driver answers then.
	r.is(cuda.ECCUncorrectable, cuda.SymPrimaryCtxRetain, newCell().at(), 0)
	r.is(cuda.ContextIsDestroyed, cuda.SymMemAlloc, newCell().at(), 16)
	if l := r.g.Leaks(); len(l) > 0 {
		t.Errorf("a lost context leaks %q", l)
	}
	r.clean()
}

// TestHang keeps one stream from going on, and no other.
func TestHang(t *testing.T) {
	r := newRaw(t, Lag(-1))
	a, b, d, e := r.stream(), r.stream(), r.alloc(16), r.event()
	r.g.Hang()
	r.ok(cuda.SymMemsetD8Async, d, 1, 8, a)
	r.ok(cuda.SymEventRecord, e, a)
	r.is(cuda.NotReady, cuda.SymEventQuery, e)
	for r.g.Hanging() == 0 {
		time.Sleep(time.Millisecond)
	}
	r.ok(cuda.SymMemsetD8Async, d+8, 2, 8, b)
	r.sync(b)
	r.is(cuda.NotReady, cuda.SymStreamQuery, a)
	if m := view(d, 16); m[0] != Poison || m[8] != 2 {
		t.Errorf("memory %v: want the hanging half untouched", m)
	}
	r.g.Release()
	r.sync(a)
	if view(d, 1)[0] != 1 || r.g.Hanging() != 0 {
		t.Error("the released operation did not run")
	}
	r.g.Hang()
	r.ok(cuda.SymMemsetD8Async, d, 3, 8, a)
	r.is(cuda.NotReady, cuda.SymStreamQuery, a)
	for r.g.Hanging() == 0 {
		time.Sleep(time.Millisecond)
	}
	r.g.Release()
	r.g.Hang() // it has hung: this is for the next
	r.sync(a)
	r.g.Release() // takes it back
	r.ok(cuda.SymMemsetD8Async, d, 3, 8, a)
	r.sync(a)
}

// TestDelayOps checks that work starts no earlier than asked.
func TestDelayOps(t *testing.T) {
	r := newRaw(t)
	s, d := r.stream(), r.alloc(16)
	r.g.DelayOps(10 * time.Millisecond)
	begin := time.Now()
	r.ok(cuda.SymMemsetD8Async, d, 1, 16, s)
	r.sync(s)
	if took := time.Since(begin); took < 10*time.Millisecond {
		t.Errorf("done after %v", took)
	}
}

// TestCloseEndsWhatWaits closes the GPU under a synchronisation of work that
// hangs and a kernel that waits for its end.
func TestCloseEndsWhatWaits(t *testing.T) {
	r := newRaw(t)
	a, b, d := r.stream(), r.stream(), r.alloc(16)
	running := make(chan struct{})
	r.g.RegisterKernel("k", func(l *Launch) error {
		close(running)
		<-l.Done()
		return nil
	})
	r.launch(r.kernel("k"), a, 0)
	<-running // it has started by itself
	r.g.Hang()
	r.ok(cuda.SymMemsetD8Async, d, 1, 16, b)
	go func() {
		for r.g.Hanging() == 0 {
			time.Sleep(time.Millisecond)
		}
		_ = r.g.Close() // the test's end looks at the error
	}()
	r.is(cuda.Deinitialized, cuda.SymStreamSynchronize, b)
	r.is(cuda.Deinitialized, cuda.SymCtxSynchronize)
}

// TestContextEndsUnderWork releases a context with work queued and running.
func TestContextEndsUnderWork(t *testing.T) {
	r := newRaw(t, Lag(-1))
	a, b, d := r.stream(), r.stream(), r.alloc(16)
	running := make(chan struct{})
	r.g.RegisterKernel("k", func(l *Launch) error {
		close(running)
		<-l.Done()
		return nil
	})
	r.launch(r.kernel("k"), a, 0)
	r.is(cuda.NotReady, cuda.SymStreamQuery, a)
	<-running
	r.ok(cuda.SymMemsetD8Async, d, 1, 16, b)
	r.ok(cuda.SymPrimaryCtxRelease, 0)
	notes := strings.Join(r.g.Violations(), "\n")
	if strings.Count(notes, "in flight when its context ended") != 2 {
		t.Errorf("violations %q, want both streams", notes)
	}
}

// TestStuckKernels ends a context, and then the GPU, under a kernel that does
// not listen.
func TestStuckKernels(t *testing.T) {
	r := newRaw(t)
	r.g.closeLimit = 10 * time.Millisecond
	s, d := r.stream(), r.alloc(64)
	running, over := make(chan struct{}), make(chan struct{})
	r.g.RegisterKernel("k", func(l *Launch) error {
		b, err := l.Memory(l.U64(0), 64)
		close(running)
		<-over
		b[0] = 1 // it is still there
		return err
	})
	r.launch(r.kernel("k"), s, uint64(d))
	<-running
	r.ok(cuda.SymPrimaryCtxRelease, 0)
	if v := strings.Join(r.g.Violations(), "\n"); !strings.Contains(v, "kernel k on stream") || !strings.Contains(v, "its memory stays") {
		t.Errorf("violations %q", v)
	}
	err := r.g.Close()
	if err == nil || !strings.Contains(err.Error(), "kernel k on stream") {
		t.Errorf("Close: %v", err)
	}
	close(over)
	r.g.goroutines.Wait()
	r.g.closeErr = nil // the test's end closes again
}

// TestFreeWaitsForForeignKernels frees pinned memory of one context that a
// kernel of another uses.
func TestFreeWaitsForForeignKernels(t *testing.T) {
	r := newRaw(t, Devices(2))
	other := r.out(cuda.SymPrimaryCtxRetain, 1)
	r.ok(cuda.SymCtxSetCurrent, other)
	m := r.pinned(64)
	r.ok(cuda.SymCtxSetCurrent, r.ctx)
	running, over := make(chan struct{}), make(chan struct{})
	r.g.RegisterKernel("k", func(l *Launch) error {
		b, err := l.Memory(l.U64(0), 64)
		close(running)
		<-over
		b[0] = 1
		return err
	})
	r.launch(r.kernel("k"), r.stream(), uint64(addr(m)))
	<-running
	r.ok(cuda.SymCtxSetCurrent, other)
	const patience = 10 * time.Millisecond
	time.AfterFunc(patience, func() { close(over) })
	begin := time.Now()
	r.ok(cuda.SymMemFreeHost, addr(m))
	if took := time.Since(begin); took < patience {
		t.Errorf("freed after %v, under the kernel", took)
	}
	r.ok(cuda.SymCtxSetCurrent, r.ctx)
	r.ok(cuda.SymCtxSynchronize)
	r.clean()
}

// TestCloseInTheMiddleOfACopy closes the GPU while copies of many pieces run
// that other goroutines wait for.
func TestCloseInTheMiddleOfACopy(t *testing.T) {
	const n = 64 * piece
	for seed := range uint64(20) {
		r := newRaw(t, Seed(seed))
		a, b, d := r.stream(), r.stream(), r.alloc(2*n)
		r.ok(cuda.SymMemsetD8Async, d, 1, n, a)
		r.ok(cuda.SymMemsetD8Async, d+n, 1, n, b)
		time.AfterFunc(time.Duration(seed)*100*time.Microsecond, func() { _ = r.g.Close() }) // its error comes again at the end
		if got := r.call(cuda.SymCtxSynchronize); got != cuda.Success && got != cuda.Deinitialized {
			t.Errorf("seed %d: %d", seed, got)
		}
		if got := r.call(cuda.SymMemFree, d); got != cuda.Success && got != cuda.Deinitialized {
			t.Errorf("seed %d: free: %d", seed, got)
		}
	}
}

// TestContextEndDropsWhatOthersWaitFor lets a stream of another device wait for
// work that is dropped with its context.
func TestContextEndDropsWhatOthersWaitFor(t *testing.T) {
	r := newRaw(t, Devices(2), Lag(-1))
	s, e, d := r.stream(), r.event(), r.alloc(16)
	r.g.Hang()
	r.ok(cuda.SymMemsetD8Async, d, 1, 16, s)
	r.ok(cuda.SymEventRecord, e, s)
	other := r.out(cuda.SymPrimaryCtxRetain, 1)
	r.ok(cuda.SymCtxSetCurrent, other)
	theirs, there := r.stream(), r.alloc(16)
	r.ok(cuda.SymStreamWaitEvent, theirs, e, 0)
	r.ok(cuda.SymMemsetD8Async, there, 2, 16, theirs)
	r.is(cuda.NotReady, cuda.SymStreamQuery, theirs)
	for r.g.Hanging() == 0 {
		time.Sleep(time.Millisecond)
	}
	r.ok(cuda.SymPrimaryCtxRelease, 0)
	// No further call: the end alone must let the work go on.
	word := word32(view(there, 4))
	for limit := time.Now().Add(10 * time.Second); atomic.LoadUint32(word) != 0x02020202; {
		if time.Now().After(limit) {
			t.Fatal("the waiting work does not run")
		}
		time.Sleep(time.Millisecond)
	}
}
