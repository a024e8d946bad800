package cudafake

import (
	"strings"
	"testing"

	"github.com/tritier/tritier/cuda"
)

// TestLeaksAreListed leaves one of each kind, and then none.
func TestLeaksAreListed(t *testing.T) {
	r := newRaw(t)
	m := addr(r.pages(4096))
	k := r.kernel("k")
	dev, pin, s, e := r.alloc(10), addr(r.pinned(10)), r.stream(), r.event()
	r.ok(cuda.SymMemHostRegister, m, 4096, 3)
	all := strings.Join(r.g.Leaks(), "\n")
	for _, want := range []string{"context of device 0", "stream 0x", "event 0x", "module 0x", "device memory 0x", "pinned memory 0x", "registered memory 0x"} {
		if strings.Count(all, want) != 1 {
			t.Errorf("%q is %d times in the leaks:\n%s", want, strings.Count(all, want), all)
		}
	}
	if strings.Contains(all, blockKind(globalBlock).String()) {
		t.Errorf("a module's global is its own leak:\n%s", all)
	}
	mod, _ := object[*function](r.g, k)
	r.ok(cuda.SymModuleUnload, mod.module.handle)
	r.ok(cuda.SymMemFree, dev)
	r.ok(cuda.SymMemFreeHost, pin)
	r.ok(cuda.SymMemHostUnregister, m)
	r.ok(cuda.SymStreamDestroy, s)
	r.ok(cuda.SymEventDestroy, e)
	r.ok(cuda.SymPrimaryCtxRelease, 0)
	if l := r.g.Leaks(); len(l) > 0 {
		t.Errorf("leaks %q after all was freed", l)
	}
	r.clean()
}

// TestLeaksOutliveTheirContext leaves memory to the end of its context.
func TestLeaksOutliveTheirContext(t *testing.T) {
	r := newRaw(t)
	r.alloc(10)
	r.ok(cuda.SymPrimaryCtxRelease, 0)
	if l := r.g.Leaks(); len(l) != 1 {
		t.Errorf("leaks %q, want the memory", l)
	}
	r.out(cuda.SymPrimaryCtxRetain, 0)
	r.alloc(20)
	if err := r.g.Close(); err != nil {
		t.Error(err)
	}
	if l := r.g.Leaks(); len(l) != 3 {
		t.Errorf("leaks %q after Close, want memory of both lives and the context", l)
	}
	r.is(cuda.Deinitialized, cuda.SymMemAlloc, newCell().at(), 10)
}
