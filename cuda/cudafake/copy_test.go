package cudafake

import (
	"bytes"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/tritier/tritier/cuda"
)

// random is n bytes that depend on the seed.
func random(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 7))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// TestCopyArguments makes the copies that an H200's driver was seen to take or
// refuse at the call.
func TestCopyArguments(t *testing.T) {
	r := newRaw(t)
	s := r.stream()
	d, e, m, page := r.alloc(1<<20), r.alloc(1000), addr(r.pages(4<<20)), addr(r.pages(4096))
	r.ok(cuda.SymMemHostRegister, m, 1<<20, 3)
	r.ok(cuda.SymMemHostRegister, m+1<<20, 1<<20, 3)
	const h2d, d2h, d2d, ok, bad = cuda.SymMemcpyHtoDAsync, cuda.SymMemcpyDtoHAsync, cuda.SymMemcpyDtoDAsync, cuda.Success, cuda.InvalidValue
	for _, row := range []struct {
		name        string
		call        cuda.Symbol
		dst, src, n uintptr
		want        cuda.Result
	}{
		{"plain", h2d, d, m, 1 << 20, ok},
		{"source across two registrations", h2d, d, m + 1<<20 - 512, 1024, bad},
		{"source beyond its end", h2d, d, m, 2 << 20, bad},
		{"destination beyond its end", h2d, e, m, 1001, bad},
		{"destination's last bytes", h2d, d + 1<<20 - 100, m, 100, ok},
		{"one more", h2d, d + 1<<20 - 99, m, 100, bad},
		{"source on the device", h2d, d, e, 100, ok},
		{"destination pinned", h2d, m, m + 4096, 100, ok},
		{"destination pageable", h2d, page, m, 100, bad},
		{"destination nothing", h2d, 0x1000, m, 100, bad},
		{"source nothing", d2h, m, 0x1000, 100, bad},
		{"destination NULL", d2h, 0, d, 100, bad},
		{"destination on the device", d2h, e, d, 100, ok},
		{"source pageable", d2h, m, page, 100, bad},
		{"device to device", d2d, d, e, 100, ok},
		{"pinned to pinned", d2d, m, m + 4096, 100, ok},
		{"no bytes", d2h, m, d, 0, ok},
		{"no bytes from nothing", d2h, m, 0x1000, 0, ok},
	} {
		if got := r.call(row.call, row.dst, row.src, row.n, s); got != row.want {
			t.Errorf("%s: %d, want %d", row.name, got, row.want)
		}
	}
	r.ok(cuda.SymMemcpyPeerAsync, d, r.ctx, e, r.ctx, 100, s)
	r.is(cuda.InvalidContext, cuda.SymMemcpyPeerAsync, d, r.ctx+1, e, r.ctx, 100, s)
	r.is(bad, cuda.SymMemsetD8Async, e, 1, 1001, s)
	r.is(bad, cuda.SymMemsetD32Async, e+2, 1, 4, s)
	r.is(bad, cuda.SymMemsetD32Async, e, 1, 251, s)
	r.is(bad, cuda.SymMemsetD32Async, e, 1, math.MaxUint64, s)
	r.is(bad, cuda.SymMemsetD8Async, page, 1, 100, s)
	r.ok(cuda.SymMemsetD8Async, m, 1, 100, s)
	r.ok(cuda.SymMemsetD32Async, e, 0x01020304, 250, s)
	r.clean()
	r.is(cuda.InvalidHandle, cuda.SymMemsetD8Async, m, 1, 100, 999)
	r.violates("no stream")
	r.sync(s)
	if got := view(e, 1000); got[996] != 4 || got[999] != 1 || got[0] != 4 {
		t.Errorf("memset of words left %v", got[996:])
	}
	r.ok(cuda.SymMemcpyDtoDAsync, d, d+50, 100, s)
	r.violates("overlap")
}

// TestLargeCopies moves more than one piece at odd sizes.
func TestLargeCopies(t *testing.T) {
	r := newRaw(t)
	s := r.stream()
	for _, n := range []uint64{piece - 1, piece, piece + 1, 3*piece + 11} {
		d, in, out := r.alloc(n), r.pinned(n), r.pinned(n)
		copy(in, random(n, int(n)))
		r.ok(cuda.SymMemcpyHtoDAsync, d, addr(in), uintptr(n), s)
		r.ok(cuda.SymMemcpyDtoHAsync, addr(out), d, uintptr(n), s)
		r.sync(s)
		if !bytes.Equal(in, out) {
			t.Errorf("%d bytes changed", n)
		}
	}
}

// TestPageableCopies checks that the source is read before the call returns,
// and that the call waits for a copy to pageable memory.
func TestPageableCopies(t *testing.T) {
	r := newRaw(t, Lag(-1))
	s, d := r.stream(), r.alloc(1000)
	src, dst := random(1, 1000), make([]byte, 1000)
	want := bytes.Clone(src)
	r.ok(cuda.SymMemcpyHtoDAsync, d, addr(src), 1000, s)
	clear(src)
	r.ok(cuda.SymMemcpyDtoHAsync, addr(dst), d, 1000, s)
	if !bytes.Equal(dst, want) {
		t.Error("a copy to pageable memory was not done, or the source read late")
	}
	if r.g.PageableCopies() != 2 {
		t.Errorf("%d pageable copies, want 2", r.g.PageableCopies())
	}
	r.ok(cuda.SymMemcpyDtoDAsync, d, d+500, 500, s)
	if r.g.PageableCopies() != 2 {
		t.Error("a copy on the device counts as pageable")
	}
}

// batchCall makes a batched copy of the three arrays, with one attribute for
// each element of orders; at says where each begins.
func (r *raw) batchCall(s uintptr, dst, src, n []uintptr, orders []uint32, at ...uintptr) (cuda.Result, uint64) {
	attrs := make([]byte, attributeBytes*max(len(orders), 1))
	for i, o := range orders {
		put32(addr(attrs)+uintptr(attributeBytes*i), o)
	}
	arrays := [][]byte{words(dst...), words(src...), words(n...), words(append(at, 0)...)}
	fail := newCell()
	args := []uintptr{addr(arrays[0]), addr(arrays[1]), addr(arrays[2]), uintptr(len(dst)),
		addr(attrs), addr(arrays[3]), uintptr(len(orders))}
	symbol := cuda.SymMemcpyBatchAsyncV2
	if r.g.config.version < 13000 {
		symbol = cuda.SymMemcpyBatchAsync
		args = append(args, fail.at())
	}
	got := r.call(symbol, append(args, s)...)
	runtime.KeepAlive(arrays)
	runtime.KeepAlive(attrs)
	return got, fail.u64()
}

// TestBatchArguments makes the batches that an H200's driver was seen to take
// or refuse.
func TestBatchArguments(t *testing.T) {
	const none = math.MaxUint64
	for _, version := range []int{12080, 13000} {
		r := newRaw(t, Version(version))
		s, d, e, m := r.stream(), r.alloc(1<<20), r.alloc(1000), addr(r.pinned(1<<20))
		three := func(a, b, c uintptr) []uintptr { return []uintptr{a, b, c} }
		dst, src, n := three(d, d+4096, d+8192), three(m, m+4096, m+8192), three(4096, 4096, 4096)
		heap := addr(r.pages(8192))
		for _, row := range []struct {
			name        string
			stream      uintptr
			dst, src, n []uintptr
			orders      []uint32
			at          []uintptr
			want        cuda.Result
			fail        uint64
		}{
			{"plain", s, dst, src, n, []uint32{1}, three(0, 0, 0)[:1], cuda.Success, none},
			{"two attributes", s, dst, src, n, []uint32{1, 3}, three(0, 1, 0)[:2], cuda.Success, none},
			{"null stream", 0, dst, src, n, []uint32{1}, nil, cuda.InvalidValue, none},
			{"legacy stream", 1, dst, src, n, []uint32{1}, nil, cuda.InvalidValue, none},
			{"the thread's stream", 2, dst, src, n, []uint32{1}, nil, cuda.Success, none},
			{"no copies", s, nil, nil, nil, []uint32{1}, nil, cuda.InvalidValue, none},
			{"no attributes", s, dst, src, n, nil, nil, cuda.InvalidValue, none},
			{"first attribute not at 0", s, dst, src, n, []uint32{1}, three(1, 0, 0)[:1], cuda.InvalidValue, none},
			{"attributes at one place", s, dst, src, n, []uint32{1, 1}, three(0, 0, 0)[:2], cuda.InvalidValue, none},
			{"attribute beyond the end", s, dst, src, n, []uint32{1, 1}, three(0, 5, 0)[:2], cuda.InvalidValue, none},
			{"no order", s, dst, src, n, []uint32{0}, nil, cuda.InvalidValue, none},
			{"unknown order", s, dst, src, n, []uint32{7}, nil, cuda.InvalidValue, none},
			{"a copy of nothing", s, dst, src, three(4096, 0, 4096), []uint32{1}, nil, cuda.InvalidValue, 1},
			{"a copy beyond its end", s, dst, src, three(4096, 4096, 2<<20), []uint32{1}, nil, cuda.InvalidValue, 2},
			{"a source beyond its end", s, dst, three(m, e, m), n, []uint32{1}, nil, cuda.InvalidValue, 1},
			{"a pageable source", s, dst, three(m, heap, m), n, []uint32{2}, nil, cuda.Success, none},
			{"within the host", s, three(m+40960, d, d+4096), src, n, []uint32{1}, nil, cuda.Success, none},
		} {
			got, fail := r.batchCall(row.stream, row.dst, row.src, row.n, row.orders, row.at...)
			if version >= 13000 {
				row.fail = 0 // there is no such argument
			}
			if got != row.want || fail != row.fail {
				t.Errorf("CUDA %d: %s: %d at copy %d, want %d at %d", version, row.name, got, fail, row.want, row.fail)
			}
		}
		r.sync(s)
		r.clean()
	}
}

// TestBatchReadsItsSourcesInOrder changes the sources behind the call.
func TestBatchReadsItsSourcesInOrder(t *testing.T) {
	r := newRaw(t, Lag(-1), Seed(3))
	s, d, m := r.stream(), r.alloc(4096), r.pinned(4096)
	early := make(map[uint32]int)
	for range 64 {
		for order := uint32(inStreamOrder); order <= anyOrder; order++ {
			m[0] = 1
			if got, _ := r.batchCall(s, []uintptr{d}, []uintptr{addr(m)}, []uintptr{1}, []uint32{order}); got != cuda.Success {
				t.Fatal(got)
			}
			m[0] = 2
			r.sync(s)
			if view(d, 1)[0] == 1 {
				early[order]++
			}
		}
	}
	if early[inStreamOrder] != 0 || early[duringCall] != 64 || early[anyOrder] < 16 || early[anyOrder] > 48 {
		t.Errorf("sources read at the call: %v of 64; want none, all, about half", early)
	}
}

// TestBatchOrderVaries writes to one place twice in a batch: either may win.
func TestBatchOrderVaries(t *testing.T) {
	r := newRaw(t)
	s, d, m := r.stream(), r.alloc(16), r.pinned(16)
	m[1] = 1
	won := make(map[byte]int)
	for range 64 {
		if got, _ := r.batchCall(s, []uintptr{d, d}, []uintptr{addr(m), addr(m) + 1}, []uintptr{1, 1}, []uint32{1}); got != cuda.Success {
			t.Fatal(got)
		}
		r.sync(s)
		won[view(d, 1)[0]]++
	}
	if len(won) != 2 {
		t.Errorf("the winners were %v, want both", won)
	}
}

// TestCopyToMemoryThatGoes takes the memory of a queued copy away, past the
// calls that would wait for the copy.
func TestCopyToMemoryThatGoes(t *testing.T) {
	r := newRaw(t, Lag(-1))
	s, d := r.stream(), r.alloc(4096)
	m := addr(r.pages(4096))
	r.ok(cuda.SymMemHostRegister, m, 4096, 3)
	r.g.Hang()
	r.ok(cuda.SymMemcpyHtoDAsync, d, m, 4096, s)
	r.g.mu.Lock()
	r.g.free(r.g.find(d))
	r.g.mu.Unlock()
	r.g.Release()
	r.is(cuda.IllegalAddress, cuda.SymStreamSynchronize, s)
	r.violates("memory that went away")

	r = newRaw(t, Lag(-1))
	s, d = r.stream(), r.alloc(4096)
	r.ok(cuda.SymMemHostRegister, m, 4096, 3)
	r.ok(cuda.SymMemcpyHtoDAsync, d, m, 4096, s)
	r.g.mu.Lock()
	r.g.free(r.g.find(m))
	r.g.mu.Unlock()
	r.ok(cuda.SymMemHostRegister, m, 1024, 3) // less than the copy needs
	r.is(cuda.IllegalAddress, cuda.SymStreamSynchronize, s)
	r.violates("memory that shrank")
}

// TestBatchWithinTheHost checks that a batch between places of the host is done
// when the call returns, where one of them is pageable.
func TestBatchWithinTheHost(t *testing.T) {
	r := newRaw(t, Lag(-1))
	s, m, heap := r.stream(), r.pinned(64), r.pages(4096)
	heap[0] = 9
	if got, _ := r.batchCall(s, []uintptr{addr(m)}, []uintptr{addr(heap)}, []uintptr{64}, []uint32{1}); got != cuda.Success {
		t.Fatal(got)
	}
	if m[0] != 9 {
		t.Error("the call returned before the copy was done")
	}
}

// TestLargeMemset checks the pattern across pieces, and not beyond.
func TestLargeMemset(t *testing.T) {
	r := newRaw(t)
	const n = 2*piece + 4
	s, d := r.stream(), r.alloc(n+8)
	r.ok(cuda.SymMemsetD32Async, d+4, 0x04030201, n/4, s)
	r.sync(s)
	want := append(bytes.Repeat([]byte{Poison}, 4), bytes.Repeat([]byte{1, 2, 3, 4}, n/4)...)
	if !bytes.Equal(view(d, n+8), append(want, bytes.Repeat([]byte{Poison}, 4)...)) {
		t.Error("the pattern is not whole, or goes beyond its end")
	}
}

// BenchmarkCopy is the speed of a 64 MiB copy through the queue.
func BenchmarkCopy(b *testing.B) {
	r := newRaw(b)
	const n = 64 << 20
	s, d, m := r.stream(), r.alloc(n), r.pinned(n)
	b.SetBytes(n)
	for b.Loop() {
		r.ok(cuda.SymMemcpyHtoDAsync, d, addr(m), n, s)
		r.sync(s)
	}
}

// BenchmarkSmallCopy is the time of a 4 KiB copy that is waited for.
func BenchmarkSmallCopy(b *testing.B) {
	r := newRaw(b)
	s, d, m := r.stream(), r.alloc(4096), r.pinned(4096)
	for b.Loop() {
		r.ok(cuda.SymMemcpyHtoDAsync, d, addr(m), 4096, s)
		for r.call(cuda.SymStreamQuery, s) == cuda.NotReady {
			runtime.Gosched()
		}
	}
}
