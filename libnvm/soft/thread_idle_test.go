package soft

import (
	"testing"
	"time"
	"unsafe"
)

// TestOwnCacheLines: what a thread writes for every command shares no pair of
// cache lines with what another thread writes.
func TestOwnCacheLines(t *testing.T) {
	const pair = 128
	for name, size := range map[string]uintptr{
		"thread": unsafe.Sizeof(thread{}), "submission": unsafe.Sizeof(submission{}), "completion": unsafe.Sizeof(completion{}),
	} {
		if size%pair != 0 {
			t.Errorf("a %s has %d bytes, %d more than whole pairs of cache lines", name, size, size%pair)
		}
	}
	for range 100 {
		onHeap.t, onHeap.s, onHeap.c = new(thread), new(submission), new(completion)
		for _, p := range []unsafe.Pointer{unsafe.Pointer(onHeap.t), unsafe.Pointer(onHeap.s), unsafe.Pointer(onHeap.c)} {
			if uintptr(p)%pair != 0 {
				t.Fatalf("allocated at %p, which is not the start of one", p)
			}
		}
	}
}

// onHeap keeps objects from being allocated on the stack.
var onHeap struct {
	t *thread
	s *submission
	c *completion
}

// TestBackOff: a thread looks on for the time that it promises before it sleeps,
// and a sleep stays small in comparison to those before it.
func TestBackOff(t *testing.T) {
	th := &thread{c: &Controller{started: time.Now()}}
	var i idler
	for range 2 { // the second time after work
		i.reset()
		begun := time.Now()
		for i.slept == 0 {
			i.wait(th)
		}
		if d := time.Since(begun); d < yieldFor || i.polls < fewestPolls || i.slept != shortestNap {
			t.Errorf("after %v and %d polls it sleeps %v", d, i.polls, i.slept)
		}
		for i.slept < 20*time.Millisecond {
			before := i.slept
			i.wait(th)
			if d := i.slept - before; d < shortestNap || d > max(shortestNap, before/sleepShare) {
				t.Fatalf("it sleeps %v after %v", d, before)
			}
		}
	}
	i.slept = time.Hour
	i.wait(th)
	if d := i.slept - time.Hour; d != longestNap {
		t.Errorf("the longest sleep is %v", d)
	}
	th.timers = timers{{}}
	i.wait(th)
	if d := i.slept - time.Hour - longestNap; d != attentiveNap {
		t.Errorf("with a completion that waits for its time it sleeps %v", d)
	}
}
