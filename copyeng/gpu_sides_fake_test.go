package copyeng_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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

// Each of the streams is asked, by Wait and by Close.
func TestErrorOfEachStream(t *testing.T) {
	for _, w := range sideWays {
		g, p := tappedGPU(t, w.options(t))
		r := newRig(t, g, 1<<20)
		var streams []uintptr
		begin := func(q copyeng.Queue) {
			r.queue = q
			streams = p.streams(func() {
				if err := w.start(r, straight(0, 120)); err != nil {
					t.Fatal(err)
				}
			})
		}
		begin(r.queue)
		if want := p.sideStreams(t, w) + 1; len(streams) != want {
			t.Errorf("%s: %d streams, want %d", w.path, len(streams), want)
		}
		for i := range streams {
			q, err := g.NewQueue()
			if err != nil {
				t.Fatal(err)
			}
			begin(q)
			p.failDone(streams[i], cuda.OutOfMemory)
			if err := wait(t, q); !errors.Is(err, cuda.OutOfMemory) {
				t.Errorf("%s: wait: %v, want the error of stream %d", w.path, err, i)
			}
			if err := wait(t, q); err != nil {
				t.Errorf("%s: once more: %v", w.path, err)
			}
			begin(q)
			p.failDone(streams[i], cuda.OutOfMemory)
			if err := q.Close(); !errors.Is(err, cuda.OutOfMemory) {
				t.Errorf("%s: close: %v, want the error of stream %d", w.path, err, i)
			}
			p.set(nil)
		}
	}
}

// A batch that is started while a wait goes on, over more streams than those it
// looks at, has its errors told by the next.
func TestErrorOfABatchBesideAWait(t *testing.T) {
	opts := exchanging(t, copyeng.PathTwoBatches)
	opts.Force = copyeng.PathBatch2
	g, p := tappedGPU(t, opts)
	r := newRig(t, g, 1<<20)
	if _, err := r.queue.Copy(r.batch(copyeng.ToDevice, 4096, straight(0, 20))); err != nil {
		t.Fatal(err)
	}
	var streams []uintptr
	var once sync.Once
	p.set(func(s cuda.Symbol, args []uintptr) (cuda.Result, bool) {
		if s != cuda.SymStreamQuery {
			return cuda.Success, false
		}
		got := p.GPU.Call(s, args)
		if got == cuda.Success {
			once.Do(func() {
				done := make(chan []uintptr)
				go func() {
					done <- p.streams(func() {
						if err := (way{copyeng.PathTwoBatches, true}).start(r, straight(0, 120)); err != nil {
							t.Error(err)
						}
					})
				}()
				streams = <-done
			})
		}
		return got, true
	})
	if err := wait(t, r.queue); err != nil {
		t.Fatal(err)
	}
	if len(streams) != 8 {
		t.Fatalf("an exchange over %d streams", len(streams))
	}
	for _, s := range streams {
		p.failDone(s, cuda.OutOfMemory)
		if err := wait(t, r.queue); !errors.Is(err, cuda.OutOfMemory) {
			t.Errorf("%v, want the error of stream %#x", err, s)
		}
		if err := (way{copyeng.PathTwoBatches, true}).start(r, straight(0, 120)); err != nil {
			t.Fatal(err)
		}
	}
}

// An error of a stream that is not done does not end the wait for it, and is
// left to the one that sees the end.
func TestWaitGoesOnAfterAnError(t *testing.T) {
	g, f := fakeGPU(t, copyeng.GPUOptions{Force: copyeng.PathMemcpy})
	r := newRig(t, g, 1<<20)
	for what, call := range map[string]func() error{
		"wait": func() error { return waitBriefly(t, r.queue) },
		"close": func() error {
			g.SetPatience(10 * time.Millisecond)
			defer g.SetPatience(20 * time.Second)
			return r.queue.Close()
		},
	} {
		hang(t, f, 1)
		if _, err := r.queue.Copy(r.batch(copyeng.ToDevice, 4096, straight(0, 10))); err != nil {
			t.Fatal(err)
		}
		f.FailNext(cuda.SymStreamQuery, cuda.OutOfMemory, 1)
		if err := call(); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, cuda.OutOfMemory) {
			t.Fatalf("%s: %v, want the deadline alone, as a copy hangs", what, err)
		}
		f.Release()
		if err := wait(t, r.queue); !errors.Is(err, cuda.OutOfMemory) {
			t.Errorf("wait after %s: %v, want the error that it left", what, err)
		}
		if err := wait(t, r.queue); err != nil {
			t.Error(err)
		}
	}
}
