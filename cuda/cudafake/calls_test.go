package cudafake

import (
	"runtime"
	"testing"

	"github.com/tritier/tritier/cuda"
)

// TestEverySymbolIsAnswered checks that each function has a handler, that a
// wrong number of arguments is refused, and what comes before cuInit.
func TestEverySymbolIsAnswered(t *testing.T) {
	r := bareRaw(t)
	for _, s := range cuda.Symbols() {
		e, ok := entries[s]
		if !ok || e.handle == nil {
			t.Errorf("%v has no handler", s)
			continue
		}
		r.is(cuda.InvalidValue, s, make([]uintptr, e.args+1)...)
		r.violates("the number of arguments")
		want := cuda.NotInitialized
		if e.needs == nothing {
			continue
		}
		r.is(want, s, make([]uintptr, e.args)...)
	}
	r.ok(cuda.SymInit, 0)
	for _, s := range cuda.Symbols() {
		if e := entries[s]; e.needs == current {
			r.is(cuda.InvalidContext, s, make([]uintptr, e.args)...)
		}
		if r.g.Calls(s) == 0 {
			t.Errorf("calls of %v are not counted", s)
		}
	}
	r.clean()
}

// TestNullWhereAResultGoes passes NULL for every pointer that a call writes to.
func TestNullWhereAResultGoes(t *testing.T) {
	r := newRaw(t)
	for _, s := range cuda.Symbols() {
		if e := entries[s]; len(e.out) > 0 {
			r.is(cuda.InvalidValue, s, make([]uintptr, e.args)...)
		}
	}
}

// TestVersions checks which functions a driver of a version has.
func TestVersions(t *testing.T) {
	for _, row := range []struct {
		version int
		symbol  cuda.Symbol
		has     bool
	}{
		{13000, cuda.SymMemcpyBatchAsyncV2, true},
		{13000, cuda.SymMemcpyBatchAsync, true},
		{12080, cuda.SymMemcpyBatchAsyncV2, false},
		{12080, cuda.SymMemcpyBatchAsync, true},
		{12060, cuda.SymMemcpyBatchAsync, false},
		{11060, cuda.SymMemGetHandleForAddressRange, false},
		{11060, cuda.SymMemAlloc, true},
	} {
		g := New(Version(row.version))
		if g.Has(row.symbol) != row.has {
			t.Errorf("CUDA %d has %v: %v, want %v", row.version, row.symbol, !row.has, row.has)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	r := bareRaw(t, Without(cuda.SymMemAlloc))
	r.is(cuda.NotFound, cuda.SymMemAlloc, 0, 0)
	r.violates("a missing function is called")
}

// TestDevices checks what is said about devices.
func TestDevices(t *testing.T) {
	r := bareRaw(t, Devices(2), WithDevice(DeviceSpec{Name: "odd", PCI: "0001:af:00.0", Memory: 1 << 20,
		Attributes: map[cuda.Attribute]int{cuda.MultiprocessorCount: 3}}))
	r.ok(cuda.SymInit, 0)
	if n := r.out(cuda.SymDeviceGetCount); n != 3 {
		t.Errorf("%d devices, want 3", n)
	}
	r.is(cuda.InvalidDevice, cuda.SymDeviceGet, newCell().at(), 3)
	r.is(cuda.InvalidDevice, cuda.SymDeviceGet, newCell().at(), ^uintptr(0))
	buf := make([]byte, 16)
	r.ok(cuda.SymDeviceGetName, addr(buf), 16, 2)
	if string(buf[:4]) != "odd\x00" {
		t.Errorf("name %q", buf)
	}
	r.is(cuda.InvalidValue, cuda.SymDeviceGetPCIBusID, addr(buf), 8, 2)
	r.ok(cuda.SymDeviceGetPCIBusID, addr(buf), 16, 2)
	if string(buf[:13]) != "0001:af:00.0\x00" {
		t.Errorf("PCI address %q", buf)
	}
	for a, want := range map[cuda.Attribute]uintptr{cuda.MultiprocessorCount: 3, cuda.PCIDomainID: 1, cuda.PCIBusID: 0xaf, cuda.WarpSize: 32, 147: 0} {
		if got := r.out(cuda.SymDeviceGetAttribute, uintptr(a), 2); got != want {
			t.Errorf("attribute %d is %d, want %d", a, got, want)
		}
	}
	r.is(cuda.InvalidValue, cuda.SymDeviceGetAttribute, newCell().at(), 9999, 0)
	if m := r.out(cuda.SymDeviceTotalMem, 2); m != 1<<20 {
		t.Errorf("%d bytes of memory", m)
	}
	other := make([]byte, 16)
	r.ok(cuda.SymDeviceGetUUID, addr(buf), 0)
	r.ok(cuda.SymDeviceGetUUID, addr(other), 1)
	if string(buf) == string(other) {
		t.Error("two devices have the same UUID")
	}
	runtime.KeepAlive(buf)
	bareRaw(t, Devices(0)).is(cuda.NoDevice, cuda.SymInit, 0)
}

// TestResultTexts checks names, and that package cuda knows which results lose
// a context.
func TestResultTexts(t *testing.T) {
	r := bareRaw(t)
	c := newCell()
	r.ok(cuda.SymGetErrorName, uintptr(cuda.OutOfMemory), c.at())
	if s, _ := text(uintptr(c.u64()), 100); s != "CUDA_ERROR_OUT_OF_MEMORY" {
		t.Errorf("name %q", s)
	}
	r.ok(cuda.SymGetErrorString, uintptr(cuda.OutOfMemory), c.at())
	if s, _ := text(uintptr(c.u64()), 100); s != "out of memory" {
		t.Errorf("text %q", s)
	}
	r.is(cuda.InvalidValue, cuda.SymGetErrorName, 12345, c.at())
	if c.u64() != 0 {
		t.Error("an unknown result has a name")
	}
	for res := range resultTexts {
		// That one is the state of a context and not what brought it there.
		if res != cuda.ContextIsDestroyed && res.Sticky() != lasting[res] {
			t.Errorf("%v: sticky is %v, the fake thinks %v", res, res.Sticky(), lasting[res])
		}
	}
}

// TestPrimaryContext follows the life of a device's primary context.
func TestPrimaryContext(t *testing.T) {
	r := bareRaw(t)
	r.ok(cuda.SymInit, 0)
	active := func() uint32 {
		f, a := newCell(), newCell()
		r.ok(cuda.SymPrimaryCtxGetState, 0, f.at(), a.at())
		return uint32(a.u64())
	}
	r.is(cuda.InvalidContext, cuda.SymPrimaryCtxRelease, 0)
	ctx := r.out(cuda.SymPrimaryCtxRetain, 0)
	if again := r.out(cuda.SymPrimaryCtxRetain, 0); again != ctx || active() != 1 {
		t.Error("retaining twice gives two contexts, or none is active")
	}
	r.is(cuda.InvalidContext, cuda.SymCtxSetCurrent, ctx+1)
	r.ok(cuda.SymCtxSetCurrent, ctx)
	if r.out(cuda.SymCtxGetCurrent) != ctx {
		t.Error("the context is not current")
	}
	elsewhere := make(chan cuda.Result)
	go func() {
		runtime.LockOSThread()
		elsewhere <- r.call(cuda.SymMemAlloc, newCell().at(), 10)
	}()
	if got := <-elsewhere; got != cuda.InvalidContext {
		t.Errorf("on another thread: %d", got)
	}
	r.ok(cuda.SymPrimaryCtxRelease, 0)
	r.alloc(10)
	r.ok(cuda.SymPrimaryCtxRelease, 0)
	if active() != 0 {
		t.Error("active after the last release")
	}
	r.is(cuda.ContextIsDestroyed, cuda.SymMemAlloc, newCell().at(), 10)
	if again := r.out(cuda.SymPrimaryCtxRetain, 0); again != ctx {
		t.Error("the handle has changed")
	}
	r.alloc(10) // it is current still
	if l := r.g.Leaks(); len(l) != 3 {
		t.Errorf("leaks %q, want the memory lost with the first life, the context, its memory", l)
	}
}
