//go:build linux

package cuda

import (
	"context"
	"errors"
	"testing"
	"unsafe"
)

func TestHostFlags(t *testing.T) {
	s := newScript(t)
	c := s.open()
	memory := make([]byte, 64)
	var flags uintptr
	s.answer(SymMemHostAlloc, func(a []uintptr) Result {
		flags = a[2]
		*at[*byte](a[0]) = &memory[0]
		s.owner[uintptr(unsafe.Pointer(&memory[0]))] = c.handle
		return Success
	})
	s.answer(SymMemHostRegister, func(a []uintptr) Result {
		flags = a[2]
		if a[0] != uintptr(unsafe.Pointer(&memory[0])) || a[1] != 64 {
			return InvalidValue
		}
		s.owner[a[0]] = c.handle
		return Success
	})
	for _, row := range []struct {
		flags           HostFlags
		alloc, register uintptr // 99: refused
	}{
		{0, 3, 3}, {Portable, 1, 1}, {Mapped, 2, 2}, {Portable | Mapped, 3, 3},
		{WriteCombined, 4, 99}, {IOMemory | Mapped, 99, 6}, {ReadOnly | Portable, 99, 9}, {1 << 20, 99, 99},
	} {
		flags = 99
		m, err := c.AllocHost(64, row.flags)
		if flags != row.alloc || (err != nil) != (row.alloc == 99) || err != nil && !errors.Is(err, InvalidValue) {
			t.Errorf("AllocHost with %#x: flags %d, %v", row.flags, flags, err)
		}
		if err == nil {
			if mapped := row.alloc&2 != 0; (m.DevicePtr() != 0) != mapped || len(m.Bytes()) != 64 || &m.Bytes()[0] != &memory[0] {
				t.Errorf("AllocHost with %#x: at %s", row.flags, m.DevicePtr())
			}
			_ = m.Free()
		}
		flags = 99
		r, err := c.RegisterHost(memory, row.flags)
		if flags != row.register || (err != nil) != (row.register == 99) || err != nil && !errors.Is(err, InvalidValue) {
			t.Errorf("RegisterHost with %#x: flags %d, %v", row.flags, flags, err)
		}
		if err == nil {
			if mapped := row.register&2 != 0; (r.DevicePtr() != 0) != mapped || &r.Bytes()[0] != &memory[0] {
				t.Errorf("RegisterHost with %#x: at %s", row.flags, r.DevicePtr())
			}
			_ = r.Unregister()
		}
	}
}

func TestMemoryThatCannotBeMappedIsGivenBack(t *testing.T) {
	s := newScript(t)
	c := s.open()
	s.fail(SymMemHostGetDevicePointer, InvalidValue)
	if _, err := c.AllocHost(10, 0); !errors.Is(err, InvalidValue) || s.count(SymMemFreeHost) != 1 {
		t.Errorf("AllocHost: %v", err)
	}
	if _, err := c.RegisterHost(make([]byte, 10), 0); !errors.Is(err, InvalidValue) || s.count(SymMemHostUnregister) != 1 {
		t.Errorf("RegisterHost: %v", err)
	}
	if left := s.leaks(); len(left) != 1 { // the context itself
		t.Errorf("still open: %v", left)
	}
}

func TestSizesThatCannotBe(t *testing.T) {
	s := newScript(t)
	c := s.open()
	for name, err := range map[string]error{
		"Alloc":        second(c.Alloc(0)),
		"AllocHost":    second(c.AllocHost(0, 0)),
		"AllocHost2":   second(c.AllocHost(1<<63, 0)),
		"RegisterHost": second(c.RegisterHost(nil, 0)),
	} {
		if !errors.Is(err, InvalidValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.count(SymMemAlloc)+s.count(SymMemHostAlloc)+s.count(SymMemHostRegister) != 0 {
		t.Error("the driver was called")
	}
}

func TestDMABuf(t *testing.T) {
	s := newScript(t)
	c := s.open()
	m, odd := must(c.Alloc(64<<10))(t), must(c.Alloc(100))(t)
	if m.Size() != 64<<10 || m.Ptr().Add(16) != m.Ptr()+16 {
		t.Errorf("%d bytes at %s", m.Size(), m.Ptr())
	}
	s.answer(SymMemGetHandleForAddressRange, func(a []uintptr) Result {
		if a[1] != uintptr(m.Ptr()) || a[2] != 64<<10 || a[3] != 1 || a[4] != 0 {
			return InvalidValue
		}
		*at[int32](a[0]) = 42
		return Success
	})
	if fd, err := m.DMABuf(); fd != 42 || err != nil {
		t.Errorf("dma-buf %d, %v", fd, err)
	}
	if fd, err := odd.DMABuf(); fd != -1 || !errors.Is(err, InvalidValue) || s.count(SymMemGetHandleForAddressRange) != 1 {
		t.Errorf("of part of a page: %d, %v", fd, err)
	}
	s.fail(SymMemGetHandleForAddressRange, NotSupported)
	if fd, err := m.DMABuf(); fd != -1 || !errors.Is(err, ErrNotSupported) {
		t.Errorf("not supported: %d, %v", fd, err)
	}
}

// TestHotCallsAllocateNothing: what is called once per page or more often.
func TestHotCallsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool drop what it holds")
	}
	s, c, k, stream := kernelOf(t)
	s.answers = map[Symbol]func([]uintptr) Result{}
	b := &quietBackend{}
	c.driver.backend = b
	event := must(c.NewEvent(false))(t)
	buf, params := make([]byte, 64), make([]byte, 24)
	batch := &CopyBatch{}
	batch.Add(1, 2, 3)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	for name, f := range map[string]func(){
		"Launch":       func() { err = k.Launch(stream, LaunchConfig{Grid: D1(5)}, params, 0, 8, 16) },
		"CopyToDevice": func() { err = stream.CopyToDevice(1, buf) },
		"CopyToHost":   func() { err = stream.CopyToHost(buf, 1) },
		"CopyDevice":   func() { err = stream.CopyDevice(1, 2, 3) },
		"CopyBatch":    func() { err = stream.CopyBatch(batch) },
		"Memset8":      func() { err = stream.Memset8(1, 2, 3) },
		"Query":        func() { _, err = stream.Query() },
		"Record":       func() { err = event.Record(stream) },
		"WaitEvent":    func() { err = stream.WaitEvent(event) },
		"Wait":         func() { b.busy = 20; err = stream.Wait(ctx) },
		"Event.Wait":   func() { b.busy = 20; err = event.Wait(ctx) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 || err != nil {
			t.Errorf("%s allocates %v times a call, %v", name, n, err)
		}
	}
	if n := testing.AllocsPerRun(100, func() { err = k.LaunchArgs(stream, LaunchConfig{}, Ptr(1), uint32(2), int64(3)) }); n > 3 || err != nil {
		t.Errorf("LaunchArgs allocates %v times a call besides its arguments, %v", n, err)
	}
}

// quietBackend succeeds, without the checks of script, which allocate.
type quietBackend struct{ busy int }

func (*quietBackend) Has(Symbol) bool { return true }

func (b *quietBackend) Call(s Symbol, _ []uintptr) Result {
	if b.busy > 0 && (s == SymStreamQuery || s == SymEventQuery) {
		b.busy--
		return NotReady
	}
	return Success
}
