package cudafake

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/cuda"
)

// wild are addresses where no memory is. Programs hit them by an index gone
// wrong, or by a pointer that was never set.
func (r *raw) wild() map[string]uintptr {
	r.Helper()
	hole := addr(r.pages(1 << 20))
	r.protect(hole+512<<10, 512<<10)
	return map[string]uintptr{
		"unmapped": 0x1234_5000, "not canonical": 0xdead_beef_0000_0000, "of the kernel": 0xffff_8000_0000_0000,
		"the last": ^uintptr(0), "a protected page": hole + 512<<10, "the end of a mapping": hole + 512<<10 - 100,
		"between allocations": r.g.deviceArena.base + r.g.deviceArena.size/2, "small": 8,
	}
}

// protect makes part of a mapping inaccessible.
func (r *raw) protect(at, n uintptr) {
	r.Helper()
	if err := unix.Mprotect(view(at, uint64(n)), unix.PROT_NONE); err != nil {
		r.Fatal(err)
	}
}

// refused checks that a call answers InvalidValue, and that what a driver does
// not survive is a violation. None is where the driver itself can tell.
func (r *raw) refused(s cuda.Symbol, args ...uintptr) {
	r.Helper()
	r.is(cuda.InvalidValue, s, args...)
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	if len(r.g.notes) > 1 || len(r.g.notes) == 1 && strings.Contains(r.g.notes[0], "panic") {
		r.Errorf("%v: violations %q", s, r.g.notes)
	}
	r.g.notes = nil
}

// forget drops the violations so far.
func (r *raw) forget() {
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	r.g.notes = nil
}

// usable checks that the GPU works as before.
func (r *raw) usable(s uintptr) {
	r.Helper()
	a, h := r.alloc(1000), r.pinned(1000)
	fill(h, 7)
	r.ok(cuda.SymMemcpyHtoDAsync, a, addr(h), 1000, s)
	r.sync(s)
	if !all(view(a, 1000), 7) {
		r.Error("a copy after what was refused does not arrive")
	}
	r.ok(cuda.SymMemFree, a)
	r.ok(cuda.SymMemFreeHost, addr(h))
	r.clean()
}

// TestWildCopies gives every copy and memset addresses where nothing is.
func TestWildCopies(t *testing.T) {
	r := newRaw(t)
	s, dev := r.stream(), r.alloc(4096)
	for name, w := range r.wild() {
		t.Log(name)
		for _, n := range []uintptr{200, 4096, 1 << 47, ^uintptr(0)} {
			r.refused(cuda.SymMemcpyHtoDAsync, dev, w, n, s)
			r.refused(cuda.SymMemcpyHtoDAsync, w, dev, n, s)
			r.refused(cuda.SymMemcpyDtoHAsync, w, dev, n, s)
			r.refused(cuda.SymMemcpyDtoHAsync, dev, w, n, s)
			r.refused(cuda.SymMemcpyDtoHAsync, w, w, n, s)
			r.refused(cuda.SymMemcpyDtoDAsync, dev, w, n, s)
			r.refused(cuda.SymMemcpyPeerAsync, w, r.ctx, dev, r.ctx, n, s)
			r.refused(cuda.SymMemsetD8Async, w, 1, n, s)
			r.refused(cuda.SymMemsetD32Async, w&^3, 1, n/4, s)
			if n != 1<<47 { // that much is above the limit, as on any machine
				r.refused(cuda.SymMemHostRegister, w, n, 3)
			}
		}
	}
	r.usable(s)
}

// TestWildCopyIsAViolation: a driver reads pageable memory with the CPU and
// would end the process; the fake has to say so.
func TestWildCopyIsAViolation(t *testing.T) {
	r := newRaw(t)
	s, dev := r.stream(), r.alloc(4096)
	for _, to := range []bool{true, false} {
		if to {
			r.is(cuda.InvalidValue, cuda.SymMemcpyHtoDAsync, dev, 0x1234_5000, 4096, s)
		} else {
			r.is(cuda.InvalidValue, cuda.SymMemcpyDtoHAsync, 0x1234_5000, dev, 4096, s)
		}
		r.violates("memory that is not there")
	}
	r.usable(s)
}

// TestHoles copies between pageable memory and a GPU where one page in the
// middle is missing.
func TestHoles(t *testing.T) {
	r := newRaw(t)
	const n = 64 << 10
	s, dev, m := r.stream(), r.alloc(n), addr(r.pages(n))
	r.protect(m+n/2, 1)
	r.refused(cuda.SymMemcpyHtoDAsync, dev, m, n, s)
	r.refused(cuda.SymMemcpyDtoHAsync, m, dev, n, s)
	r.refused(cuda.SymMemHostRegister, m, n, 3)
	r.ok(cuda.SymMemcpyHtoDAsync, dev, m, n/2, s)
	r.usable(s)
}

// TestWildResults: what has nowhere to go is not made.
func TestWildResults(t *testing.T) {
	r := newRaw(t)
	image := append([]byte(".version 6.3\n.target sm_70\n.visible .entry k() { ret; }"), 0)
	for name, w := range r.wild() {
		if name == "the end of a mapping" {
			continue // there is room for a result
		}
		before := r.g.Leaks()
		r.refused(cuda.SymStreamCreateWithPriority, w, 1, 0)
		r.refused(cuda.SymEventCreate, w, 0)
		r.refused(cuda.SymMemAlloc, w, 100)
		r.refused(cuda.SymMemHostAlloc, w, 100, 3)
		r.refused(cuda.SymModuleLoadDataEx, w, addr(image), 0, 0, 0)
		if after := r.g.Leaks(); len(after) != len(before) {
			t.Errorf("left of calls whose results had no place: %q, before %q", after, before)
		}
	}
	r.usable(r.stream())
}

// TestWildBatches puts a wild address into a batch of good ones, and gives wild
// lists.
func TestWildBatches(t *testing.T) {
	r := newRaw(t, Version(12080))
	s, dev := r.stream(), r.alloc(4096)
	host := addr(r.pinned(4096))
	attributes, first := make([]byte, attributeBytes), words(0)
	put32(addr(attributes), inStreamOrder)
	batch := func(dsts, srcs, sizes, count uintptr, fail cell) []uintptr {
		return []uintptr{dsts, srcs, sizes, count, addr(attributes), addr(first), 1, fail.at(), s}
	}
	good := words(dev, host)
	for name, w := range r.wild() {
		for _, n := range []uintptr{200, 1 << 47, ^uintptr(0)} {
			for _, row := range []struct{ dst, src uintptr }{{w, dev}, {dev, w}, {w, host}, {host, w}, {w, w}} {
				fail := newCell()
				dsts, srcs, sizes := words(dev, row.dst, dev), words(host, row.src, host), words(64, n, 64)
				r.refused(cuda.SymMemcpyBatchAsync, batch(addr(dsts), addr(srcs), addr(sizes), 3, fail)...)
				if fail.u64() != 1 {
					t.Errorf("%s, %d bytes: copy %d is at fault, want 1", name, n, fail.u64())
				}
			}
		}
		for i := range 8 { // each of the arguments that are addresses
			if i == 3 || i == 6 || name == "small" && i == 7 {
				continue
			}
			args := batch(addr(words(dev)), addr(words(host)), addr(words(64)), 1, newCell())
			args[i] = w
			if name == "the end of a mapping" {
				args[i] += 98 // of a word there are two bytes
			}
			r.refused(cuda.SymMemcpyBatchAsync, args...)
		}
	}
	for _, count := range []uintptr{1 << 40, 1 << 60, 1 << 61, 1<<61 + 1, ^uintptr(0)} {
		r.refused(cuda.SymMemcpyBatchAsync, batch(addr(good), addr(good), addr(good), count, newCell())...)
	}
	r.usable(s)
}

// TestWildArguments gives every call a wild address for each of its arguments,
// and for all of them. What comes back does not matter: the process lives, no
// kernel starts, and the GPU works as before.
func TestWildArguments(t *testing.T) {
	for _, symbol := range cuda.Symbols() {
		switch symbol {
		case cuda.SymPrimaryCtxRelease, cuda.SymCtxSetCurrent, cuda.SymInit:
			continue // small numbers are right there
		}
		t.Run(symbol.String(), func(t *testing.T) {
			r := newRaw(t)
			k, s := r.kernel("k"), r.stream()
			r.g.RegisterKernel("k", func(*Launch) error { return fmt.Errorf("a kernel with wild arguments ran") })
			for _, w := range r.wild() {
				for i := range entries[symbol].args + 1 {
					args := make([]uintptr, entries[symbol].args)
					for j := range args {
						if i == j || i == len(args) {
							args[j] = w
						} else {
							args[j] = addr(make([]byte, 4096)) // room for what is written to whatever it is
						}
					}
					r.call(symbol, args...)
				}
			}
			for _, v := range r.g.Violations() {
				if strings.Contains(v, "panic") || strings.Contains(v, "ran") {
					t.Error(v)
				}
			}
			r.forget()
			if symbol == cuda.SymLaunchKernel {
				r.wildLaunches(k, s)
			}
			r.ok(cuda.SymCtxSetCurrent, r.ctx)
			r.usable(s)
		})
	}
}

// wildLaunches gives a kernel parameters that are nowhere.
func (r *raw) wildLaunches(k, s uintptr) {
	r.Helper()
	launch := func(params, extra uintptr) {
		r.Helper()
		r.refused(cuda.SymLaunchKernel, k, 1, 1, 1, 1, 1, 1, 0, s, params, extra)
		if extra == 0 {
			r.refused(cuda.SymLaunchCooperativeKernel, k, 1, 1, 1, 1, 1, 1, 0, s, params)
		}
	}
	launch(0, 0)
	for name, w := range r.wild() {
		if name == "the end of a mapping" {
			w += 98 // of a word there are two bytes
		}
		launch(w, 0)
		launch(0, w)
		launch(addr(words(w)), 0)
		launch(0, addr(words(1, w, 2, addr(words(8)), 0)))
		launch(0, addr(words(1, addr(words(0)), 2, w, 0)))
		launch(0, addr(words(w, w)))
	}
	launch(addr(words(0)), 0)
	launch(0, addr(words(2, addr(words(8)), 0)))
}

// TestMemoryThatGoesAway unmaps host memory under work that is queued: the
// kernel's fault becomes the stream's.
func TestMemoryThatGoesAway(t *testing.T) {
	for _, registered := range []bool{true, false} {
		r := newRaw(t, Lag(-1))
		s, dev := r.stream(), r.alloc(4<<20)
		m := addr(r.pages(4 << 20))
		if registered {
			r.ok(cuda.SymMemHostRegister, m, 4<<20, 3)
		}
		// A batch waits for neither end, whatever kind of memory it is.
		attributes, first := make([]byte, attributeBytes), words(0)
		put32(addr(attributes), inStreamOrder)
		r.ok(cuda.SymMemcpyBatchAsyncV2, addr(words(dev)), addr(words(m)), addr(words(4<<20)), 1, addr(attributes), addr(first), 1, s)
		r.protect(m+3<<20, 1<<20)
		r.is(cuda.IllegalAddress, cuda.SymStreamSynchronize, s)
		r.violates("host memory that went away")
		r.is(cuda.IllegalAddress, cuda.SymMemAlloc, newCell().at(), 100)
	}
}

// TestGarbageHandles uses numbers, and handles of another kind, as handles.
func TestGarbageHandles(t *testing.T) {
	r := newRaw(t)
	s, e, k := r.stream(), r.event(), r.kernel("k")
	for _, h := range []uintptr{3, 4096, 0x5eed_0000_0001, s + 1, k, r.ctx, ^uintptr(0)} {
		for symbol, args := range map[cuda.Symbol][]uintptr{
			cuda.SymStreamQuery: {h}, cuda.SymStreamSynchronize: {h}, cuda.SymStreamDestroy: {h}, cuda.SymStreamWaitEvent: {h, e, 0},
			cuda.SymEventRecord: {e, h}, cuda.SymEventQuery: {h}, cuda.SymEventDestroy: {h}, cuda.SymEventElapsedTime: {newCell().at(), e, h},
			cuda.SymModuleUnload: {h}, cuda.SymModuleGetFunction: {newCell().at(), h, addr([]byte("k\x00"))},
			cuda.SymMemsetD8Async: {r.alloc(10), 1, 10, h},
			cuda.SymLaunchKernel:  {e, 1, 1, 1, 1, 1, 1, 0, s, 0, 0},
		} {
			r.is(cuda.InvalidHandle, symbol, args...)
			r.violates("a handle that is none")
		}
		r.is(cuda.InvalidHandle, cuda.SymStreamWaitEvent, s, h, 0)
		r.violates("an event that is none")
	}
	r.usable(s)
}
