package soft_test

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// TestUnplug: a controller that vanishes is a DeviceGoneError, and works again
// once it is back.
func TestUnplug(t *testing.T) {
	s := start(t, 1<<20, soft.Config{Threads: 2})
	c := bringUp(t, s, libnvm.Config{})
	q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 8})
	if err != nil {
		t.Fatal(err)
	}
	ns, err := c.Namespace(1)
	if err != nil {
		t.Fatal(err)
	}
	s.Unplug()
	var gone *libnvm.DeviceGoneError
	// A service thread that looked just before may still take one command.
	flush := func() error { return q.Do(&libnvm.Request{Op: libnvm.OpFlush, NS: ns}) }
	end := time.Now().Add(10 * time.Second)
	for err = flush(); err == nil && time.Now().Before(end); err = flush() {
	}
	if !errors.As(err, &gone) {
		t.Fatalf("I/O: %v", err)
	}
	if _, err := c.SMART(); !errors.As(err, &gone) {
		t.Fatalf("admin: %v", err)
	}
	if err := c.Reset(); !errors.As(err, &gone) {
		t.Fatalf("reset: %v", err)
	}
	s.Revive()
	end = time.Now().Add(10 * time.Second)
	for err = c.Reset(); err != nil && time.Now().Before(end); err = c.Reset() {
		time.Sleep(time.Millisecond)
	}
	if err := errors.Join(err, flush()); err != nil {
		t.Fatal("after it came back: ", err)
	}
}

// TestGatedCompletion: the completion of a command that two rules hold back
// comes when both gates are open and its delay is over, not before.
func TestGatedCompletion(t *testing.T) {
	const delay = 40 * time.Millisecond
	gates := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
	read := []libnvm.Opcode{libnvm.OpRead}
	plan, err := soft.NewFaultPlan(1, soft.Rule{Opcodes: read, Fault: soft.Fault{Gate: gates[0], Delay: delay}}, soft.Rule{Opcodes: read, Fault: soft.Fault{Gate: gates[1]}})
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, 1<<20, soft.Config{Faults: plan})
	c := bringUp(t, s, libnvm.Config{})
	ns, err := c.Namespace(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, last := range []int{1, -1} { // the second gate last; the gates are open, but not the delay
		q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 4})
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.Alloc(4096)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		ticket, err := q.Submit(&libnvm.Request{Op: libnvm.OpRead, NS: ns, Blocks: 1, Mem: m})
		if err != nil {
			t.Fatal(err)
		}
		if last >= 0 {
			close(gates[1-last])
			for end := time.Now().Add(2 * delay); time.Now().Before(end); {
				if n := q.Poll(make([]libnvm.Completion, 4)); n > 0 {
					t.Fatal("a completion before both gates were open")
				}
				time.Sleep(time.Millisecond)
			}
			close(gates[last])
		}
		if _, err := q.Wait(ticket, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); d < delay {
			t.Errorf("completed after %v, want at least the delay of %v", d, delay)
		}
		if err := errors.Join(q.Close(), m.Free()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHealthDuringReset: the driver's own reset is no reset behind its back,
// while one by somebody else is, and Reset makes good for it.
func TestHealthDuringReset(t *testing.T) {
	s := start(t, 1<<20, soft.Config{})
	c := bringUp(t, s, libnvm.Config{})
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
				if err := c.Health(); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	var resets error
	for range 50 {
		resets = errors.Join(resets, c.Reset())
	}
	close(stop)
	if err := errors.Join(resets, <-done); err != nil {
		t.Fatal(err)
	}
	const cc, csts = 0x14, 0x1c
	s.Registers().Write32(cc, 0)
	for end := time.Now().Add(10 * time.Second); s.Registers().Read32(csts) != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the controller does not become disabled")
		}
	}
	var lost *libnvm.NotReadyError
	if err := c.Health(); !errors.As(err, &lost) || lost.NoAnswer {
		t.Fatalf("after a reset by another: %v", err)
	}
	if err := errors.Join(c.Reset(), c.Health()); err != nil {
		t.Fatal(err)
	}
}

// TestMemoryOfGoneDrive: no reset can end the quarantine of a drive that is
// gone; closing it does. Memory that is freed after that touches no file that
// got the descriptor's number meanwhile.
func TestMemoryOfGoneDrive(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate)
	plan, err := soft.NewFaultPlan(1, soft.Rule{Opcodes: []libnvm.Opcode{libnvm.OpRead}, Fault: soft.Fault{Gate: gate}})
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, 1<<20, soft.Config{Faults: plan})
	c := bringUp(t, s, libnvm.Config{})
	ns, err := c.Namespace(1)
	if err != nil {
		t.Fatal(err)
	}
	q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 4})
	if err != nil {
		t.Fatal(err)
	}
	used, err := s.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	idle, err := s.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := q.Submit(&libnvm.Request{Op: libnvm.OpRead, NS: ns, Blocks: 1, Mem: used})
	if err != nil {
		t.Fatal(err)
	}
	s.Unplug()
	var gone *libnvm.DeviceGoneError
	if _, err := q.Wait(ticket, 0); !errors.As(err, &gone) {
		t.Fatalf("I/O: %v", err)
	}
	if err := c.Reset(); !errors.As(err, &gone) {
		t.Fatalf("reset: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := used.Free(); !errors.Is(err, libnvm.ErrMemoryHeld) {
		t.Errorf("free before the transport is closed: %v, want ErrMemoryHeld", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	unchanged := occupyDescriptors(t)
	if err := errors.Join(used.Free(), idle.Free()); err != nil {
		t.Error("free after the transport is closed: ", err)
	}
	if _, err := s.Alloc(4096); err == nil {
		t.Error("memory was allocated after Close")
	}
	unchanged()
}

// occupyDescriptors opens files, so that one of them gets the number of any
// descriptor that was just closed. The function that it returns checks that
// their content is still there.
func occupyDescriptors(t *testing.T) (unchanged func()) {
	var files []*os.File
	for i := range 32 {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if _, err := f.WriteAt(bytes.Repeat([]byte{byte(i + 1)}, 1<<20), 0); err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return func() {
		t.Helper()
		b := make([]byte, 1<<20)
		for i, f := range files {
			if _, err := f.ReadAt(b, 0); err != nil || bytes.Count(b, []byte{byte(i + 1)}) != len(b) {
				t.Fatalf("a file was changed by freeing memory (%v)", err)
			}
		}
	}
}
