package copyeng_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

// ringRoom is how many pairs the ring of a queue holds.
const ringRoom = 4 * 16384

// gated lets kernels copy nothing, one at a time, and looks whether each finds
// the lists that it was launched with.
type gated struct {
	t    *testing.T
	pass chan struct{} // a token lets one kernel end

	mu   sync.Mutex // protects what follows
	want [][]copyeng.Pair
	ran  int
}

// gate puts g before the kernels that read lists.
func gate(t *testing.T, f *cudafake.GPU) *gated {
	g := &gated{t: t, pass: make(chan struct{}, 1<<20)}
	kernel := func(lists ...[2]int) cudafake.KernelFunc { // offsets of a list's address and length
		return func(l *cudafake.Launch) error {
			select {
			case <-g.pass:
			case <-l.Done():
				return nil
			}
			var got []byte
			for _, at := range lists {
				list, err := l.Memory(l.U64(at[0]), 8*uint64(l.U32(at[1])))
				if err != nil {
					return err
				}
				got = append(got, list...)
			}
			g.check(got)
			return nil
		}
	}
	f.RegisterKernel("copy_list", kernel([2]int{16, 24}))
	f.RegisterKernel("exchange", kernel([2]int{16, 24}, [2]int{48, 56}))
	t.Cleanup(func() { g.open(1 << 19) })
	return g
}

// open lets n kernels through.
func (g *gated) open(n int) {
	for range n {
		g.pass <- struct{}{}
	}
}

// launching notes the lists of the next kernel.
func (g *gated) launching(lists ...[]copyeng.Pair) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.want = append(g.want, slices.Concat(lists...))
}

// failed forgets the last, which was not launched.
func (g *gated) failed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.want = g.want[:len(g.want)-1]
}

func (g *gated) check(list []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	want := g.want[g.ran]
	g.ran++
	if len(list) != 8*len(want) {
		g.t.Errorf("kernel %d reads %d pairs, want %d", g.ran, len(list)/8, len(want))
		return
	}
	for i, x := range want {
		if got := pairAt(list, i); got != x {
			g.t.Errorf("kernel %d of %d pages: pair %d is %v, want %v", g.ran, len(want), i, got, x)
			return
		}
	}
}

func pairAt(list []byte, i int) copyeng.Pair {
	word := func(at int) (v uint32) {
		for k := range 4 {
			v |= uint32(list[at+k]) << (8 * k)
		}
		return v
	}
	return copyeng.Pair{Host: word(8 * i), Device: word(8*i + 4)}
}

// ringRig is an engine with gated kernels and a queue.
type ringRig struct {
	*rig
	gpu   *copyeng.GPU
	tap   *tap
	gated *gated
	rng   *rand.Rand

	stream *cuda.Stream  // of an impatient rig
	marks  []*cuda.Event // in it, after each launch
}

func newRingRig(t *testing.T, seed uint64) *ringRig {
	opts := exchanging(t, copyeng.PathExchange)
	opts.Force = copyeng.PathZeroCopy
	g, p := tappedGPU(t, opts)
	t.Logf("lists by seed %d", seed)
	r := &ringRig{gpu: g, tap: p, rng: rand.New(rand.NewPCG(seed, 3))}
	r.rig = newRig(t, g, 16384*512)
	r.gated = gate(t, p.GPU)
	return r
}

// list is n pairs that hardly any other list has.
func (r *ringRig) list(n int) []copyeng.Pair {
	p := make([]copyeng.Pair, n)
	for i := range p {
		p[i] = copyeng.Pair{Host: r.rng.Uint32N(16384), Device: r.rng.Uint32N(16384)}
	}
	return p
}

// copy starts one kernel.
func (r *ringRig) copy(n int) error {
	list := r.list(n)
	r.gated.launching(list)
	_, err := r.queue.Copy(r.batch(copyeng.ToDevice, 512, list))
	return r.launched(err)
}

// exchange starts one kernel with two lists.
func (r *ringRig) exchange(in, out int) error {
	a, b := r.list(in), r.list(out)
	r.gated.launching(a, b)
	_, err := r.queue.Exchange(r.batch(copyeng.ToDevice, 512, a), r.batch(copyeng.ToHost, 512, b))
	return r.launched(err)
}

func (r *ringRig) launched(err error) error {
	if err != nil {
		r.gated.failed()
		return err
	}
	if r.stream == nil {
		return nil
	}
	e, err := r.gpu.Context().NewEvent(false)
	if err != nil {
		return err
	}
	r.marks = append(r.marks, e)
	return e.Record(r.stream)
}

// ended waits until the n-th launch of an impatient rig is done, and the ring
// can see it.
func (r *ringRig) ended(n int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	if err := r.marks[n-1].Wait(ctx); err != nil {
		r.t.Fatal(err)
	}
}

// startAll runs calls that start kernels, and lets a kernel through only when
// one of them waits for room: so the ring is as full as can be all the time.
func (r *ringRig) startAll(calls []func() error) {
	r.t.Helper()
	done := make(chan error, 1)
	go func() {
		for i, call := range calls {
			if err := call(); err != nil {
				done <- fmt.Errorf("launch %d: %w", i+1, err)
				return
			}
		}
		done <- nil
	}()
	seen := r.tap.Calls(cuda.SymEventQuery)
	launched := r.tap.Calls(cuda.SymLaunchKernel)
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); {
		select {
		case err := <-done:
			if err != nil {
				r.t.Error(err)
			}
			r.gated.open(len(calls))
			if err := wait(r.t, r.queue); err != nil {
				r.t.Error(err)
			}
			if n := r.gated.done(); n != len(r.gated.want) {
				r.t.Errorf("%d kernels ran, want %d", n, len(r.gated.want))
			}
			return
		case <-time.After(50 * time.Microsecond):
		}
		now := r.tap.Calls(cuda.SymLaunchKernel)
		if now != launched { // not waiting
			launched, seen = now, r.tap.Calls(cuda.SymEventQuery)
		} else if r.tap.Calls(cuda.SymEventQuery) > seen+30 {
			r.gated.open(1)
			seen = r.tap.Calls(cuda.SymEventQuery)
		}
	}
	r.t.Fatal("the launches do not end")
}

// startsWithoutWaiting starts launches for which the ring has room: they must
// not wait, which would fail soon.
func (r *ringRig) startsWithoutWaiting(lengths ...int) {
	r.t.Helper()
	for i, n := range lengths {
		if err := r.copy(n); err != nil {
			r.t.Fatalf("launch %d of %v: %v", i+1, lengths, err)
		}
	}
}

// impatientRig is a rig whose queue gives up waiting for room at once.
func impatientRig(t *testing.T) *ringRig {
	r := newRingRig(t, 1)
	var err error
	if r.stream, err = r.gpu.Context().NewStream(); err != nil {
		t.Fatal(err)
	}
	r.gpu.SetPatience(time.Millisecond)
	q, err := r.gpu.WrapQueue(r.stream)
	if err != nil {
		t.Fatal(err)
	}
	r.gpu.SetPatience(20 * time.Second)
	r.queue = q
	t.Cleanup(func() {
		r.gated.open(100)
		if err := errors.Join(q.Close(), r.stream.Close()); err != nil {
			t.Error(err)
		}
		for _, e := range r.marks {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return r
}
