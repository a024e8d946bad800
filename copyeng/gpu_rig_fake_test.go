package copyeng_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/copyeng/copyfake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

// tap stands between package cuda and the fake, and can answer calls itself.
type tap struct {
	*cudafake.GPU
	answer atomic.Pointer[answer]
}

// answer is what a test says to a call; false leaves it to the fake. It is
// called by any goroutine, with no lock held, and may make calls itself.
type answer func(s cuda.Symbol, args []uintptr) (r cuda.Result, answered bool)

func (p *tap) Call(s cuda.Symbol, args []uintptr) cuda.Result {
	if a := p.answer.Load(); a != nil {
		if r, answered := (*a)(s, args); answered {
			return r
		}
	}
	return p.GPU.Call(s, args)
}

// set changes who answers; nil is the fake alone.
func (p *tap) set(a answer) {
	if a == nil {
		p.answer.Store(nil)
		return
	}
	p.answer.Store(&a)
}

// failNth lets the n-th call of s from now on fail with r, and those up to last.
func (p *tap) failNth(s cuda.Symbol, n, last int, r cuda.Result) {
	var k atomic.Int64
	p.set(func(c cuda.Symbol, _ []uintptr) (cuda.Result, bool) {
		if c != s {
			return cuda.Success, false
		}
		i := int(k.Add(1))
		return r, n <= i && i <= last
	})
}

// streams notes the streams that copies and kernels are put into, in order,
// while f runs.
func (p *tap) streams(f func()) (list []uintptr) {
	var mu sync.Mutex // protects list
	p.set(func(s cuda.Symbol, args []uintptr) (cuda.Result, bool) {
		if at, starts := streamArgument[s]; starts {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(list, args[at]) {
				list = append(list, args[at])
			}
		}
		return cuda.Success, false
	})
	f()
	p.set(nil)
	return list
}

// failDone lets a stream have an error: the next query that finds it done says
// so, once.
func (p *tap) failDone(stream uintptr, r cuda.Result) {
	var told atomic.Bool
	p.set(func(s cuda.Symbol, args []uintptr) (cuda.Result, bool) {
		if s != cuda.SymStreamQuery || args[0] != stream {
			return cuda.Success, false
		}
		got := p.GPU.Call(s, args)
		if got == cuda.Success && !told.Swap(true) {
			got = r
		}
		return got, true
	})
}

// fakeGPU opens the engine over a software GPU. What the fake sees go wrong
// that a driver would not report fails the test, as do leaks.
func fakeGPU(t *testing.T, opts copyeng.GPUOptions, fake ...cudafake.Option) (*copyeng.GPU, *cudafake.GPU) {
	t.Helper()
	g, p := tappedGPU(t, opts, fake...)
	return g, p.GPU
}

// tappedGPU is fakeGPU with a tap before it.
func tappedGPU(t *testing.T, opts copyeng.GPUOptions, fake ...cudafake.Option) (*copyeng.GPU, *tap) {
	t.Helper()
	f := cudafake.New(fake...)
	t.Logf("fake GPU, seed %d", f.Seed())
	copyfake.Register(f)
	p := &tap{GPU: f}
	d, err := cuda.OpenBackend(p)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := d.Device("0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := dev.Retain()
	if err != nil {
		t.Fatal(err)
	}
	g, err := copyeng.OpenGPU(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { putAway(t, g, f) })
	return g, p
}

// putAway closes everything, and looks for what stays.
func putAway(t *testing.T, g *copyeng.GPU, f *cudafake.GPU) {
	ctx := g.Context()
	lost := ctx.Err() != nil
	if err := g.Close(); err != nil && !lost {
		t.Errorf("close engine: %v", err)
	}
	// Before the context is closed, which would close what the engine forgot.
	if leaks := f.Leaks(); len(leaks) > 1 && !lost {
		t.Errorf("leaks of the engine: %v, want the context alone", leaks)
	}
	if err := ctx.Close(); err != nil && !lost {
		t.Errorf("close context: %v", err)
	}
	if leaks := f.Leaks(); len(leaks) > 0 {
		t.Errorf("leaks: %v", leaks)
	}
	if v := f.Violations(); len(v) > 0 && !lost {
		t.Errorf("violations: %v", v)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// rig is two spaces of one engine and a queue.
type rig struct {
	t            *testing.T
	host, device *copyeng.Space
	queue        copyeng.Queue
}

func newRig(t *testing.T, g *copyeng.GPU, size uint64) *rig {
	t.Helper()
	host, err := g.AllocateHost(size)
	if err != nil {
		t.Fatal(err)
	}
	device, err := g.Allocate(size)
	if err != nil {
		t.Fatal(err)
	}
	q, err := g.NewQueue()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if g.Context().Err() != nil {
			return
		}
		if err := errors.Join(q.Close(), host.Close(), device.Close()); err != nil {
			t.Error(err)
		}
	})
	return &rig{t, host, device, q}
}

func (r *rig) batch(dir copyeng.Direction, page int, pairs []copyeng.Pair) *copyeng.Batch {
	return &copyeng.Batch{Dir: dir, Host: r.host, Device: r.device, PageSize: page, Pairs: pairs}
}

func wait(t *testing.T, q copyeng.Queue) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return q.Wait(ctx)
}

// hang lets the next n copies or kernels hang, until Release or the test's end:
// memory cannot be freed under them.
func hang(t *testing.T, f *cudafake.GPU, n int) {
	t.Helper()
	for range n {
		f.Hang()
	}
	t.Cleanup(f.Release)
}

// waitBriefly is for copies that hang: it cannot be too short for them.
func waitBriefly(t *testing.T, q copyeng.Queue) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	return q.Wait(ctx)
}

// within is what comes out of a channel, in time that is enough for all but
// what hangs.
func within[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: nothing for 20 s", what)
	}
	return v
}

// until waits for a condition that comes true by itself.
func until(t *testing.T, what string, true func() bool) {
	t.Helper()
	for start := time.Now(); !true(); time.Sleep(time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

func shuffled(n int, seed uint64) []copyeng.Pair {
	rng := rand.New(rand.NewPCG(seed, 7))
	h, d := rng.Perm(n), rng.Perm(n)
	p := make([]copyeng.Pair, n)
	for i := range p {
		p[i] = copyeng.Pair{Host: uint32(h[i]), Device: uint32(d[i])}
	}
	return p
}

func fill(b []byte, seed uint64) {
	rng := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1})
	_, _ = rng.Read(b)
}

// exchanging is the options of an engine whose curves take one path for all
// exchanges.
func exchanging(t *testing.T, p copyeng.Path) copyeng.GPUOptions {
	t.Helper()
	cal, err := copyeng.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	one := copyeng.Curve{Direction: "both-ways", Page: 4096, Pages: []int{1}, Micros: map[copyeng.Path][]float64{p: {1}}}
	curves := []copyeng.Curve{one}
	for _, c := range cal.Curves {
		if c.Direction != one.Direction {
			curves = append(curves, c)
		}
	}
	cal.Curves = curves
	return copyeng.GPUOptions{Calibration: cal}
}
