package copyeng

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
)

// hostSet is a Host engine with one space of each kind and a queue.
type hostSet struct {
	*Host
	host, device *Space
	q            Queue
}

func openHostSet(t *testing.T, opts HostOptions) *hostSet {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	s := &hostSet{Host: OpenHost(opts)}
	var err1, err2, err3 error
	s.host, err1 = s.AllocateHost(1 << 20)
	s.device, err2 = s.Allocate(1 << 20)
	s.q, err3 = s.NewQueue()
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if len(s.helpers) != 0 {
			t.Errorf("%d helpers have not given their tokens back", len(s.helpers))
		}
		goleak.VerifyNone(t, leaks)
	})
	return s
}

func (s *hostSet) batch(d Direction, pages ...uint32) *Batch {
	b := &Batch{Dir: d, Host: s.host, Device: s.device, PageSize: 4096}
	for _, p := range pages {
		b.Pairs = append(b.Pairs, Pair{p, p})
	}
	return b
}

func (s *hostSet) start(t *testing.T, q Queue, b *Batch) {
	t.Helper()
	if _, err := q.Copy(b); err != nil {
		t.Fatal(err)
	}
}

// gate holds batches up until it is opened.
type gate struct {
	once sync.Once
	open chan struct{}
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) release() { g.once.Do(func() { close(g.open) }) }

func (g *gate) fault(*Batch) error {
	<-g.open
	return nil
}

func TestHostQueueIsBounded(t *testing.T) {
	g := newGate()
	s := openHostSet(t, HostOptions{Fault: g.fault})
	t.Cleanup(g.release) // before the engine is closed
	for i := range hostDepth {
		s.start(t, s.q, s.batch(ToDevice, uint32(i)))
	}
	s.patience = 20 * time.Millisecond
	if _, err := s.q.Copy(s.batch(ToHost, 0)); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "full") {
		t.Errorf("copy into a full queue: %v", err)
	}
	if n := s.Stats().ToHost[PathMemory].Batches; n != 0 {
		t.Errorf("%d batches counted that were not started", n)
	}
	s.patience = closeWait
	s.host.Bytes()[99*4096] = 7
	started := make(chan error, 1)
	go func() {
		_, err := s.q.Copy(s.batch(ToDevice, 99))
		started <- err
	}()
	select {
	case err := <-started:
		t.Errorf("copy into a full queue did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	g.release()
	if err := errors.Join(within(t, started), s.q.Wait(t.Context())); err != nil {
		t.Error(err)
	}
	if s.device.Bytes()[99*4096] != 7 {
		t.Error("a batch that waited for room was not copied")
	}
}

func TestHostCloseWhileFull(t *testing.T) {
	g := newGate()
	s := openHostSet(t, HostOptions{Fault: g.fault})
	t.Cleanup(g.release) // before the engine is closed
	for i := range hostDepth {
		s.start(t, s.q, s.batch(ToDevice, uint32(i)))
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := s.q.Copy(s.batch(ToDevice, 99))
		waiting <- err
	}()
	q := s.q.(*hostQueue)
	start := time.Now()
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("a copy into a full queue does not wait")
		}
		q.mu.Lock()
		waits = q.changed != nil
		q.mu.Unlock()
	}
	closed := make(chan error, 1)
	go func() { closed <- q.Close() }()
	if err := within(t, waiting); !errors.Is(err, ErrClosed) {
		t.Errorf("copy that waits for room in a queue that is closed: %v", err)
	}
	g.release()
	if err := within(t, closed); err != nil {
		t.Error(err)
	}
}

// within receives, but not for ever.
func within(t *testing.T, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came for 10 s")
		return nil
	}
}

// Large batches are shared among helpers, which are the engine's and come back.
func TestHostHelpers(t *testing.T) {
	s := openHostSet(t, HostOptions{Workers: 3})
	if cap(s.helpers) != 3 {
		t.Fatalf("%d helpers", cap(s.helpers))
	}
	var pages []uint32
	for i := range uint32(1 << 20 / 4096) {
		pages = append(pages, i)
	}
	for round := range byte(50) {
		for i := range s.host.Bytes() {
			s.host.Bytes()[i] = round + byte(i/4096)
		}
		s.start(t, s.q, s.batch(ToDevice, pages...))
		if err := s.q.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(s.host.Bytes(), s.device.Bytes()) {
			t.Fatal("not all was copied")
		}
	}
}

func TestHostCloseGivesUp(t *testing.T) {
	g := newGate()
	s := openHostSet(t, HostOptions{Fault: g.fault})
	t.Cleanup(g.release) // before the engine is closed
	s.host.Bytes()[0] = 9
	s.start(t, s.q, s.batch(ToDevice, 0))
	s.patience = 10 * time.Millisecond
	err := s.q.Close()
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 batches or exchanges still in flight") {
		t.Errorf("close of a queue that does not end: %v", err)
	}
	if _, err := s.q.Copy(s.batch(ToDevice, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("copy after a close that gave up: %v", err)
	}
	g.release()
	s.patience = closeWait
	if err := s.q.Close(); err != nil {
		t.Errorf("close once more: %v", err)
	}
	if s.device.Bytes()[0] != 9 {
		t.Error("the batch in flight was not carried out")
	}
}

// A queue that is held up holds up no other.
func TestHostQueuesAreIndependent(t *testing.T) {
	g := newGate()
	s := openHostSet(t, HostOptions{Fault: func(b *Batch) error {
		if b.Pairs[0].Host == 0 {
			return g.fault(b)
		}
		return nil
	}})
	t.Cleanup(g.release) // before the engine is closed
	s.start(t, s.q, s.batch(ToDevice, 0))
	other, err := s.NewQueue()
	if err != nil {
		t.Fatal(err)
	}
	s.host.Bytes()[4096] = 5
	s.start(t, other, s.batch(ToDevice, 1))
	if err := other.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.device.Bytes()[4096] != 5 {
		t.Error("not copied")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.q.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait for the queue that is held up: %v", err)
	}
}

type numbered struct{ n uint32 }

func (e *numbered) Error() string { return "page fails" }

func TestHostKeepsErrorsBounded(t *testing.T) {
	s := openHostSet(t, HostOptions{Fault: func(b *Batch) error { return &numbered{b.Pairs[0].Host} }})
	for i := range uint32(100) {
		s.start(t, s.q, s.batch(ToDevice, i))
	}
	err := s.q.Wait(t.Context())
	var first *numbered
	if !errors.As(err, &first) || first.n != 0 {
		t.Errorf("the first error is missing: %v", err)
	}
	if lines := strings.Count(err.Error(), "\n") + 1; lines != hostErrors+1 || !strings.HasSuffix(err.Error(), "84 further batches failed") {
		t.Errorf("%d lines of errors: %v", lines, err)
	}
	if err := s.q.Wait(t.Context()); err != nil {
		t.Errorf("once more: %v", err)
	}
}

// Of several that wait, one is told of each error.
func TestHostErrorsGoToOneWaiter(t *testing.T) {
	s := openHostSet(t, HostOptions{Fault: func(b *Batch) error { return &numbered{b.Pairs[0].Host} }})
	for i := range uint32(20) {
		s.start(t, s.q, s.batch(ToHost, i))
		told := make(chan error, 4)
		for range cap(told) {
			go func() { told <- s.q.Wait(t.Context()) }()
		}
		var n int
		for range cap(told) {
			if e := new(numbered); errors.As(<-told, &e) && e.n == i {
				n++
			}
		}
		if n != 1 {
			t.Fatalf("%d waiters were told of one error", n)
		}
	}
}

func TestHostFailedBatchChangesNothing(t *testing.T) {
	s := openHostSet(t, HostOptions{Fault: func(b *Batch) error {
		if b.Dir == ToDevice {
			return errors.New("no way in")
		}
		return nil
	}})
	s.host.Bytes()[0], s.device.Bytes()[4096] = 1, 2
	if _, err := s.q.Exchange(s.batch(ToDevice, 0), s.batch(ToHost, 1)); err != nil {
		t.Fatal(err)
	}
	err := s.q.Wait(t.Context())
	if err == nil || err.Error() != "copy of 1 pages of 4096 bytes to-device: no way in" {
		t.Errorf("wait: %v", err)
	}
	if s.device.Bytes()[0] != 0 || s.host.Bytes()[4096] != 2 {
		t.Error("the side that failed was copied, or the other one was not")
	}
}

func TestHostEngineCloseGivesErrors(t *testing.T) {
	want := errors.New("late")
	h := OpenHost(HostOptions{Fault: func(*Batch) error { return want }})
	s := &hostSet{Host: h}
	var err1, err2, err3 error
	s.host, err1 = h.AllocateHost(8192)
	s.device, err2 = h.Allocate(8192)
	s.q, err3 = h.NewQueue()
	_, err4 := s.q.Copy(s.batch(ToDevice, 1))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); !errors.Is(err, want) {
		t.Errorf("close of an engine with a failed batch: %v", err)
	}
	if device, host := h.Allocated(); device != 0 || host != 0 {
		t.Errorf("a closed engine has %d and %d bytes", device, host)
	}
	if !s.host.closed.Load() || !s.device.closed.Load() {
		t.Error("spaces of a closed engine are open")
	}
}

func TestHostMemory(t *testing.T) {
	s := openHostSet(t, HostOptions{DeviceBytes: 3 << 20})
	for _, size := range []uint64{1, 4095, 4096, 1 << 20} {
		m, err := s.Allocate(size)
		if err != nil {
			t.Fatal(err)
		}
		if at := uintptr(unsafe.Pointer(&m.Bytes()[0])); at%hostAlign != 0 {
			t.Errorf("%d bytes at %#x", size, at)
		}
		if uint64(len(m.Bytes())) != size || uint64(cap(m.Bytes())) != size || m.Address() != 0 {
			t.Errorf("%d bytes, capacity %d, address %#x", len(m.Bytes()), cap(m.Bytes()), m.Address())
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	var full *AllocationError
	if _, err := s.Allocate(2<<20 + 1); !errors.As(err, &full) || *full != (AllocationError{DeviceMemory, 2<<20 + 1, 1 << 20, 3 << 20}) {
		t.Errorf("more than the device has: %v", err)
	}
	rest, err := s.Allocate(2 << 20)
	if err != nil {
		t.Fatalf("all that the device has: %v", err)
	}
	if _, err := s.Allocate(1); !errors.As(err, &full) || !strings.Contains(err.Error(), "3145728 of 3145728 are in use") {
		t.Errorf("one byte more: %v", err)
	}
	if err := errors.Join(rest.Close(), rest.Close()); err != nil {
		t.Error(err)
	}
	if device, host := s.Allocated(); device != 1<<20 || host != 1<<20 {
		t.Errorf("allocated: %d and %d", device, host)
	}
	for _, size := range []uint64{0, 1 << 50, 1<<64 - 1} {
		if _, err := s.AllocateHost(size); !errors.As(err, &full) || full.Limit != 0 {
			t.Errorf("%d bytes of host memory: %v", size, err)
		}
	}
}

func BenchmarkHostCopy(b *testing.B) {
	h := OpenHost(HostOptions{})
	host, err1 := h.AllocateHost(64 << 20)
	device, err2 := h.Allocate(64 << 20)
	q, err3 := h.NewQueue()
	if err := errors.Join(err1, err2, err3); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("%dx64KiB", n), func(b *testing.B) {
			batch := &Batch{Host: host, Device: device, PageSize: 64 << 10}
			for i := range n {
				batch.Pairs = append(batch.Pairs, Pair{uint32(i), uint32(n - 1 - i)})
			}
			b.SetBytes(batch.Bytes())
			for b.Loop() {
				if _, err := q.Copy(batch); err != nil {
					b.Fatal(err)
				}
				if err := q.Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	if err := h.Close(); err != nil {
		b.Fatal(err)
	}
}
