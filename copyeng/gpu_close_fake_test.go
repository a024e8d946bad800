package copyeng_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
)

// An engine whose copies hang fails to close, in the time of one queue and not
// of all together, keeps what the copies need, and closes when they are done.
func TestCloseOfAHungEngine(t *testing.T) {
	g, f := fakeGPU(t, copyeng.GPUOptions{Force: copyeng.PathZeroCopy})
	const patience, queues = 2 * time.Second, 8
	g.SetPatience(patience)
	r := newRig(t, g, 1<<20)
	hang(t, f, queues)
	all := []copyeng.Queue{r.queue}
	for len(all) < queues {
		q, err := g.NewQueue()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, q)
	}
	for i, q := range all {
		if _, err := q.Copy(r.batch(copyeng.ToDevice, 4096, straight(uint32(i), 1))); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "kernels hang", func() bool { return f.Hanging() == queues })
	start := time.Now()
	if err := g.Close(); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "8 queues") {
		t.Fatalf("close: %v, want the deadline and the number of queues", err)
	}
	if took := time.Since(start); took > queues*patience*3/4 {
		t.Errorf("close took %v: the queues' waits add up", took)
	}
	if n := f.Calls(cuda.SymModuleUnload); n != 0 {
		t.Error("the kernels were unloaded while they run")
	}
	_, noQueue := g.NewQueue()
	_, noCopy := r.queue.Copy(r.batch(copyeng.ToDevice, 4096, straight(0, 1)))
	for _, err := range []error{noQueue, noCopy} {
		if !errors.Is(err, copyeng.ErrClosed) {
			t.Errorf("after that: %v, want ErrClosed", err)
		}
	}
	if err := waitBriefly(t, r.queue); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait: %v, want the deadline", err)
	}
	f.Release()
	if err := wait(t, r.queue); err != nil {
		t.Error(err)
	}
	if err := errors.Join(r.host.Close(), r.device.Close(), g.Close()); err != nil {
		t.Errorf("close again: %v", err)
	}
	if leaks := f.Leaks(); len(leaks) != 1 {
		t.Errorf("leaks %v, want the context alone", leaks)
	}
	if err := g.Close(); err != nil {
		t.Errorf("close once more: %v", err)
	}
}

// A wait comes back in time while another call holds the queue.
func TestWaitComesBackInTime(t *testing.T) {
	g, f := fakeGPU(t, copyeng.GPUOptions{Force: copyeng.PathZeroCopy})
	r := newRig(t, g, 8<<20)
	busy := func(what string, call func() error) {
		t.Helper()
		done := make(chan error, 1)
		before := f.Calls(cuda.SymStreamQuery) + f.Calls(cuda.SymEventQuery)
		go func() { done <- call() }()
		until(t, what+" waits", func() bool { return f.Calls(cuda.SymStreamQuery)+f.Calls(cuda.SymEventQuery) > before+20 })
		waited := make(chan error, 1)
		go func() { waited <- waitBriefly(t, r.queue) }()
		if err := within(t, "wait beside "+what, waited); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait beside %s: %v, want the deadline", what, err)
		}
		select {
		case err := <-done:
			t.Errorf("%s ended before the wait: %v", what, err)
		default:
		}
		f.Release()
		if err := within(t, what, done); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	hang(t, f, 1)
	for range 4 { // as many as the ring has room for
		if _, err := r.queue.Copy(r.batch(copyeng.ToDevice, 512, straight(0, 16384))); err != nil {
			t.Fatal(err)
		}
	}
	busy("a copy into a full ring", func() error {
		_, err := r.queue.Copy(r.batch(copyeng.ToDevice, 512, straight(0, 16384)))
		return err
	})
	if err := wait(t, r.queue); err != nil {
		t.Fatal(err)
	}
	hang(t, f, 1)
	if _, err := r.queue.Copy(r.batch(copyeng.ToDevice, 512, straight(0, 1))); err != nil {
		t.Fatal(err)
	}
	busy("close", r.queue.Close)
}

// Closing tells of the error of a copy, also of one in the queue's own stream.
func TestCloseTellsOfErrors(t *testing.T) {
	for _, p := range []copyeng.Path{copyeng.PathMemcpy, copyeng.PathBatch, copyeng.PathZeroCopy} {
		g, f := fakeGPU(t, copyeng.GPUOptions{Force: p})
		r := newRig(t, g, 1<<20)
		for _, closing := range []func(q copyeng.Queue) error{copyeng.Queue.Close, func(copyeng.Queue) error { return g.Close() }} {
			q, err := g.NewQueue()
			if err != nil {
				t.Fatal(err)
			}
			f.FailAsync(cuda.OutOfMemory)
			if _, err := q.Copy(r.batch(copyeng.ToDevice, 4096, straight(0, 100))); err != nil {
				t.Fatal(err)
			}
			if err := closing(q); !errors.Is(err, cuda.OutOfMemory) {
				t.Errorf("%s: close: %v, want out of memory", p, err)
			}
		}
	}
}

// A context closed before its engine makes every call fail, and none fault.
func TestContextClosedFirst(t *testing.T) {
	for _, p := range append(onePaths, copyeng.PathHybrid25, copyeng.PathBatch4) {
		g, _ := fakeGPU(t, copyeng.GPUOptions{Force: p})
		r := newRig(t, g, 1<<20)
		b := r.batch(copyeng.ToDevice, 4096, straight(0, 200))
		out := r.batch(copyeng.ToHost, 4096, straight(200, 50))
		for range 3 { // so that the ring has an event to spare
			_, copied := r.queue.Copy(b)
			_, exchanged := r.queue.Exchange(b, out)
			if err := errors.Join(copied, exchanged, wait(t, r.queue)); err != nil {
				t.Fatal(err)
			}
		}
		fresh, err := g.NewQueue() // without a ring, events and side streams
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Context().Close(); err != nil {
			t.Fatal(err)
		}
		for _, q := range []copyeng.Queue{r.queue, fresh} {
			_, copied := q.Copy(b)
			_, exchanged := q.Exchange(b, out)
			for what, err := range map[string]error{"copy": copied, "exchange": exchanged, "wait": wait(t, q), "close": q.Close()} {
				if !errors.Is(err, copyeng.ErrClosed) || !errors.Is(err, cuda.ErrClosed) {
					t.Errorf("%s: %s after the context was closed: %v, want ErrClosed of both packages", p, what, err)
				}
			}
			if err := q.Close(); err != nil {
				t.Errorf("%s: closed once more: %v", p, err)
			}
		}
		_, noQueue := g.NewQueue()
		_, noDevice := g.Allocate(4096)
		_, noHost := g.AllocateHost(4096)
		_, noPool := g.AllocateHost(32 << 20)
		_, noEngine := copyeng.OpenGPU(g.Context(), copyeng.GPUOptions{})
		for _, err := range []error{noQueue, noDevice, noHost, noPool, noEngine} {
			if !errors.Is(err, copyeng.ErrClosed) {
				t.Errorf("%s: after the context was closed: %v, want ErrClosed", p, err)
			}
		}
		if err := g.Close(); err != nil {
			t.Errorf("%s: close an engine whose queues are: %v", p, err)
		}
	}
}

// onePaths are the paths of one stream.
var onePaths = []copyeng.Path{copyeng.PathMemcpy, copyeng.PathBatch, copyeng.PathZeroCopy}

// The context may even be closed while lists are being written. What the GPU
// makes of copies whose memory goes is the caller's risk; the program goes on.
func TestContextClosedMeanwhile(t *testing.T) {
	for range 20 {
		g, _ := fakeGPU(t, copyeng.GPUOptions{Force: copyeng.PathZeroCopy})
		r := newRig(t, g, 1<<20)
		b := r.batch(copyeng.ToDevice, 512, straight(0, 2000))
		first, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			for n := 0; ; n++ {
				if _, err := r.queue.Copy(b); err != nil {
					ended <- err
					return
				}
				if n == 0 {
					close(first)
				}
			}
		}()
		within(t, "a copy", first)
		noted := func(err error) bool { return errors.Is(err, copyeng.ErrClosed) || errors.Is(err, cuda.ErrSticky) }
		if err := g.Context().Close(); err != nil && !noted(err) {
			t.Error(err)
		}
		if err := within(t, "copies", ended); !noted(err) {
			t.Errorf("%v, want ErrClosed", err)
		}
		if err := g.Close(); !noted(err) {
			t.Errorf("close the engine: %v, want ErrClosed for its queue", err)
		}
	}
}

// A context that is closed with copies in flight lets them end: what goes to
// memory of the caller is all there then.
func TestContextCloseWaitsForCopies(t *testing.T) {
	for _, w := range append([]way{{copyeng.PathExchange, true}, {copyeng.PathMemcpy, false}, {copyeng.PathZeroCopy, false}}, sideWays...) {
		g, f := fakeGPU(t, w.options(t))
		r := newRig(t, g, 1<<20)
		mine, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Munmap(mine) }()
		if _, err := g.Context().RegisterHost(mine, 0); err != nil {
			t.Fatal(err)
		}
		lent, err := g.LendHost(mine)
		if err != nil {
			t.Fatal(err)
		}
		fill(r.host.Bytes(), 8)
		want := bytes.Clone(r.host.Bytes()[:200*4096])
		if _, err := r.queue.Copy(r.batch(copyeng.ToDevice, 4096, straight(0, 200))); err != nil {
			t.Fatal(err)
		}
		f.DelayOps(50 * time.Millisecond)
		back := &copyeng.Batch{Dir: copyeng.ToHost, Host: lent, Device: r.device, PageSize: 4096, Pairs: straight(0, 200)}
		if w.exchange {
			_, err = r.queue.Exchange(r.batch(copyeng.ToDevice, 4096, straight(200, 50)), back)
		} else {
			_, err = r.queue.Copy(back)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Context().Close(); err != nil {
			t.Errorf("%s: %v", w.path, err)
		}
		if !bytes.Equal(mine[:len(want)], want) {
			t.Errorf("%s: the context was closed before its copies were done", w.path)
		}
		if err := g.Close(); !errors.Is(err, copyeng.ErrClosed) {
			t.Errorf("%s: close the engine: %v, want ErrClosed for its queue", w.path, err)
		}
	}
}

// A caller's stream that is closed before its queue takes nothing away from the
// kernels in it.
func TestWrappedStreamClosedFirst(t *testing.T) {
	g, f := fakeGPU(t, copyeng.GPUOptions{Force: copyeng.PathZeroCopy})
	r := newRig(t, g, 1<<20)
	s, err := g.Context().NewStream()
	if err != nil {
		t.Fatal(err)
	}
	q, err := g.WrapQueue(s)
	if err != nil {
		t.Fatal(err)
	}
	hang(t, f, 1)
	if _, err := q.Copy(r.batch(copyeng.ToDevice, 4096, straight(0, 200))); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	g.SetPatience(10 * time.Millisecond)
	if err := q.Close(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v, want the deadline, as a kernel hangs", err)
	}
	_, copied := q.Copy(r.batch(copyeng.ToDevice, 4096, straight(0, 1)))
	for _, err := range []error{copied, wait(t, q)} {
		if !errors.Is(err, copyeng.ErrClosed) {
			t.Errorf("after the stream was closed: %v, want ErrClosed", err)
		}
	}
	f.Release()
	g.SetPatience(20 * time.Second)
	if err := q.Close(); !errors.Is(err, copyeng.ErrClosed) {
		t.Errorf("close: %v, want ErrClosed for the stream", err)
	}
}
