package cudafake

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier/cuda"
)

const pokePTX = ptxHead + `
.visible .entry poke(.param .u64 a, .param .u32 v) { ret; }
.visible .entry small(.param .u64 a) .maxntid 64, 1, 1 { .shared .align 4 .b8 sh[1024]; ret; }
.visible .entry none() { ret; }
`

// kernels loads pokePTX and gives its kernels.
func (r *raw) kernels() (poke, small, none uintptr) {
	r.Helper()
	got, log, m := r.load(pokePTX, 200)
	if got != cuda.Success {
		r.Fatal(log)
	}
	f := func(name string) uintptr { return r.out(cuda.SymModuleGetFunction, m, addr(append([]byte(name), 0))) }
	return f("poke"), f("small"), f("none")
}

// TestLaunchArguments makes the launches that an H200's driver was seen to
// take or refuse; it reads beyond too small a parameter block, which is
// refused here.
func TestLaunchArguments(t *testing.T) {
	r := newRaw(t)
	poke, small, none := r.kernels()
	for _, name := range []string{"poke", "small", "none"} {
		r.g.RegisterKernel(name, func(*Launch) error { return nil })
	}
	s, value := r.stream(), words(0, 0)
	list := words(addr(value), addr(value))
	extra := func(n uint64) uintptr {
		return addr(words(1, addr(make([]byte, 64)), 2, addr(words(uintptr(n))), 0))
	}
	const ok, bad = cuda.Success, cuda.InvalidValue
	type shape [7]uintptr // grid, block, shared
	one := shape{1, 1, 1, 1, 1, 1, 0}
	for _, row := range []struct {
		name          string
		f             uintptr
		shape         shape
		params, extra uintptr
		want          cuda.Result
	}{
		{"a pointer each", poke, one, addr(list), 0, ok},
		{"a buffer", poke, one, 0, extra(12), ok},
		{"too large a buffer", poke, one, 0, extra(16), cuda.LaunchOutOfResources},
		{"both", poke, one, addr(list), extra(12), bad},
		{"neither", poke, one, 0, 0, bad},
		{"neither, for none", none, one, 0, 0, ok},
		{"an unknown key", poke, one, 0, addr(words(9, 0, 0)), bad},
		{"no grid", poke, shape{0, 1, 1, 1, 1, 1, 0}, addr(list), 0, bad},
		{"no threads", poke, shape{1, 1, 1, 1, 0, 1, 0}, addr(list), 0, bad},
		{"1025 threads", poke, shape{1, 1, 1, 1025, 1, 1, 0}, addr(list), 0, bad},
		{"2048 threads", poke, shape{1, 1, 1, 64, 32, 1, 0}, addr(list), 0, bad},
		{"65 in z", poke, shape{1, 1, 1, 1, 1, 65, 0}, addr(list), 0, bad},
		{"65536 blocks in y", poke, shape{1, 65536, 1, 1, 1, 1, 0}, addr(list), 0, bad},
		{"a large grid", poke, shape{1 << 30, 65535, 65535, 1, 1, 1, 0}, addr(list), 0, ok},
		{"above .maxntid", small, shape{1, 1, 1, 128, 1, 1, 0}, addr(list), 0, bad},
		{"all shared memory", poke, shape{1, 1, 1, 1, 1, 1, 49152}, addr(list), 0, ok},
		{"more", poke, shape{1, 1, 1, 1, 1, 1, 49153}, addr(list), 0, bad},
		{"more with the static", small, shape{1, 1, 1, 1, 1, 1, 49152}, addr(list), 0, bad},
	} {
		args := append(append([]uintptr{row.f}, row.shape[:]...), s, row.params, row.extra)
		if got := r.call(cuda.SymLaunchKernel, args...); got != row.want {
			t.Errorf("%s: %d, want %d", row.name, got, row.want)
		}
	}
	r.clean()
	r.is(bad, cuda.SymLaunchKernel, poke, 1, 1, 1, 1, 1, 1, 0, s, 0, extra(8))
	r.violates("too small a buffer")
	r.is(cooperativeLaunchTooBig, cuda.SymLaunchCooperativeKernel, poke, 100000, 1, 1, 32, 1, 1, 0, s, addr(list))
	r.ok(cuda.SymLaunchCooperativeKernel, poke, 4, 1, 1, 32, 1, 1, 0, s, addr(list))
	r.is(cuda.InvalidHandle, cuda.SymLaunchKernel, poke+1, 1, 1, 1, 1, 1, 1, 0, s, addr(list), 0)
	r.violates("no function")
	r.sync(s)
}

// TestFunctionAttributes compares with the answers of an H200's driver.
func TestFunctionAttributes(t *testing.T) {
	r := newRaw(t)
	poke, small, _ := r.kernels()
	for a, want := range map[uintptr]uintptr{0: 64, 1: 1024, 2: 0, 3: 0, 5: 70, 6: 90, 8: 48128, 9: 0xffffffff} {
		if got := r.out(cuda.SymFuncGetAttribute, a, small); got != want {
			t.Errorf("attribute %d is %d, want %d", a, got, want)
		}
	}
	r.is(cuda.InvalidValue, cuda.SymFuncGetAttribute, newCell().at(), 99, small)
	offset, size := newCell(), newCell()
	r.ok(cuda.SymFuncGetParamInfo, poke, 0, offset.at(), size.at())
	if offset.u64() != 0 || size.u64() != 8 {
		t.Errorf("the parameter is %d bytes at %d", size.u64(), offset.u64())
	}
	r.is(cuda.InvalidValue, cuda.SymFuncGetParamInfo, poke, 2, offset.at(), 0)
	r.ok(cuda.SymFuncSetAttribute, poke, 8, 200000)
	r.is(cuda.InvalidValue, cuda.SymFuncSetAttribute, poke, 8, 300000)
	r.is(cuda.InvalidValue, cuda.SymFuncSetAttribute, poke, 4, 3)
	if got := r.out(cuda.SymFuncGetAttribute, 8, poke); got != 200000 {
		t.Errorf("%d bytes of dynamic shared memory, want 200000", got)
	}
	for _, row := range []struct{ threads, shared, want uintptr }{{256, 0, 8}, {256, 100000, 2}, {2048, 0, 0}, {32, 0, 32}} {
		if got := r.out(cuda.SymOccupancyMaxActiveBlocks, poke, row.threads, row.shared); got != row.want {
			t.Errorf("%d blocks of %d threads and %d bytes, want %d", got, row.threads, row.shared, row.want)
		}
	}
	r.is(cuda.InvalidValue, cuda.SymOccupancyMaxActiveBlocks, newCell().at(), poke, 0, 0)
}

// TestKernelFaults ends kernels badly in each way.
func TestKernelFaults(t *testing.T) {
	for _, row := range []struct {
		name string
		run  func(l *Launch) error
		want cuda.Result
		note string
	}{
		{"outside", func(l *Launch) error { _, err := l.Memory(l.U64(0)+1, 64); return err }, cuda.IllegalAddress, "behind the start of device memory"},
		{"nowhere", func(l *Launch) error { _, err := l.Memory(0x10, 4); return err }, cuda.IllegalAddress, "no allocation is near"},
		{"around the end of memory", func(l *Launch) error { _, err := l.Memory(l.U64(0), ^uint64(0)); return err }, cuda.IllegalAddress, "illegal access"},
		{"misaligned", func(l *Launch) error { _, err := l.Word32(l.U64(0) + 2); return err }, cuda.MisalignedAddress, "not aligned"},
		{"an error of its own", func(*Launch) error { return errors.New("odd") }, cuda.LaunchFailed, "odd"},
		{"a result", func(*Launch) error { return fmt.Errorf("asserted: %w", cuda.Assert) }, cuda.Assert, "asserted"},
		{"a panic", func(l *Launch) error { l.Params[99] = 0; return nil }, cuda.LaunchFailed, "index out of range"},
		{"parameters it has not", func(l *Launch) error { l.U32(8); return nil }, cuda.LaunchFailed, "at 8: it has 8"},
		{"a wild pointer", func(l *Launch) error {
			view(uintptr(l.U64(0)), 1<<20)[64] = 1 // a guard page
			return nil
		}, cuda.LaunchFailed, "panic: "},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRaw(t)
			s, d := r.stream(), r.alloc(granule)
			r.g.RegisterKernel("k", row.run)
			k := r.kernel("k")
			r.launch(k, s, uint64(d)+granule-64)
			r.is(row.want, cuda.SymStreamSynchronize, s)
			r.is(row.want, cuda.SymMemFree, d)
			if v := r.g.Violations(); len(v) != 1 || !strings.Contains(v[0], row.note) || !strings.Contains(v[0], "kernel k") {
				t.Errorf("violations %q, want one with %q", v, row.note)
			}
		})
	}
}

// TestKernelMemory lets a kernel see all kinds of memory, and a range over two
// registrations that adjoin.
func TestKernelMemory(t *testing.T) {
	r := newRaw(t)
	m := r.pages(8192)
	r.ok(cuda.SymMemHostRegister, addr(m), 4096, 3)
	r.ok(cuda.SymMemHostRegister, addr(m)+4096, 4096, 3)
	s, d, h := r.stream(), r.alloc(64), addr(r.pinned(64))
	r.g.RegisterKernel("k", func(l *Launch) error {
		for _, a := range []uint64{uint64(d), uint64(h), l.U64(0) + 4064} {
			b, err := l.Memory(a, 64)
			if err != nil {
				return err
			}
			fill(b, 7)
		}
		w, err := l.Word64(uint64(d))
		if err == nil {
			atomic.AddUint64(w, 1)
		}
		return err
	})
	r.launch(r.kernel("k"), s, uint64(addr(m)))
	r.sync(s)
	if view(d, 1)[0] != 8 || view(h, 1)[0] != 7 || m[4064] != 7 || m[4127] != 7 || m[4128] == 7 {
		t.Error("the kernel did not write where it should")
	}
	r.clean()
}

// TestKernelTalksToTheHost runs a kernel that waits for the host through
// pinned memory, while other streams go on.
func TestKernelTalksToTheHost(t *testing.T) {
	r := newRaw(t)
	a, b, d, flags := r.stream(), r.stream(), r.alloc(64), r.pinned(8)
	fill(flags, 0)
	r.g.RegisterKernel("k", func(l *Launch) error {
		door, err := l.Word32(l.U64(0))
		if err != nil {
			return err
		}
		reply, err := l.Word32(l.U64(0) + 4)
		if err != nil {
			return err
		}
		for atomic.LoadUint32(door) == 0 {
			select {
			case <-l.Done():
				return nil
			default:
				runtime.Gosched()
			}
		}
		atomic.StoreUint32(reply, 2)
		return nil
	})
	r.launch(r.kernel("k"), a, uint64(addr(flags)))
	r.ok(cuda.SymMemsetD8Async, d, 1, 64, b)
	r.sync(b)
	r.is(cuda.NotReady, cuda.SymStreamQuery, a)
	atomic.StoreUint32(word32(flags), 1)
	for limit := time.Now().Add(10 * time.Second); atomic.LoadUint32(word32(flags[4:])) != 2; {
		if time.Now().After(limit) {
			t.Fatal("the kernel does not answer")
		}
		runtime.Gosched()
	}
	r.sync(a)
	r.clean()
}

// TestPeers reaches the memory of another device, before and after it is
// allowed.
func TestPeers(t *testing.T) {
	r := newRaw(t, Devices(2))
	other := r.out(cuda.SymPrimaryCtxRetain, 1)
	r.ok(cuda.SymCtxSetCurrent, other)
	there, foreign := r.alloc(64), r.event()
	theirs := r.stream()
	r.ok(cuda.SymCtxSetCurrent, r.ctx)
	s, here := r.stream(), r.alloc(64)
	var err error
	r.g.RegisterKernel("k", func(l *Launch) error { _, err = l.Memory(l.U64(0), 64); return nil })
	k := r.kernel("k")
	r.launch(k, s, uint64(there))
	r.sync(s)
	if err == nil {
		t.Error("a kernel reached a device that is no peer")
	}
	r.is(peerAccessUnsupported, cuda.SymCtxEnablePeerAccess, r.ctx, 0)
	r.is(cuda.InvalidContext, cuda.SymCtxEnablePeerAccess, r.ctx+1, 0)
	r.ok(cuda.SymCtxEnablePeerAccess, other, 0)
	r.is(cuda.PeerAccessAlreadyEnabled, cuda.SymCtxEnablePeerAccess, other, 0)
	r.launch(k, s, uint64(there))
	r.sync(s)
	if err != nil {
		t.Error(err)
	}
	r.ok(cuda.SymMemcpyPeerAsync, there, other, here, r.ctx, 64, s)
	r.ok(cuda.SymMemcpyDtoDAsync, there, here, 64, theirs) // a stream of another context copies all the same
	r.is(cuda.InvalidHandle, cuda.SymEventRecord, foreign, s)
	r.is(cuda.InvalidHandle, cuda.SymLaunchKernel, k, 1, 1, 1, 1, 1, 1, 0, theirs, addr(words(addr(words(0)))), 0)
	for _, pair := range [][3]uintptr{{0, 1, 1}, {0, 0, 0}} {
		if got := r.out(cuda.SymDeviceCanAccessPeer, pair[0], pair[1]); got != pair[2] {
			t.Errorf("device %d reaches %d: %d", pair[0], pair[1], got)
		}
	}
	r.sync(s)
	r.clean()
}

// TestNoPeer has devices that cannot reach each other.
func TestNoPeer(t *testing.T) {
	r := newRaw(t, Devices(2), NoPeer())
	other := r.out(cuda.SymPrimaryCtxRetain, 1)
	if got := r.out(cuda.SymDeviceCanAccessPeer, 0, 1); got != 0 {
		t.Error("the devices can reach each other")
	}
	r.is(peerAccessUnsupported, cuda.SymCtxEnablePeerAccess, other, 0)
}

// TestParameterAccess reads parameters of each type.
func TestParameterAccess(t *testing.T) {
	l := &Launch{Params: words(0x3ff8_0000_4040_0000), Grid: [3]uint32{2, 3, 4}, Block: [3]uint32{5, 6, 7}}
	if l.U64(0) != 0x3ff8_0000_4040_0000 || l.U32(4) != 0x3ff8_0000 || l.F32(0) != 3 || l.F64(0) < 1.5 || l.F64(0) > 1.6 || l.Threads() != 5040 {
		t.Error("a parameter reads as another value")
	}
	if l.err != nil || l.U32(5) != 0 || l.err == nil {
		t.Errorf("access beyond the end: %v", l.err)
	}
}

// TestPriorities asks for the range, in part.
func TestPriorities(t *testing.T) {
	r := newRaw(t)
	least, greatest := newCell(), newCell()
	r.ok(cuda.SymCtxGetStreamPriorityRange, least.at(), greatest.at())
	r.ok(cuda.SymCtxGetStreamPriorityRange, 0, 0)
	if uint32(least.u64()) != 0 || int32(greatest.u64()) != -5 {
		t.Errorf("priorities %d to %d", int32(least.u64()), int32(greatest.u64()))
	}
}
