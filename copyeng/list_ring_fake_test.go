package copyeng_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	if err != nil {
		r.gated.failed()
	}
	return err
}

// exchange starts one kernel with two lists.
func (r *ringRig) exchange(in, out int) error {
	a, b := r.list(in), r.list(out)
	r.gated.launching(a, b)
	_, err := r.queue.Exchange(r.batch(copyeng.ToDevice, 512, a), r.batch(copyeng.ToHost, 512, b))
	if err != nil {
		r.gated.failed()
	}
	return err
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

// Lists of all lengths, one or two to a kernel, go round the ring many times;
// each kernel finds its own.
func TestListsStayUntilTheyAreRead(t *testing.T) {
	lengths := map[string]func(rng *rand.Rand) int{
		"largest": func(*rand.Rand) int { return 16384 },
		"15000":   func(*rand.Rand) int { return 15000 },
		"any":     func(rng *rand.Rand) int { return 61 + rng.IntN(16384-60) },
		"mixed":   func(rng *rand.Rand) int { return 61 + rng.IntN(1<<(6+rng.IntN(8))) },
	}
	for name, length := range lengths {
		t.Run(name, func(t *testing.T) {
			r := newRingRig(t, rand.Uint64())
			var calls []func() error
			for total := 0; total < 6*ringRoom; {
				n, m := length(r.rng), length(r.rng)
				if total += n; len(calls)%3 < 2 {
					calls = append(calls, func() error { return r.copy(n) })
					continue
				}
				total += m
				calls = append(calls, func() error { return r.exchange(n, m) })
			}
			r.startAll(calls)
		})
	}
}

// Seven batches of 15,000 pages, of which the ring holds four, behind a kernel
// that hangs: all bytes are those of their own lists.
func TestListsBehindAHangingKernel(t *testing.T) {
	g, f := fakeGPU(t, copyeng.GPUOptions{Force: copyeng.PathZeroCopy})
	const page, n, batches = 512, 15000, 7
	r := newRig(t, g, batches*n*page)
	host := r.host.Bytes()
	fill(host, 21)
	hang(t, f, 1)
	lists := make([][]copyeng.Pair, batches)
	for k := range lists {
		lists[k] = shuffled(batches*n, uint64(k))[:n]
		for i := range lists[k] { // each batch fills its own part of the device
			lists[k][i].Device = uint32(k*n + i)
		}
	}
	started := make(chan error, batches)
	go func() {
		for _, list := range lists {
			_, err := r.queue.Copy(r.batch(copyeng.ToDevice, page, list))
			started <- err
		}
	}()
	for k := range batches {
		if k == 4 { // this one waits for room
			queries := f.Calls(cuda.SymEventQuery)
			until(t, "a copy waits for the ring", func() bool { return f.Calls(cuda.SymEventQuery) > queries+100 })
			select {
			case err := <-started:
				t.Errorf("more batches than the ring holds were started: %v", err)
			case <-time.After(10 * time.Millisecond):
			}
			f.Release()
		}
		if err := within(t, "copy", started); err != nil {
			t.Fatal(err)
		}
	}
	if err := wait(t, r.queue); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, r.device.Size())
	if err := (plain{g.Context()}).read(r.device, 0, got); err != nil {
		t.Fatal(err)
	}
	for k, list := range lists {
		for _, x := range list {
			if !bytes.Equal(got[int(x.Device)*page:][:page], host[int(x.Host)*page:][:page]) {
				t.Fatalf("batch %d: device page %d has not host page %d", k, x.Device, x.Host)
			}
		}
	}
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
	q := r.queue
	r.gpu.SetPatience(time.Millisecond)
	var err error
	if r.queue, err = r.gpu.NewQueue(); err != nil {
		t.Fatal(err)
	}
	r.gpu.SetPatience(20 * time.Second)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	q = r.queue
	t.Cleanup(func() {
		r.gated.open(100)
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Launches that fail take nothing of the ring with them.
func TestRingKeepsItsRoom(t *testing.T) {
	const whole = 16384
	for name, fail := range map[string]func(r *ringRig){
		"launch": func(r *ringRig) {
			r.tap.FailNext(cuda.SymLaunchKernel, cuda.LaunchOutOfResources, 6)
			for range 6 {
				if err := r.copy(whole); !errors.Is(err, cuda.LaunchOutOfResources) {
					r.t.Fatalf("%v, want the driver's refusal", err)
				}
			}
		},
		"exchange": func(r *ringRig) {
			r.tap.FailNext(cuda.SymLaunchKernel, cuda.LaunchOutOfResources, 6)
			for range 6 {
				if err := r.exchange(whole, whole); !errors.Is(err, cuda.LaunchOutOfResources) {
					r.t.Fatalf("%v, want the driver's refusal", err)
				}
			}
		},
		"event": func(r *ringRig) {
			r.tap.FailNext(cuda.SymEventCreate, cuda.OutOfMemory, 6)
			before := r.tap.Calls(cuda.SymLaunchKernel)
			for range 6 {
				if err := r.copy(whole); !errors.Is(err, cuda.OutOfMemory) {
					r.t.Fatalf("%v, want out of memory", err)
				}
			}
			if r.tap.Calls(cuda.SymLaunchKernel) != before {
				r.t.Error("a kernel was launched without an event for its list")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := impatientRig(t)
			fail(r)
			r.startsWithoutWaiting(whole, whole, whole, whole)
			if err := r.copy(61); err == nil {
				t.Error("the ring holds more than its lists")
			}
			r.gated.open(4)
			if err := wait(t, r.queue); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Nor what they have skipped at the ring's end, to begin at its start.
func TestRingKeepsItsEnd(t *testing.T) {
	for name, fail := range map[string]func(r *ringRig) error{
		"launch":   func(r *ringRig) error { return r.copy(16000) },
		"exchange": func(r *ringRig) error { return r.exchange(8000, 8000) },
	} {
		t.Run(name, func(t *testing.T) {
			r := impatientRig(t)
			r.startsWithoutWaiting(16384, 16384, 16384, 10000) // and 6,384 are left
			r.gated.open(1)
			until(t, "the first kernel ends", func() bool { return r.gated.done() == 1 })
			r.tap.FailNext(cuda.SymLaunchKernel, cuda.LaunchOutOfResources, 1)
			var err error
			until(t, "the first kernel's event is reached", func() bool {
				err = fail(r)
				return !errors.Is(err, context.DeadlineExceeded)
			})
			if !errors.Is(err, cuda.LaunchOutOfResources) {
				t.Fatalf("%v, want the driver's refusal", err)
			}
			r.startsWithoutWaiting(6000, 16000)
		})
	}
}

func (g *gated) done() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ran
}

// An exchange whose second list finds no room gives the first one's back.
func TestExchangeWithoutRoomForItsSecondList(t *testing.T) {
	r := impatientRig(t)
	r.startsWithoutWaiting(16384, 16384, 16384)
	for range 3 {
		if err := r.exchange(16384, 16384); err == nil || !strings.Contains(err.Error(), "exchange") {
			t.Fatalf("exchange: %v, want an error, as the ring is full", err)
		}
	}
	r.startsWithoutWaiting(16384)
	r.gated.open(4)
	if err := wait(t, r.queue); err != nil {
		t.Fatal(err)
	}
	if err := r.exchange(16384, 16384); err != nil {
		t.Error(err)
	}
	r.gated.open(1)
	if err := wait(t, r.queue); err != nil {
		t.Fatal(err)
	}
}

// A list whose event cannot be recorded is not free before its kernel is done,
// although the event, from its last use, says so.
func TestListWhoseEventIsNotRecorded(t *testing.T) {
	r := impatientRig(t)
	r.startsWithoutWaiting(16384, 16384, 16384)
	r.gated.open(3)
	if err := wait(t, r.queue); err != nil {
		t.Fatal(err)
	}
	r.startsWithoutWaiting(100, 100) // to have the events of the three reused
	r.gated.open(2)
	if err := wait(t, r.queue); err != nil {
		t.Fatal(err)
	}
	r.tap.FailNext(cuda.SymEventRecord, cuda.OutOfMemory, 1)
	list := r.list(16000)
	r.gated.launching(list) // it runs all the same
	if _, err := r.queue.Copy(r.batch(copyeng.ToDevice, 512, list)); !errors.Is(err, cuda.OutOfMemory) {
		t.Fatalf("%v, want out of memory", err)
	}
	held := 0
	for range 8 {
		if r.copy(16000) == nil {
			held++
		}
	}
	if held > 3 {
		t.Errorf("%d more lists in the ring", held)
	}
	r.gated.open(9)
	if err := wait(t, r.queue); err != nil {
		t.Fatal(err)
	}
	r.startsWithoutWaiting(16384, 16384, 16384)
	r.gated.open(3)
	if err := wait(t, r.queue); err != nil {
		t.Fatal(err)
	}
}

// An error that an event of an earlier kernel has is left to Wait, and is not
// the later copy's.
func TestErrorOfAnEarlierKernel(t *testing.T) {
	g, f := fakeGPU(t, copyeng.GPUOptions{Force: copyeng.PathZeroCopy})
	r := newRig(t, g, 1<<20)
	start := func() error {
		_, err := r.queue.Copy(r.batch(copyeng.ToDevice, 4096, straight(0, 100)))
		return err
	}
	if err := errors.Join(start(), start()); err != nil {
		t.Fatal(err)
	}
	f.FailNext(cuda.SymEventQuery, cuda.OutOfMemory, 1)
	if err := start(); err != nil {
		t.Errorf("%v is an earlier copy's", err)
	}
	if err := wait(t, r.queue); !errors.Is(err, cuda.OutOfMemory) {
		t.Errorf("wait: %v, want out of memory", err)
	}
	if err := wait(t, r.queue); err != nil {
		t.Error(err)
	}
	f.FailNext(cuda.SymEventQuery, cuda.OutOfMemory, 1)
	if err := errors.Join(start(), start()); err != nil {
		t.Error(err)
	}
	if err := r.queue.Close(); !errors.Is(err, cuda.OutOfMemory) {
		t.Errorf("close: %v, want out of memory", err)
	}
}
