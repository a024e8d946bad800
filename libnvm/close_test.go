package libnvm

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm/internal/spec"
)

// TestCloseOfSickController: memory that a command may still use is free after
// Close when the controller let go of it, and otherwise after the transport's
// Close, not before.
func TestCloseOfSickController(t *testing.T) {
	const ones = 1<<32 - 1
	for _, x := range []struct {
		name           string
		csts, cc, caps uint32
		reset          bool   // tried before, in vain
		freed          bool   // by Controller.Close
		want           string // type of Close's error
	}{
		{"lets go", spec.CSTSShutOK, 0, 0xff, false, true, "<nil>"},
		{"fatal, lets go", spec.CSTSFatal, spec.CCEnable, 0xff, false, true, "<nil>"},
		{"was reset", 0, 0, 0xff, false, true, "<nil>"},
		{"does not let go", spec.CSTSReady | spec.CSTSShutOK, spec.CCEnable, 0xff, false, false, "*libnvm.TimeoutError"},
		{"fatal, does not let go", spec.CSTSReady | spec.CSTSFatal, spec.CCEnable, 0xff, false, false, "*libnvm.TimeoutError"},
		{"gone", ones, ones, ones, false, false, "<nil>"},
		{"reads zeroes", 0, 0, 0, false, false, "<nil>"},
		{"gone, and a reset has failed", ones, ones, ones, true, false, "<nil>"},
		{"reads zeroes, and a reset has failed", 0, 0, 0, true, false, "<nil>"},
		{"never ready, and a reset has failed", spec.CSTSReady, spec.CCEnable, 0xff, true, false, "*libnvm.TimeoutError"},
	} {
		t.Run(x.name, func(t *testing.T) {
			h, m, driver := timedOut(t)
			h.f.regs.Write32(spec.RegCAP, x.caps)
			h.f.regs.Write32(spec.RegCC, x.cc)
			h.f.regs.Write32(spec.RegCSTS, x.csts)
			if x.reset {
				if err := h.c.Reset(); err == nil {
					t.Fatal("the reset succeeded")
				}
			}
			err := h.c.Close()
			if !hasType(err, x.want) {
				t.Errorf("close: %v, want %s", err, x.want)
			}
			if err := m.Free(); x.freed && err != nil || !x.freed && !errors.Is(err, ErrMemoryHeld) {
				t.Errorf("free after Controller.Close: %v, want it freed: %v", err, x.freed)
			}
			want := 0
			if x.freed {
				want = driver + 1
			}
			if h.f.freed != want {
				t.Errorf("%d pieces of memory freed after Controller.Close, want %d", h.f.freed, want)
			}
			h.must(h.c.Close())
			h.must(h.f.Close())
			h.must(m.Free())
			if m.Held() != 0 || h.f.freed != driver+1 {
				t.Errorf("%d commands hold memory and %d pieces of it are freed after Transport.Close, want 0 and %d", m.Held(), h.f.freed, driver+1)
			}
		})
	}
}

// timedOut is a ready controller with an I/O command and an admin command that
// timed out: m is the caller's memory, and driver how many pieces the driver has.
func timedOut(t *testing.T) (h *host, m *Memory, driver int) {
	t.Helper()
	h = newHost(t, 8)
	h.c.cfg.ReadyTimeout = 20 * time.Millisecond
	h.c.queues[1] = h.q
	var err error
	h.c.scratch, err = h.f.Alloc(PageSize)
	h.must(err)
	h.c.admin = newQueuePair(h.c, 0, 2)
	h.must(h.c.admin.allocate(QueueConfig{}))
	h.c.scratch.held.Add(1)
	h.c.admin.slots[0].state, h.c.admin.slots[0].mem = slotQuarantined, h.c.scratch
	driver = len(h.f.memory)
	m, err = h.f.Alloc(PageSize)
	h.must(err)
	h.f.regs.Write32(spec.RegCSTS, spec.CSTSReady)
	h.c.setState(StateReady)
	_, err = h.q.Submit(&Request{Op: OpRead, NS: h.ns, Blocks: 1, Mem: m, Timeout: shortly})
	h.must(err)
	h.q.expire(now() + int64(time.Second))
	if m.Held() != 1 || !errors.Is(m.Free(), ErrMemoryHeld) {
		t.Fatalf("held by %d commands after a time-out", m.Held())
	}
	return h, m, driver
}

// hasType reports whether an error of the type with this name is in the chain.
func hasType(err error, name string) bool {
	if fmt.Sprintf("%T", err) == name {
		return true
	}
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(x error) bool { return hasType(x, name) })
	case interface{ Unwrap() error }:
		return hasType(e.Unwrap(), name)
	}
	return false
}

// TestDetachAndAbandon: whichever comes last frees the memory, once.
func TestDetachAndAbandon(t *testing.T) {
	for range 500 {
		var freed atomic.Int32
		m, err := NewMemory(make([]byte, PageSize), 1<<20, func() error { freed.Add(1); return nil })
		if err != nil {
			t.Fatal(err)
		}
		m.held.Add(2)
		var errs [2]error
		var wg sync.WaitGroup
		wg.Go(func() { errs[0] = m.Detach() })
		wg.Go(func() { errs[1] = m.abandon() })
		wg.Wait()
		if err := errors.Join(errs[:]...); err != nil || freed.Load() != 1 {
			t.Fatalf("freed %d times, %v", freed.Load(), err)
		}
	}
	m, err := NewMemory(make([]byte, PageSize), 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.held.Add(1)
	if err := m.abandon(); err != nil || m.freed.Load() {
		t.Errorf("abandoned memory that is held was freed (%v)", err)
	}
}

// TestVanishesWhileItIsDisabled: zeroes from an empty bus look like a
// controller that has let go of memory.
func TestVanishesWhileItIsDisabled(t *testing.T) {
	h := newHost(t, 8)
	h.c.queues[1] = h.q
	h.f.regs.Write32(spec.RegCAP, 0xff|20<<spec.CapTOShift)
	h.f.regs.Write32(spec.RegCC, spec.CCEnable)
	h.f.regs.Write32(spec.RegCSTS, spec.CSTSReady|spec.CSTSShutOK)
	h.c.caps = h.f.regs.Read64(spec.RegCAP)
	h.c.setState(StateReady)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Microsecond) {
			if h.f.regs.Read32(spec.RegCC)&spec.CCEnable == 0 {
				h.f.regs.Write32(spec.RegCAP, 0)
				h.f.regs.Write32(spec.RegCSTS, 0)
				return
			}
		}
	})
	rings := len(h.f.memory)
	if err := h.c.Close(); err != nil || h.f.freed != 0 {
		t.Errorf("close: %v, and %d pieces of memory were freed", err, h.f.freed)
	}
	if err := h.f.Close(); err != nil || h.f.freed != rings {
		t.Errorf("transport: %v, and %d pieces of memory were freed, want %d", err, h.f.freed, rings)
	}
}
