package copyeng_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
)

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
			r.ended(1)
			r.tap.FailNext(cuda.SymLaunchKernel, cuda.LaunchOutOfResources, 1)
			if err := fail(r); !errors.Is(err, cuda.LaunchOutOfResources) {
				t.Fatalf("%v, want the driver's refusal", err)
			}
			r.startsWithoutWaiting(6000, 16000)
			r.gated.open(3)
			r.ended(4)
			// Behind those two, up to the first of them, and no further.
			r.startsWithoutWaiting(16384, 16384)
			if err := r.copy(16384); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want the deadline, as the ring is full", err)
			}
			r.gated.open(4)
			if err := wait(t, r.queue); err != nil {
				t.Fatal(err)
			}
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
