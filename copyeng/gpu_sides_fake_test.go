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

// way is a path of batches, or of exchanges.
type way struct {
	path     copyeng.Path
	exchange bool
}

// sideWays are those that use more than one stream.
var sideWays = []way{
	{copyeng.PathBatch2, false}, {copyeng.PathBatch4, false}, {copyeng.PathHybrid25, false}, {copyeng.PathHybrid50, false},
	{copyeng.PathTwoBatches, true},
}

func (w way) options(t *testing.T) copyeng.GPUOptions {
	if w.exchange {
		return exchanging(t, w.path)
	}
	return copyeng.GPUOptions{Force: w.path}
}

// start starts pages of 4 KiB to the device. An exchange brings pages 200 to
// 239 back besides.
func (w way) start(r *rig, pairs []copyeng.Pair) error {
	in := r.batch(copyeng.ToDevice, 4096, pairs)
	if !w.exchange {
		_, err := r.queue.Copy(in)
		return err
	}
	c, err := r.queue.Exchange(in, r.batch(copyeng.ToHost, 4096, straight(200, 40)))
	if c.Path != w.path {
		r.t.Errorf("an exchange went by %s, want %s", c.Path, w.path)
	}
	return err
}

// straight pairs n pages with themselves.
func straight(from, n uint32) []copyeng.Pair {
	p := make([]copyeng.Pair, n)
	for i := range p {
		p[i] = copyeng.Pair{Host: from + uint32(i), Device: from + uint32(i)}
	}
	return p
}

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
	fill(r.host.Bytes(), uint64(k))
	want := bytes.Clone(r.host.Bytes()[100*4096 : 200*4096])
	// All pages, so that events have been used and say that they are reached.
	if err := errors.Join(w.start(r, straight(0, 256)), wait(t, r.queue)); err != nil {
		t.Fatal(err)
	}
	before := started(p.GPU)
	hang(t, p.GPU, 1)
	p.failNth(s, k, k, cuda.OutOfMemory)
	if err := w.start(r, straight(0, 100)); !errors.Is(err, cuda.OutOfMemory) {
		t.Fatalf("%v, want out of memory", err)
	}
	p.set(nil)
	if started(p.GPU) > before {
		stillBusy(t, g, r.queue)
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
	stillBusy(t, g, r.queue)
	p.Release()
	if err := wait(t, r.queue); err != nil {
		t.Fatal(err)
	}
	deviceHas(t, g, r.device, second, want)
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
			p.failNth(s, fromJoin, math.MaxInt, cuda.OutOfMemory)
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
			p.set(nil)
			second := straight(0, 100)
			slices.Reverse(second)
			for i := range second {
				second[i].Host = uint32(100 + i)
			}
			if err := w.start(r, second); err != nil {
				t.Fatal(err)
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

// sideStreams is how many streams a way has beside the queue's.
func (p *tap) sideStreams(t *testing.T, w way) int {
	n, ok := map[copyeng.Path]int{copyeng.PathBatch2: 1, copyeng.PathBatch4: 3, copyeng.PathHybrid25: 1, copyeng.PathHybrid50: 1, copyeng.PathTwoBatches: 7}[w.path]
	if !ok {
		t.Fatalf("no side streams of %s", w.path)
	}
	return n
}

// An error that leaves the context as it is stays with the stream that it was
// in: Wait and Close ask each of them. By the seed it hits other streams.
func TestErrorOnASideStream(t *testing.T) {
	ways := append(slices.Clone(sideWays), way{copyeng.PathExchange, true}, way{copyeng.PathSequential, true},
		way{copyeng.PathMemcpy, false}, way{copyeng.PathBatch, false}, way{copyeng.PathZeroCopy, false})
	for _, w := range ways {
		for seed := range uint64(5) {
			t.Run(fmt.Sprintf("%s/%d", w.path, seed), func(t *testing.T) {
				t.Parallel()
				g, f := fakeGPU(t, w.options(t), cudafake.Seed(seed))
				r := newRig(t, g, 1<<20)
				failAsync(t, w, r, f)
			})
		}
	}
}

func failAsync(t *testing.T, w way, r *rig, f *cudafake.GPU) {
	begin := func() {
		f.FailAsync(cuda.OutOfMemory)
		if err := w.start(r, straight(0, 120)); err != nil {
			t.Fatal(err)
		}
	}
	once := func(what string) {
		t.Helper()
		if err := wait(t, r.queue); !errors.Is(err, cuda.OutOfMemory) {
			t.Errorf("%s: %v, want out of memory", what, err)
		}
		if err := wait(t, r.queue); err != nil {
			t.Errorf("%s, once more: %v", what, err)
		}
	}
	begin()
	once("wait")
	// A wait that gives up leaves the error to the one that sees the end.
	hang(t, f, 1)
	begin()
	if err := waitBriefly(t, r.queue); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, cuda.OutOfMemory) {
		t.Errorf("wait for what hangs: %v, want the deadline alone", err)
	}
	f.Release()
	once("wait after one that gave up")
	begin()
	if err := r.queue.Close(); !errors.Is(err, cuda.OutOfMemory) {
		t.Errorf("close: %v, want out of memory", err)
	}
	if err := r.queue.Close(); err != nil {
		t.Errorf("closed once more: %v", err)
	}
}

// An error that a stream is asked for in vain does not end the wait for it.
func TestWaitGoesOnAfterAnError(t *testing.T) {
	g, f := fakeGPU(t, copyeng.GPUOptions{Force: copyeng.PathBatch4})
	r := newRig(t, g, 1<<20)
	hang(t, f, 1)
	if _, err := r.queue.Copy(r.batch(copyeng.ToDevice, 4096, straight(0, 100))); err != nil {
		t.Fatal(err)
	}
	f.FailNext(cuda.SymStreamQuery, cuda.OutOfMemory, 1)
	stillBusy(t, g, r.queue)
	f.FailNext(cuda.SymStreamQuery, cuda.OutOfMemory, 1)
	g.SetPatience(10 * time.Millisecond)
	if err := r.queue.Close(); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("close: %v, want the deadline, as a copy hangs", err)
	}
	g.SetPatience(20 * time.Second)
	f.Release()
	if err := wait(t, r.queue); !errors.Is(err, cuda.OutOfMemory) {
		t.Errorf("wait: %v, want the errors that the waits before left", err)
	}
	if err := wait(t, r.queue); err != nil {
		t.Error(err)
	}
}
