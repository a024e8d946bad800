package cudafake

import (
	"runtime"
	"testing"

	"github.com/tritier/tritier/cuda"
)

// raw makes driver calls on one thread with a context current, as package cuda
// does below its own checks.
type raw struct {
	testing.TB
	g   *GPU
	ctx uintptr
}

// newRaw initialises a GPU and makes the context of device 0 current.
func newRaw(t testing.TB, opts ...Option) *raw {
	t.Helper()
	r := bareRaw(t, opts...)
	r.ok(cuda.SymInit, 0)
	r.ctx = r.out(cuda.SymPrimaryCtxRetain, 0)
	r.ok(cuda.SymCtxSetCurrent, r.ctx)
	return r
}

func bareRaw(t testing.TB, opts ...Option) *raw {
	t.Helper()
	runtime.LockOSThread()
	g := New(opts...)
	t.Logf("seed %d", g.Seed())
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	})
	return &raw{TB: t, g: g}
}

func (r *raw) call(s cuda.Symbol, args ...uintptr) cuda.Result { return r.g.Call(s, args) }

// is makes a call and checks its result.
func (r *raw) is(want cuda.Result, s cuda.Symbol, args ...uintptr) {
	r.Helper()
	if got := r.call(s, args...); got != want {
		r.Errorf("%v(%#x) = %d, want %d", s, args, got, want)
	}
}

func (r *raw) ok(s cuda.Symbol, args ...uintptr) {
	r.Helper()
	if got := r.call(s, args...); got != cuda.Success {
		r.Fatalf("%v(%#x) = %d; violations %q", s, args, got, r.g.Violations())
	}
}

// cell is a word in the heap, which calls can write to.
type cell struct{ b []byte }

func newCell() cell { return cell{make([]byte, 8)} }

func (c cell) at() uintptr { return addr(c.b) }
func (c cell) u64() uint64 { defer runtime.KeepAlive(c.b); return get64(c.at()) }

// out makes a call whose first argument is where its result goes.
func (r *raw) out(s cuda.Symbol, args ...uintptr) uintptr {
	r.Helper()
	c := newCell()
	r.ok(s, append([]uintptr{c.at()}, args...)...)
	return uintptr(c.u64())
}

func (r *raw) alloc(n uint64) uintptr { r.Helper(); return r.out(cuda.SymMemAlloc, uintptr(n)) }
func (r *raw) pinned(n uint64) []byte {
	r.Helper()
	return view(r.out(cuda.SymMemHostAlloc, uintptr(n), 3), n)
}
func (r *raw) stream() uintptr {
	r.Helper()
	return r.out(cuda.SymStreamCreateWithPriority, 1, 0)
}
func (r *raw) event() uintptr { r.Helper(); return r.out(cuda.SymEventCreate, 0) }
func (r *raw) sync(s uintptr) { r.Helper(); r.ok(cuda.SymStreamSynchronize, s) }

// pages is memory of the host that no driver call knows, apart from Go's heap.
func (r *raw) pages(n uint64) []byte {
	r.Helper()
	base, err := reserve(uintptr(n))
	if err != nil {
		r.Fatal(err)
	}
	if err := commit(base, base+uintptr(n), -1); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := unreserve(base, uintptr(n)); err != nil {
			r.Error(err)
		}
	})
	return view(base, n)
}

// words is an array of 64-bit words for calls to read.
func words(v ...uintptr) []byte {
	b := make([]byte, 8*len(v))
	for i, w := range v {
		put64(addr(b)+uintptr(8*i), uint64(w))
	}
	return b
}

// clean checks that nothing was wrong.
func (r *raw) clean() {
	r.Helper()
	if v := r.g.Violations(); len(v) > 0 {
		r.Errorf("violations: %q", v)
	}
}

// violates checks that there is just one violation since the last time.
func (r *raw) violates(what string) {
	r.Helper()
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	if len(r.g.notes) != 1 {
		r.Errorf("violations %q, want one: %s", r.g.notes, what)
	}
	r.g.notes = nil
}

// tracer registers kernel "k", which appends its parameter to the list that is
// returned; the order in which kernels ran.
func (r *raw) tracer() (kernel uintptr, ran func() []uint64) {
	r.Helper()
	var list []uint64
	done := make(chan func(), 1)
	done <- func() {}
	r.g.RegisterKernel("k", func(l *Launch) error {
		f := <-done
		list = append(list, l.U64(0))
		done <- f
		return nil
	})
	return r.kernel("k"), func() []uint64 {
		f := <-done
		defer func() { done <- f }()
		return append([]uint64(nil), list...)
	}
}

// kernel loads a module with a kernel of one 64-bit parameter.
func (r *raw) kernel(name string) uintptr {
	r.Helper()
	src := append([]byte(".version 6.3\n.target sm_70\n.global .u32 g;\n.visible .entry "+name+"(.param .u64 p) { ret; }"), 0)
	m := r.out(cuda.SymModuleLoadDataEx, addr(src), 0, 0, 0)
	n := append([]byte(name), 0)
	f := r.out(cuda.SymModuleGetFunction, m, addr(n))
	runtime.KeepAlive(src)
	runtime.KeepAlive(n)
	return f
}

// launch queues a kernel of one 64-bit parameter.
func (r *raw) launch(f, s uintptr, p uint64) {
	r.Helper()
	if got := r.tryLaunch(f, s, p); got != cuda.Success {
		r.Fatalf("launch: %d; violations %q", got, r.g.Violations())
	}
}

func (r *raw) tryLaunch(f, s uintptr, p uint64) cuda.Result {
	value := words(uintptr(p))
	list := words(addr(value))
	defer runtime.KeepAlive(value)
	defer runtime.KeepAlive(list)
	return r.call(cuda.SymLaunchKernel, f, 1, 1, 1, 1, 1, 1, 0, s, addr(list), 0)
}
