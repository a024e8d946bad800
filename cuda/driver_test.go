//go:build linux

package cuda

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unsafe"
)

func TestOpenSaysWhatIsMissing(t *testing.T) {
	_, err := loadFirst([]string{"libno-such-driver.so.1", "libno-such-driver.so"})
	var missing *MissingLibraryError
	if !errors.As(err, &missing) || len(missing.Tried) != 2 || !strings.Contains(missing.Reason, "libno-such-driver.so.1") {
		t.Errorf("the error is %v", err)
	}
	// On a machine without the driver Open must say so, and with it work
	// or give a typed error.
	if _, err := Open(); err != nil {
		var result *Error
		if !errors.As(err, &missing) && !errors.As(err, &result) {
			t.Errorf("Open: %v (%T)", err, err)
		}
	}
}

func TestOpenFailsWithTheDriversWords(t *testing.T) {
	s := newScript(t)
	s.fail(SymInit, NoDevice)
	name, text := []byte("CUDA_ERROR_NO_DEVICE\x00"), []byte("no CUDA-capable device is detected\x00")
	s.answer(SymGetErrorName, func(a []uintptr) Result { *at[*byte](a[1]) = &name[0]; return Success })
	s.answer(SymGetErrorString, func(a []uintptr) Result { *at[*byte](a[1]) = &text[0]; return Success })
	_, err := OpenBackend(s)
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, ErrNoDevice) || e.Call != "cuInit" ||
		e.Text != "no CUDA-capable device is detected" || e.On != "driver for CUDA 13.0" || e.Hint == "" {
		t.Errorf("the error is %+v", err)
	}
}

func TestErrorNamesWithoutTheDriversHelp(t *testing.T) {
	s := newScript(t)
	s.missing[SymGetErrorName], s.missing[SymGetErrorString] = true, true
	s.fail(SymInit, SystemDriverMismatch)
	_, err := OpenBackend(s)
	if err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)") {
		t.Errorf("the error is %v", err)
	}
}

func TestNoDevice(t *testing.T) {
	s := newScript(t)
	s.devices = 0
	d := s.driver()
	if _, err := d.Devices(); !errors.Is(err, ErrNoDevice) {
		t.Errorf("Devices: %v", err)
	}
	if _, err := d.Device("0"); !errors.Is(err, ErrNoDevice) {
		t.Errorf("Device: %v", err)
	}
}

func TestDevices(t *testing.T) {
	s := newScript(t)
	s.answer(SymDeviceGetUUID, func(a []uintptr) Result {
		*at[[16]byte](a[0]) = [16]byte{0xab, byte(a[1] + 1), 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
		return Success
	})
	d := s.driver()
	all := must(d.Devices())(t)
	if len(all) != 2 || all[0] != must(d.Devices())(t)[0] {
		t.Fatalf("devices are %v", all)
	}
	v := all[1]
	if v.Ordinal() != 1 || v.Name() != "Script 1" || v.UUID() != "GPU-ab020203-0405-0607-0809-0a0b0c0d0e0f" ||
		v.PCIAddress() != "0000:a1:00.0" || v.Memory() != 1<<30 {
		t.Errorf("device 1 is %s %s %s, %d bytes", v, v.UUID(), v.PCIAddress(), v.Memory())
	}
	if major, minor := v.ComputeCapability(); major != 75 || minor != 76 {
		t.Errorf("compute capability %d.%d", major, minor)
	}
	for name, want := range map[string]*Device{
		"0": all[0], "1": all[1], "GPU-ab02": all[1], "gpu-AB010203": all[0], v.UUID(): v,
		"0000:a1:00.0": v, "0000:A1:00.0": v, "a1:00.0": v, "00000000:A1:00.0": v,
		"2": nil, "": nil, "GPU-": nil, "GPU-ab": nil, "GPU-ff": nil, "0001:a1:00.0": nil,
	} {
		got, err := d.Device(name)
		if got != want || (want == nil) != errors.Is(err, InvalidDevice) {
			t.Errorf("Device(%q) is %v, %v", name, got, err)
		}
	}
	_, err := d.Device("GPU-ab")
	if err == nil || !strings.Contains(err.Error(), "more than one") || !strings.Contains(err.Error(), v.UUID()) {
		t.Errorf("two GPUs of one prefix: %v", err)
	}
}

// TestMissingSymbols takes each function away in turn and makes the call
// that needs it.
func TestMissingSymbols(t *testing.T) {
	type world struct {
		c *Context
		s *Stream
		e *Event
		m *Module
		k *Function
		b *DeviceMemory
	}
	some := []byte{1, 2, 3, 4}
	uses := map[Symbol]func(world) error{
		SymDeviceGetAttribute:          func(w world) error { _, err := w.c.device.Attribute(1); return err },
		SymDeviceCanAccessPeer:         func(w world) error { _, err := w.c.device.CanAccessPeer(w.c.device); return err },
		SymPrimaryCtxGetState:          func(w world) error { _, err := w.c.device.Active(); return err },
		SymPrimaryCtxRetain:            func(w world) error { _, err := w.c.device.Retain(); return err },
		SymCtxSynchronize:              func(w world) error { return w.c.Synchronize(context.Background()) },
		SymCtxGetStreamPriorityRange:   func(w world) error { _, _, err := w.c.StreamPriorities(); return err },
		SymMemGetInfo:                  func(w world) error { _, _, err := w.c.MemInfo(); return err },
		SymMemAlloc:                    func(w world) error { _, err := w.c.Alloc(1); return err },
		SymMemFree:                     func(w world) error { return w.b.Free() },
		SymMemHostAlloc:                func(w world) error { _, err := w.c.AllocHost(1, 0); return err },
		SymMemHostRegister:             func(w world) error { _, err := w.c.RegisterHost(some, 0); return err },
		SymMemHostGetDevicePointer:     func(w world) error { _, err := w.c.RegisterHost(some, 0); return err },
		SymMemGetHandleForAddressRange: func(w world) error { _, err := w.b.DMABuf(); return err },
		SymMemcpyHtoDAsync:             func(w world) error { return w.s.CopyToDevice(1, some) },
		SymMemcpyDtoHAsync:             func(w world) error { return w.s.CopyToHost(some, 1) },
		SymMemcpyDtoDAsync:             func(w world) error { return w.s.CopyDevice(1, 2, 3) },
		SymMemcpyPeerAsync:             func(w world) error { return w.s.CopyPeer(1, w.c, 2, w.c, 3) },
		SymMemsetD8Async:               func(w world) error { return w.s.Memset8(1, 2, 3) },
		SymMemsetD32Async:              func(w world) error { return w.s.Memset32(1, 2, 3) },
		SymPointerGetAttribute:         func(w world) error { _, err := w.c.PointerInfo(1); return err },
		SymStreamCreateWithPriority:    func(w world) error { _, err := w.c.NewStream(); return err },
		SymStreamDestroy:               func(w world) error { return w.s.Close() },
		SymStreamQuery:                 func(w world) error { return w.s.Wait(context.Background()) },
		SymStreamWaitEvent:             func(w world) error { return w.s.WaitEvent(w.e) },
		SymEventCreate:                 func(w world) error { _, err := w.c.NewEvent(true); return err },
		SymEventDestroy:                func(w world) error { return w.e.Close() },
		SymEventRecord:                 func(w world) error { return w.e.Record(w.s) },
		SymEventQuery:                  func(w world) error { _, err := w.e.Query(); return err },
		SymEventElapsedTime:            func(w world) error { _, err := w.e.ElapsedSince(w.e); return err },
		SymModuleLoadDataEx:            func(w world) error { _, err := w.c.LoadModule(some); return err },
		SymModuleUnload:                func(w world) error { return w.m.Unload() },
		SymModuleGetFunction:           func(w world) error { _, err := w.m.Function("f"); return err },
		SymModuleGetGlobal:             func(w world) error { _, _, err := w.m.Global("g"); return err },
		SymFuncGetAttribute:            func(w world) error { _, err := w.k.Attribute(FunctionRegisters); return err },
		SymFuncSetAttribute:            func(w world) error { return w.k.SetMaxDynamicShared(1) },
		SymOccupancyMaxActiveBlocks:    func(w world) error { _, err := w.k.MaxActiveBlocks(1, 2); return err },
		SymLaunchKernel:                func(w world) error { return w.k.Launch(w.s, LaunchConfig{}, nil) },
		SymLaunchCooperativeKernel:     func(w world) error { return w.k.Launch(w.s, LaunchConfig{Cooperative: true}, nil) },
	}
	for sym, use := range uses {
		t.Run(sym.String(), func(t *testing.T) {
			s := newScript(t)
			c := s.open()
			w := world{c: c, s: must(c.NewStream())(t), e: must(c.NewEvent(true))(t),
				m: must(c.LoadModule(some))(t), b: must(c.Alloc(4096))(t)}
			w.k = must(w.m.Function("f"))(t)
			c.driver.has[sym] = false
			before := s.count(sym)
			err := use(w)
			var missing *MissingSymbolError
			if !errors.As(err, &missing) || missing.Symbol != sym || missing.Have != 13000 {
				t.Errorf("the error is %v", err)
			}
			if s.count(sym) != before {
				t.Error("the missing function was called")
			}
		})
	}
}

func TestPointerInfo(t *testing.T) {
	s := newScript(t)
	c := s.open()
	known := map[uintptr]uint64{
		pointerMemoryType: uint64(MemoryHost), pointerDevicePointer: 0x70, pointerHostPointer: 0x71,
		pointerDeviceOrdinal: 1, pointerRangeStart: 0x60, pointerRangeSize: 0x100, pointerBufferID: 9,
	}
	s.answer(SymPointerGetAttribute, func(a []uintptr) Result {
		if a[2] != 0x71 {
			return InvalidValue
		}
		v, ok := known[a[1]]
		if !ok {
			return NotSupported
		}
		*at[uint64](a[0]) = v
		return Success
	})
	got := must(c.PointerInfo(0x71))(t)
	want := PointerInfo{Type: MemoryHost, Device: 1, DevicePtr: 0x70, HostPtr: 0x71, Start: 0x60, Size: 0x100, BufferID: 9}
	if got != want {
		t.Errorf("pointer info is %+v", got)
	}
	if got := must(c.PointerInfo(0x5))(t); got.Type != MemoryUnknown || got.Device != -1 {
		t.Errorf("of an unknown address it is %+v", got)
	}
	s.fail(SymPointerGetAttribute, InvalidContext)
	if _, err := c.PointerInfo(0x71); !errors.Is(err, InvalidContext) {
		t.Errorf("an error that is not about the address: %v", err)
	}
}

// TestPointersStayInPlace moves the caller's stack during the call, as the
// runtime may do at any time, and then writes through the addresses. Who holds an
// address into the old stack does not see what is written.
func TestPointersStayInPlace(t *testing.T) {
	s := newScript(t)
	c := s.open()
	stream := must(c.NewStream())(t)
	write := func(arg int) func([]uintptr) Result {
		return func(a []uintptr) Result {
			growStack(1000)
			*at[uint64](a[arg]) = 5
			return Success
		}
	}
	s.answer(SymMemcpyHtoDAsync, write(1))
	s.answer(SymMemcpyDtoHAsync, write(0))
	s.answer(SymMemcpyBatchAsyncV2, func(a []uintptr) Result {
		return max(write(0)(a), write(1)(a), write(2)(a))
	})
	s.answer(SymMemGetInfo, write(1))
	for name, call := range map[string]func() (uint64, error){
		"CopyToDevice": func() (uint64, error) {
			var b [8]byte
			err := stream.CopyToDevice(1, b[:])
			return uint64(b[0]), err
		},
		"CopyToHost": func() (uint64, error) {
			var b [8]byte
			err := stream.CopyToHost(b[:], 1)
			return uint64(b[0]), err
		},
		"CopyBatch": func() (uint64, error) {
			var d, f, n [1]uint64
			err := stream.CopyBatch(&CopyBatch{Dst: d[:], Src: f[:], Size: n[:]})
			return min(d[0], f[0], n[0]), err
		},
		"MemInfo": func() (uint64, error) { _, total, err := c.MemInfo(); return total, err },
	} {
		done := make(chan struct{})
		go func() { // a new goroutine has a small stack
			defer close(done)
			if got, err := call(); got != 5 || err != nil {
				t.Errorf("%s: the driver wrote elsewhere: %d, %v", name, got, err)
			}
		}()
		<-done
	}
}

func growStack(n int) byte {
	var block [512]byte
	if n == 0 {
		return block[0]
	}
	block[n%512] = growStack(n - 1)
	return block[(n+1)%512]
}

func TestLayouts(t *testing.T) {
	if n := unsafe.Sizeof(copyAttributes{}); n != 24 {
		t.Errorf("CUmemcpyAttributes has 24 bytes, not %d", n)
	}
	var a copyAttributes
	if unsafe.Offsetof(a.srcType) != 4 || unsafe.Offsetof(a.destType) != 12 || unsafe.Offsetof(a.flags) != 20 {
		t.Error("the fields of CUmemcpyAttributes are elsewhere")
	}
}
