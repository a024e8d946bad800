package cudafake

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/cuda"
)

// TestAllocation checks sizes, alignment, limits, poison and frees.
func TestAllocation(t *testing.T) {
	r := newRaw(t, WithDevice(DeviceSpec{Memory: 8 << 20}))
	for _, n := range []uint64{1, 255, 256, 4096, 4097, 65536, 1 << 20, 2 << 20, 3 << 20} {
		a := r.alloc(n)
		if a%granule != 0 || n >= 4096 && n%65536 == 0 && a%65536 != 0 {
			t.Errorf("%d bytes at %#x", n, a)
		}
		if b := view(a, n); b[0] != Poison || b[n-1] != Poison {
			t.Errorf("%d bytes are not poisoned", n)
		}
		r.ok(cuda.SymMemFree, a)
	}
	r.is(cuda.InvalidValue, cuda.SymMemAlloc, newCell().at(), 0)
	r.is(cuda.OutOfMemory, cuda.SymMemAlloc, newCell().at(), 9<<20)
	r.is(cuda.OutOfMemory, cuda.SymMemAlloc, newCell().at(), ^uintptr(0))
	r.ok(cuda.SymMemFree, 0)
	r.ok(cuda.SymMemFreeHost, 0)
	r.clean()

	a := r.alloc(4096)
	free, total := newCell(), newCell()
	r.ok(cuda.SymMemGetInfo, free.at(), total.at())
	if free.u64() != 8<<20-4096 || total.u64() != 8<<20 {
		t.Errorf("%d of %d bytes free", free.u64(), total.u64())
	}
	r.is(cuda.InvalidValue, cuda.SymMemFree, a+256)
	r.violates("a free inside of an allocation")
	r.ok(cuda.SymMemFree, a)
	r.is(cuda.InvalidValue, cuda.SymMemFree, a)
	r.violates("a double free")
}

// TestAddressesRest checks that freed addresses are not handed out at once,
// and that they come back before the address space ends.
func TestAddressesRest(t *testing.T) {
	r := newRaw(t, WithDevice(DeviceSpec{Memory: 64 << 20}))
	seen := make(map[uintptr]bool)
	repeats := 0
	for range 1000 {
		a := r.alloc(1 << 20)
		if seen[a] {
			repeats++
		}
		seen[a] = true
		r.ok(cuda.SymMemFree, a)
	}
	if repeats == 0 || len(seen) < 300 {
		t.Errorf("%d addresses, %d repeats: want many, and some", len(seen), repeats)
	}
}

// touchFaults says whether f touches memory that is not there.
func touchFaults(f func()) (fault bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { fault = recover() != nil }()
	f()
	return false
}

// TestGuards overruns allocations with raw pointers, and uses them when freed.
func TestGuards(t *testing.T) {
	r := newRaw(t)
	page := uint64(r.g.deviceArena.page)
	for _, n := range []uint64{1000, page, 3 * page} {
		a, h := r.alloc(n), addr(r.pinned(n))
		for _, at := range []uintptr{a, h} {
			end := at + uintptr((n+granule-1)&^(granule-1))
			if !touchFaults(func() { view(end, 1)[0] = 1 }) {
				t.Errorf("%d bytes: a write %d bytes from the start does not fault", n, end-at)
			}
		}
		r.ok(cuda.SymMemFree, a)
		r.ok(cuda.SymMemFreeHost, h)
		if !touchFaults(func() { runtime.KeepAlive(view(a, 1)[0]) }) || !touchFaults(func() { runtime.KeepAlive(view(h, 1)[0]) }) {
			t.Errorf("%d bytes: a read after the free does not fault", n)
		}
	}
	r.clean()
	for _, at := range []int{-1, 1000} {
		a := r.alloc(1000)
		view(a+uintptr(at), 1)[0] = 1
		r.ok(cuda.SymMemFree, a)
		r.violates("a write beside the allocation")
	}
}

// TestHostRegister registers memory in the ways that an H200's driver was seen
// to take or refuse.
func TestHostRegister(t *testing.T) {
	r := newRaw(t)
	dev, pin, m := r.alloc(4096), addr(r.pinned(4096)), addr(r.pages(1<<20))
	const k = 1024
	for _, row := range []struct {
		name       string
		addr, n, f uintptr
		want       cuda.Result
	}{
		{"a range", m, 256 * k, 3, cuda.Success},
		{"it again", m, 256 * k, 3, cuda.HostMemoryAlreadyRegistered},
		{"a part of it", m + 4*k, k, 3, cuda.HostMemoryAlreadyRegistered},
		{"across its end", m + 128*k, 256 * k, 3, cuda.HostMemoryAlreadyRegistered},
		{"beside it", m + 256*k, 256 * k, 3, cuda.Success},
		{"around another", m + 500*k, 100 * k, 3, cuda.HostMemoryAlreadyRegistered},
		{"unaligned", m + 700*k + 100, 1000, 3, cuda.Success},
		{"unaligned on the same page", m + 700*k + 2000, 1000, 3, cuda.Success},
		{"nothing", m + 800*k, 0, 3, cuda.InvalidValue},
		{"device memory", dev, 4096, 3, cuda.InvalidValue},
		{"pinned memory", pin, 4096, 3, cuda.InvalidValue},
		{"unknown flags", m + 800*k, 4096, 64, cuda.InvalidValue},
		{"read-only", m + 800*k, 4096, 8, cuda.Success},
		{"a device's memory that is none", m + 900*k, 4096, 4, cuda.InvalidValue},
		{"page 0", 0, 4096, 3, cuda.InvalidValue},
	} {
		if got := r.call(cuda.SymMemHostRegister, row.addr, row.n, row.f); got != row.want {
			t.Errorf("%s: %d, want %d", row.name, got, row.want)
		}
	}
	r.clean()
	r.is(cuda.InvalidValue, cuda.SymMemHostUnregister, m+4*k)
	r.violates("not the start")
	r.is(cuda.HostMemoryNotRegistered, cuda.SymMemHostUnregister, m+950*k)
	r.violates("not registered")
	r.is(cuda.InvalidValue, cuda.SymMemHostUnregister, pin)
	r.violates("other memory")
	r.is(cuda.InvalidValue, cuda.SymMemFreeHost, m)
	r.violates("not allocated")
	if p := r.out(cuda.SymMemHostGetDevicePointer, m+100, 0); p != m+100 {
		t.Errorf("device pointer %#x of %#x", p, m+100)
	}
	r.is(cuda.InvalidValue, cuda.SymMemHostGetDevicePointer, newCell().at(), m+950*k, 0)
	for _, a := range []uintptr{m, m + 256*k, m + 700*k + 100, m + 700*k + 2000, m + 800*k} {
		r.ok(cuda.SymMemHostUnregister, a)
	}
	r.clean()
}

// TestPinnedLimit runs into the limit by both calls, and gets room back.
func TestPinnedLimit(t *testing.T) {
	r := newRaw(t, PinnedLimit(1<<20))
	m := addr(r.pages(1 << 20))
	h := addr(r.pinned(512 << 10))
	r.is(cuda.OutOfMemory, cuda.SymMemHostRegister, m, 768<<10, 3)
	r.is(cuda.OutOfMemory, cuda.SymMemHostAlloc, newCell().at(), 768<<10, 3)
	r.ok(cuda.SymMemHostRegister, m, 512<<10, 3)
	r.is(cuda.OutOfMemory, cuda.SymMemHostAlloc, newCell().at(), 1, 3)
	r.ok(cuda.SymMemFreeHost, h)
	r.ok(cuda.SymMemHostUnregister, m)
	r.ok(cuda.SymMemHostRegister, m, 1<<20, 3)
}

// TestPointerAttributes asks about each kind of memory.
func TestPointerAttributes(t *testing.T) {
	r := newRaw(t)
	m := r.pages(8192)
	r.ok(cuda.SymMemHostRegister, addr(m), 8192, 3)
	dev, pin := r.alloc(1000), addr(r.pinned(500))
	for _, row := range []struct {
		addr, base uintptr
		size       uint64
		kind       uint32
	}{{dev + 10, dev, 1000, 2}, {pin + 10, pin, 500, 1}, {addr(m) + 4096, addr(m), 8192, 1}} {
		get := func(a uintptr) uint64 { return uint64(r.out(cuda.SymPointerGetAttribute, a, row.addr)) }
		if uint32(get(pointerMemoryType)) != row.kind || get(pointerRangeStart) != uint64(row.base) || get(pointerRangeSize) != row.size ||
			get(pointerContext) != uint64(r.ctx) || get(pointerDevice) != uint64(row.addr) || get(pointerMapped) != 1 || get(pointerManaged) != 0 {
			t.Errorf("attributes of %#x are wrong", row.addr)
		}
		if want := cuda.Result(0); row.kind == 2 {
			want = cuda.InvalidValue
			r.is(want, cuda.SymPointerGetAttribute, newCell().at(), pointerHost, row.addr)
		} else if get(pointerHost) != uint64(row.addr) {
			t.Errorf("host pointer of %#x is another", row.addr)
		}
	}
	for _, a := range []uintptr{0x1000, dev + 1000, addr(m) + 8192} {
		r.is(cuda.InvalidValue, cuda.SymPointerGetAttribute, newCell().at(), pointerMemoryType, a)
	}
}

// TestPointersOfAnotherContext: what one context has registered for itself, the
// kernels of another have no address for.
func TestPointersOfAnotherContext(t *testing.T) {
	r := newRaw(t, Devices(2))
	m := r.pages(3 * 4096)
	own, portable, allocated := addr(m), addr(m)+4096, addr(r.pinned(4096))
	r.ok(cuda.SymMemHostRegister, own, 4096, hostMapped)
	r.ok(cuda.SymMemHostRegister, portable, 4096, hostMapped|hostPortable)
	k := r.kernel("touch")
	r.g.RegisterKernel("touch", func(l *Launch) error { _, err := l.Memory(l.U64(0), 8); return err })
	s := r.stream()
	for _, a := range []uintptr{own, portable, allocated} {
		if got := r.out(cuda.SymPointerGetAttribute, pointerDevice, a); got != a {
			t.Errorf("address %#x in its own context is %#x", a, got)
		}
		r.launch(k, s, uint64(a))
		r.sync(s)
	}
	r.clean()

	r.ok(cuda.SymCtxSetCurrent, r.out(cuda.SymPrimaryCtxRetain, 1))
	for _, a := range []uintptr{portable, allocated} {
		if got := r.out(cuda.SymPointerGetAttribute, pointerDevice, a); got != a {
			t.Errorf("address %#x in another context is %#x", a, got)
		}
	}
	r.is(cuda.InvalidValue, cuda.SymPointerGetAttribute, newCell().at(), pointerDevice, own)
	r.is(cuda.InvalidValue, cuda.SymMemHostGetDevicePointer, newCell().at(), own, 0)
	if got := uint32(r.out(cuda.SymPointerGetAttribute, pointerMemoryType, own)); got != 1 {
		t.Errorf("its type there is %d", got)
	}
	k, s = r.kernel("touch"), r.stream()
	r.launch(k, s, uint64(portable))
	r.sync(s)
	r.clean()
	r.launch(k, s, uint64(own))
	r.is(cuda.IllegalAddress, cuda.SymStreamSynchronize, s)
	r.violates("registered memory of another context")
}

// TestNoPointerRange is a driver that does not say where allocations end.
func TestNoPointerRange(t *testing.T) {
	r := newRaw(t, NoPointerRange())
	a := r.alloc(1000)
	for _, attribute := range []uintptr{pointerRangeStart, pointerRangeSize} {
		r.is(cuda.NotSupported, cuda.SymPointerGetAttribute, newCell().at(), attribute, a)
	}
	if r.out(cuda.SymPointerGetAttribute, pointerDevice, a) != a {
		t.Error("the rest is not known either")
	}
}

// TestDMABuf maps exported device memory a second time.
func TestDMABuf(t *testing.T) {
	r := newRaw(t)
	r.is(cuda.NotSupported, cuda.SymMemGetHandleForAddressRange, newCell().at(), r.alloc(1<<20), 1<<20, 1, 0)
	r = newRaw(t, DMABuf())
	a := r.alloc(1 << 20)
	for _, row := range [][4]uintptr{{a, 100, 1, 0}, {a + 256, 4096, 1, 0}, {a, 2 << 20, 1, 0}, {a, 4096, 2, 0}, {addr(r.pinned(4096)), 4096, 1, 0}} {
		r.is(cuda.InvalidValue, cuda.SymMemGetHandleForAddressRange, newCell().at(), row[0], row[1], row[2], row[3])
	}
	fd := int(int32(r.out(cuda.SymMemGetHandleForAddressRange, a, 1<<20, 1, 0)))
	m, err := unix.Mmap(fd, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	view(a, 10)[3] = 77
	if m[3] != 77 || m[5] != Poison {
		t.Errorf("the other mapping holds %d and %d", m[3], m[5])
	}
	r.ok(cuda.SymMemFree, a)
	if m[3] != 77 {
		t.Error("the export died with the allocation")
	}
	if err := unix.Munmap(m); err != nil {
		t.Error(err)
	}
	if err := unix.Close(fd); err != nil {
		t.Error(err)
	}
	r.clean()
}

// TestFill checks the doubling copies.
func TestFill(t *testing.T) {
	for n := range 100 {
		b := make([]byte, n)
		fill(b, 9)
		if !bytes.Equal(b, bytes.Repeat([]byte{9}, n)) || !all(b, 9) {
			t.Errorf("%d bytes: %v", n, b)
		}
		for i := range b {
			b[i] = 8
			if all(b, 9) {
				t.Errorf("byte %d of %d changed unseen", i, n)
			}
			b[i] = 9
		}
	}
}

// mappings counts the process's mappings that the arenas have a part in.
func (r *raw) mappings() int {
	r.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		r.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
			continue
		}
		if d, h := r.g.deviceArena, r.g.hostArena; from < d.base+d.size && to > d.base || from < h.base+h.size && to > h.base {
			n++
		}
	}
	return n
}

// TestFreedMemoryLeavesNoMapping allocates and frees in random order: at the
// end each arena is one mapping again, so that counts of mappings can tell
// leaks of the code under test.
func TestFreedMemoryLeavesNoMapping(t *testing.T) {
	r := newRaw(t)
	before := r.mappings()
	rng := rand.New(rand.NewPCG(r.g.Seed(), 5))
	var dev, pin []uintptr
	drop := func(list *[]uintptr, free cuda.Symbol) {
		i := rng.IntN(len(*list))
		r.ok(free, (*list)[i])
		*list = slices.Delete(*list, i, i+1)
	}
	for range 300 {
		n := 1 + rng.Uint64N(64<<10)
		dev, pin = append(dev, r.alloc(n)), append(pin, addr(r.pinned(n)))
		if len(dev) > 20 {
			drop(&dev, cuda.SymMemFree)
			drop(&pin, cuda.SymMemFreeHost)
		}
	}
	if during := r.mappings(); during <= before+40 {
		t.Errorf("%d mappings before and %d with 40 allocations: the count sees nothing", before, during)
	}
	for len(dev) > 0 {
		drop(&dev, cuda.SymMemFree)
		drop(&pin, cuda.SymMemFreeHost)
	}
	if after := r.mappings(); after != before {
		t.Errorf("%d mappings in the arenas before, %d after", before, after)
	}
	r.clean()
}
