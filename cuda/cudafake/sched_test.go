package cudafake

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tritier/tritier/cuda"
)

// interleaving runs eight kernels on each of two streams and gives the order.
func interleaving(t *testing.T, seed uint64) []uint64 {
	r := newRaw(t, Seed(seed), Lag(-1))
	k, ran := r.tracer()
	a, b := r.stream(), r.stream()
	for i := range uint64(8) {
		r.launch(k, a, i)
		r.launch(k, b, 100+i)
	}
	r.ok(cuda.SymCtxSynchronize)
	r.clean()
	return ran()
}

// TestStreamsInterleaveBySeed checks that each stream keeps its order, that
// seeds differ and that one seed repeats.
func TestStreamsInterleaveBySeed(t *testing.T) {
	orders := make(map[string]bool)
	for seed := range uint64(8) {
		order := interleaving(t, seed)
		orders[fmt.Sprint(order)] = true
		for _, base := range []uint64{0, 100} {
			own := slices.DeleteFunc(slices.Clone(order), func(v uint64) bool { return v-base >= 8 })
			if len(own) != 8 || !slices.IsSorted(own) {
				t.Errorf("seed %d: a stream ran in the order %v", seed, own)
			}
		}
	}
	if len(orders) < 4 {
		t.Errorf("8 seeds give %d orders", len(orders))
	}
	if a, b := interleaving(t, 5), interleaving(t, 5); !slices.Equal(a, b) {
		t.Errorf("one seed gives %v and %v", a, b)
	}
}

// TestEventsOrderStreams hands a buffer from one stream to another, with and
// without the wait for an event: the missing wait must show for some seed.
func TestEventsOrderStreams(t *testing.T) {
	stale := map[bool]int{}
	for _, wait := range []bool{true, false} {
		for seed := range uint64(16) {
			r := newRaw(t, Seed(seed))
			a, b, e := r.stream(), r.stream(), r.event()
			d, out := r.alloc(4096), r.pinned(4096)
			r.ok(cuda.SymMemsetD8Async, d, 1, 4096, a)
			r.ok(cuda.SymEventRecord, e, a)
			if wait {
				r.ok(cuda.SymStreamWaitEvent, b, e, 0)
			}
			r.ok(cuda.SymMemcpyDtoHAsync, addr(out), d, 4096, b)
			r.ok(cuda.SymCtxSynchronize)
			if out[0] != 1 {
				stale[wait]++
			}
			r.clean()
		}
	}
	if stale[true] != 0 || stale[false] == 0 {
		t.Errorf("stale data %d times with the wait, %d without; want 0 and some", stale[true], stale[false])
	}
}

// TestLag leaves work to itself for less than its lag.
func TestLag(t *testing.T) {
	r := newRaw(t, Lag(time.Hour))
	s, d := r.stream(), r.alloc(16)
	r.ok(cuda.SymMemsetD8Async, d, 1, 16, s)
	time.Sleep(5 * time.Millisecond)
	r.g.mu.Lock()
	early := len(r.g.streamsOf(r.g.devices[0].primary)[1].queue) == 0
	r.g.mu.Unlock()
	if early {
		t.Error("the work started before its time")
	}
	r.sync(s)
	if view(d, 1)[0] != 1 {
		t.Error("the work was not done when asked for")
	}
}

// TestTornCopies overlaps two large copies to one place: both leave traces.
func TestTornCopies(t *testing.T) {
	const n = 8 * piece
	torn := 0
	for seed := range uint64(8) {
		r := newRaw(t, Seed(seed), Lag(-1))
		a, b, d := r.stream(), r.stream(), r.alloc(n)
		r.ok(cuda.SymMemsetD8Async, d, 1, n, a)
		r.ok(cuda.SymMemsetD8Async, d, 2, n, b)
		r.ok(cuda.SymCtxSynchronize)
		if m := view(d, n); bytes.Contains(m, []byte{1, 2}) || bytes.Contains(m, []byte{2, 1}) {
			torn++
		}
	}
	if torn == 0 {
		t.Error("two unordered memsets never mixed")
	}
}

// TestDefaultStreams checks the order of the legacy default stream with
// blocking streams, and that others are not in it.
func TestDefaultStreams(t *testing.T) {
	for _, row := range []struct {
		name    string
		flags   uintptr
		null    uintptr
		ordered bool
	}{
		{"blocking and null", 0, nullStream, true},
		{"blocking and legacy", 0, legacyStream, true},
		{"non-blocking and null", 1, nullStream, false},
		{"blocking and the thread's", 0, perThreadStream, false},
	} {
		disorder := 0
		for seed := range uint64(16) {
			r := newRaw(t, Seed(seed), Lag(-1))
			k, ran := r.tracer()
			s := r.out(cuda.SymStreamCreateWithPriority, row.flags, 0)
			for i, on := range []uintptr{s, row.null, s, row.null, s} {
				r.launch(k, on, uint64(i))
			}
			r.sync(row.null)
			r.sync(s)
			if !slices.IsSorted(ran()) {
				disorder++
			}
		}
		if (disorder == 0) != row.ordered {
			t.Errorf("%s: out of order for %d of 16 seeds", row.name, disorder)
		}
	}
}

// TestQueriesOfTheDefaultStream sees blocking streams through the default one.
func TestQueriesOfTheDefaultStream(t *testing.T) {
	r := newRaw(t, Lag(-1))
	s, d := r.out(cuda.SymStreamCreateWithPriority, 0, 0), r.alloc(16)
	r.ok(cuda.SymMemsetD8Async, d, 1, 16, s)
	r.is(cuda.NotReady, cuda.SymStreamQuery, 0)
	r.sync(0)
	r.ok(cuda.SymStreamQuery, s)
	r.is(cuda.InvalidHandle, cuda.SymStreamDestroy, 0)
	other := r.stream()
	r.g.Hang()
	r.ok(cuda.SymMemsetD8Async, d, 2, 16, other)
	r.is(cuda.NotReady, cuda.SymStreamQuery, other)
	for r.g.Hanging() == 0 {
		runtime.Gosched()
	}
	r.ok(cuda.SymMemsetD8Async, d, 3, 16, 0)
	r.sync(0) // a non-blocking stream does not hold it up
	r.g.Release()
	r.is(cuda.InvalidValue, cuda.SymStreamCreateWithPriority, newCell().at(), 4, 0)
}

// TestCallsThatWait checks which calls wait for the context's work, as seen on
// an H200, and which do not.
func TestCallsThatWait(t *testing.T) {
	r := newRaw(t)
	s, d := r.stream(), r.alloc(64)
	m := addr(r.pages(4096))
	r.ok(cuda.SymMemHostRegister, m, 4096, 3)
	k := r.kernel("k")
	f, _ := object[*function](r.g, k)
	spare, host, other, e := r.alloc(64), addr(r.pinned(64)), r.stream(), r.event()
	busy := func() {
		r.g.Hang()
		r.ok(cuda.SymMemsetD8Async, d, 1, 64, s)
	}
	for _, row := range []struct {
		waits bool
		call  cuda.Symbol
		args  []uintptr
	}{
		{true, cuda.SymMemFree, []uintptr{spare}},
		{true, cuda.SymMemFreeHost, []uintptr{host}},
		{true, cuda.SymMemHostUnregister, []uintptr{m}},
		{true, cuda.SymModuleUnload, []uintptr{f.module.handle}},
		{true, cuda.SymCtxSynchronize, nil},
		{true, cuda.SymStreamSynchronize, []uintptr{s}},
		{false, cuda.SymStreamSynchronize, []uintptr{other}},
		{false, cuda.SymMemAlloc, []uintptr{newCell().at(), 64}},
		{false, cuda.SymMemHostAlloc, []uintptr{newCell().at(), 64, 3}},
		{false, cuda.SymEventRecord, []uintptr{e, s}},
		{false, cuda.SymStreamWaitEvent, []uintptr{other, e, 0}},
		{false, cuda.SymEventDestroy, []uintptr{e}},
		{false, cuda.SymStreamDestroy, []uintptr{other}},
	} {
		busy()
		patience := 20 * time.Second // none of these comes near it, however slow the machine
		if row.waits {
			patience = 20 * time.Millisecond
		}
		released := make(chan struct{})
		stop := time.AfterFunc(patience, func() { close(released); r.g.Release() })
		r.ok(row.call, row.args...)
		waited := !stop.Stop()
		if waited != row.waits {
			t.Errorf("%v: waits is %v, want %v", row.call, waited, row.waits)
		}
		if waited {
			<-released
		} else {
			r.g.Release()
		}
		r.ok(cuda.SymCtxSynchronize)
	}
	r.clean()
}

// TestEvents checks queries and times.
func TestEvents(t *testing.T) {
	r := newRaw(t, Lag(-1))
	s, a, b, untimed, d := r.stream(), r.event(), r.event(), r.out(cuda.SymEventCreate, 2), r.alloc(16)
	r.ok(cuda.SymEventQuery, a) // never recorded
	c := newCell()
	r.is(cuda.InvalidHandle, cuda.SymEventElapsedTime, c.at(), a, b)
	r.ok(cuda.SymEventRecord, a, s)
	r.g.DelayOps(5 * time.Millisecond)
	r.ok(cuda.SymMemsetD8Async, d, 1, 16, s)
	r.ok(cuda.SymEventRecord, b, s)
	r.is(cuda.NotReady, cuda.SymEventQuery, a)
	r.is(cuda.NotReady, cuda.SymEventElapsedTime, c.at(), a, b)
	for r.call(cuda.SymEventQuery, b) == cuda.NotReady {
		runtime.Gosched()
	}
	if view(d, 1)[0] != 1 {
		t.Error("an event is done before the work that it is behind")
	}
	r.ok(cuda.SymEventElapsedTime, c.at(), a, b)
	if ms := (&Launch{Params: c.b}).F32(0); ms < 1 || ms > 10e3 {
		t.Errorf("%g ms between the records, want about 5", ms)
	}
	r.ok(cuda.SymEventRecord, untimed, s)
	r.sync(s)
	r.is(cuda.InvalidHandle, cuda.SymEventElapsedTime, c.at(), a, untimed)
	r.is(cuda.InvalidValue, cuda.SymEventCreate, c.at(), 4)
	r.is(cuda.InvalidValue, cuda.SymEventCreate, c.at(), 64)
	r.ok(cuda.SymEventDestroy, a)
	r.is(cuda.InvalidHandle, cuda.SymEventRecord, a, s)
	r.violates("a stale handle")
}

// TestDestroyedStreamsFinish lets go of a stream with work in it.
func TestDestroyedStreamsFinish(t *testing.T) {
	r := newRaw(t, Lag(-1))
	k, ran := r.tracer()
	s := r.stream()
	r.launch(k, s, 1)
	r.launch(k, s, 2)
	r.ok(cuda.SymStreamDestroy, s)
	r.ok(cuda.SymCtxSynchronize)
	if got := ran(); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("ran %v, want 1 and 2", got)
	}
	r.is(cuda.InvalidHandle, cuda.SymStreamQuery, s)
	r.violates("a stale handle")
}
