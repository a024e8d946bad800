package uring

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPending: it is false as long as nothing has finished, becomes true without
// a system call of ours when something has, and false again once it is reaped.
func TestPending(t *testing.T) {
	for _, oneThread := range []bool{false, true} {
		r := newRing(t, Options{Entries: 2, OneThread: oneThread})
		var pipe [2]int
		must(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
		buf := make([]byte, 1)
		must(t, r.Read(pipe[0], buf, 0, 7))
		must(t, r.Submit())
		if r.Pending() {
			t.Fatal("pending before the pipe has data")
		}
		_, err := unix.Write(pipe[1], []byte{1})
		must(t, err)
		for end := time.Now().Add(10 * time.Second); !r.Pending(); {
			if time.Now().After(end) {
				t.Fatal("not pending 10 s after the data came")
			}
		}
		out := make([]Completion, 2)
		for n := 0; n == 0; {
			if n, err = r.Wait(out, 0); err != nil {
				t.Fatal(err)
			}
			if n == 0 && !r.Pending() {
				t.Fatal("pending, but nothing was reaped and nothing is pending any more")
			}
		}
		if out[0].Token != 7 || out[0].N != 1 {
			t.Errorf("completion %+v, want token 7 and one byte", out[0])
		}
		if r.Pending() {
			t.Error("pending with nothing in flight")
		}
		must(t, unix.Close(pipe[0]))
		must(t, unix.Close(pipe[1]))
	}
}

// TestSubmitManyChunks: a batch of many more entries than the kernel gets at a
// time is submitted whole by one call.
func TestSubmitManyChunks(t *testing.T) {
	r := newRing(t, Options{Entries: 8192})
	f := tempFile(t, 4096)
	buf := make([]byte, 512)
	for i := range r.Capacity() {
		must(t, r.Read(int(f.Fd()), buf, 0, uint64(i)))
	}
	must(t, r.Submit())
	if r.queued != 0 {
		t.Fatalf("%d entries left after Submit", r.queued)
	}
	reapAll(t, r, r.Capacity())
}
