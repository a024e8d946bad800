package copyeng_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

// sideCalls are what a batch over several streams consists of.
var sideCalls = []cuda.Symbol{cuda.SymMemcpyBatchAsyncV2, cuda.SymLaunchKernel, cuda.SymEventRecord, cuda.SymStreamWaitEvent}

// A batch that fails at any of its calls is waited for as far as it was started,
// by Wait, by Close, and by what comes after it in the queue.
func TestHalfStartedBatch(t *testing.T) {
	for _, w := range sideWays {
		g, f := fakeGPU(t, w.options(t))
		r := newRig(t, g, 1<<20)
		before := make([]int, len(sideCalls))
		for i, s := range sideCalls {
			before[i] = f.Calls(s)
		}
		if err := errors.Join(w.start(r, straight(0, 100)), wait(t, r.queue)); err != nil {
			t.Fatal(err)
		}
		for i, s := range sideCalls {
			for k := range f.Calls(s) - before[i] {
				t.Run(fmt.Sprintf("%s/%s/%d", w.path, s, k+1), func(t *testing.T) {
					t.Parallel()
					halfStart(t, w, s, k+1)
				})
			}
		}
	}
}

func halfStart(t *testing.T, w way, s cuda.Symbol, k int) {
	g, p := tappedGPU(t, w.options(t))
	r := newRig(t, g, 1<<20)
	mine := r.wrap(g)
	fill(r.host.Bytes(), uint64(k))
	want := bytes.Clone(r.host.Bytes()[100*4096 : 200*4096])
	// All pages, so that events have been used and say that they are reached.
	if err := errors.Join(w.start(r, straight(0, 256)), wait(t, r.queue)); err != nil {
		t.Fatal(err)
	}
	before := started(p.GPU)
	hang(t, p.GPU, 100)
	o := newOrder(p.GPU)
	p.failNth(s, k, k, cuda.OutOfMemory)
	p.follow(o)
	if err := w.start(r, straight(0, 100)); !errors.Is(err, cuda.OutOfMemory) {
		t.Fatalf("%v, want out of memory", err)
	}
	p.set(o.answer)
	first := o.all()
	hanging := started(p.GPU) - before
	if hanging > 0 {
		stillBusy(t, g, r.queue)
		until(t, "all of the first batch hangs", func() bool { return p.Hanging() == hanging })
	}
	if joins := s == cuda.SymMemcpyBatchAsyncV2 || s == cuda.SymLaunchKernel; joins && hanging > 0 {
		// Nor does work of the caller's go past it.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := mine.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait of the caller's stream: %v, want the deadline, as a copy hangs", err)
		}
	}
	// The same device pages in the opposite order, so that they are dealt to
	// other streams: these must not overtake the first.
	second := straight(0, 100)
	for i := range second {
		second[i] = copyeng.Pair{Host: uint32(100 + i), Device: uint32(99 - i)}
	}
	if err := w.start(r, second); err != nil {
		t.Fatal(err)
	}
	if early := o.without(first); len(early) > 0 {
		t.Errorf("copies of the second batch, on streams %#x, do not wait for all of the first", early)
	}
	stillBusy(t, g, r.queue)
	if n := p.Hanging(); hanging > 0 && n != hanging {
		t.Errorf("%d copies hang, %d of them of the second batch", n, n-hanging)
	}
	p.Release()
	if err := wait(t, r.queue); err != nil {
		t.Fatal(err)
	}
	deviceHas(t, g, r.device, second, want)
}

// wrap gives the rig a queue on a stream of the test's.
func (r *rig) wrap(g *copyeng.GPU) *cuda.Stream {
	s, err := g.Context().NewStream()
	if err != nil {
		r.t.Fatal(err)
	}
	q, err := g.WrapQueue(s)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := errors.Join(q.Close(), s.Close()); err != nil {
			r.t.Error(err)
		}
	})
	r.queue = q
	return s
}

// started is how much was put into streams.
func started(f *cudafake.GPU) int {
	return f.Calls(cuda.SymMemcpyBatchAsyncV2) + f.Calls(cuda.SymLaunchKernel) + f.Calls(cuda.SymMemcpyHtoDAsync)
}

// stillBusy sees that neither Wait nor Close goes past what hangs.
func stillBusy(t *testing.T, g *copyeng.GPU, q copyeng.Queue) {
	t.Helper()
	if err := waitBriefly(t, q); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait: %v, want the deadline, as a copy hangs", err)
	}
	g.SetPatience(10 * time.Millisecond)
	defer g.SetPatience(20 * time.Second)
	if err := q.Close(); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("close: %v, want the deadline, as a copy hangs", err)
	}
}

// deviceHas compares device pages of 4 KiB with what was copied: the i-th pair's
// page is the i-th of want.
func deviceHas(t *testing.T, g *copyeng.GPU, s *copyeng.Space, pairs []copyeng.Pair, want []byte) {
	t.Helper()
	got := make([]byte, s.Size())
	if err := (plain{g.Context()}).read(s, 0, got); err != nil {
		t.Fatal(err)
	}
	for i, x := range pairs {
		if !bytes.Equal(got[int(x.Device)*4096:][:4096], want[i*4096:][:4096]) {
			t.Fatalf("device page %d has not what was copied there last", x.Device)
		}
	}
}

// While the queue's stream cannot be made to wait for a side stream, nothing is
// started.
func TestNothingOvertakesAFailedJoin(t *testing.T) {
	for _, w := range sideWays {
		for _, s := range []cuda.Symbol{cuda.SymEventRecord, cuda.SymStreamWaitEvent} {
			g, p := tappedGPU(t, w.options(t))
			r := newRig(t, g, 1<<20)
			fill(r.host.Bytes(), 5)
			want := bytes.Clone(r.host.Bytes()[100*4096 : 200*4096])
			if err := errors.Join(w.start(r, straight(0, 256)), wait(t, r.queue)); err != nil {
				t.Fatal(err)
			}
			hang(t, p.GPU, 1)
			fromJoin := map[cuda.Symbol]int{cuda.SymEventRecord: 2, cuda.SymStreamWaitEvent: p.sideStreams(t, w) + 1}[s]
			if s == cuda.SymEventRecord && w.path == copyeng.PathHybrid25 {
				fromJoin++ // the second marks the list of pages
			}
			o := newOrder(p.GPU)
			p.failNth(s, fromJoin, math.MaxInt, cuda.OutOfMemory)
			p.follow(o)
			for i, pairs := range [][]copyeng.Pair{straight(0, 100), straight(0, 100), straight(0, 1)} {
				before := started(p.GPU)
				if err := w.start(r, pairs); !errors.Is(err, cuda.OutOfMemory) {
					t.Fatalf("%s, %s: %v, want out of memory", w.path, s, err)
				}
				if i > 0 && started(p.GPU) > before {
					t.Errorf("%s, %s: something was started while the join fails", w.path, s)
				}
			}
			stillBusy(t, g, r.queue)
			p.set(o.answer)
			first := o.all()
			second := straight(0, 100)
			slices.Reverse(second)
			for i := range second {
				second[i].Host = uint32(100 + i)
			}
			if err := w.start(r, second); err != nil {
				t.Fatal(err)
			}
			if early := o.without(first); len(early) > 0 {
				t.Errorf("%s, %s: copies on streams %#x do not wait for all of the failed batch", w.path, s, early)
			}
			stillBusy(t, g, r.queue)
			p.Release()
			if err := wait(t, r.queue); err != nil {
				t.Fatal(err)
			}
			deviceHas(t, g, r.device, second, want)
		}
	}
}
