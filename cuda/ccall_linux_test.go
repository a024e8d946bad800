//go:build amd64 || arm64

package cuda

import (
	"runtime"
	"testing"
	"unsafe"
)

func libc(t testing.TB, name string) uintptr {
	t.Helper()
	// Not by purego: a thread that has called it crashes the process when it ends.
	h, err := linkerOpen("libc.so.6")
	if err != nil {
		t.Skip(err)
	}
	fn := linkerSymbol(h, name)
	if fn == 0 {
		t.Fatalf("libc has no %s", name)
	}
	return fn
}

// TestCallCPassesEveryArgument calls a C function that prints its arguments:
// as many as callC can pass.
func TestCallCPassesEveryArgument(t *testing.T) {
	snprintf := libc(t, "snprintf")
	out := make([]byte, 256)
	format := []byte("%lx %lx %lx %lx %lx %lx %lx %lx %lx\x00")
	args := []uintptr{
		uintptr(unsafe.Pointer(&out[0])), uintptr(len(out)), uintptr(unsafe.Pointer(&format[0])),
		0x1111111111111111, 0x2222, 0x33333333333, 0x4, 0x5555555555555555, 0x66, 0x7777777777777, 0xffffffffffffffff, 0xabc,
	}
	for range 100 { // pooled memory is used again
		clear(out)
		n := callC(snprintf, args)
		const want = "1111111111111111 2222 33333333333 4 5555555555555555 66 7777777777777 ffffffffffffffff abc"
		if got := untilNUL(out); got != want || n != uintptr(len(want)) {
			t.Fatalf("printed %q (%d bytes), want %q", got, n, want)
		}
	}
	runtime.KeepAlive(format)
}

// TestCallCFromManyThreads checks results under calls at once, with the
// collector running.
func TestCallCFromManyThreads(t *testing.T) {
	abs := libc(t, "labs")
	done := make(chan bool)
	for g := range 8 {
		go func() {
			ok := true
			for i := range 2000 {
				v := int64(g*10000 + i)
				ok = ok && callC(abs, []uintptr{uintptr(-v)}) == uintptr(v)
				if i%500 == 0 {
					runtime.GC()
				}
			}
			done <- ok
		}()
	}
	for range 8 {
		if !<-done {
			t.Error("a call gave another call's result")
		}
	}
}

func BenchmarkCallC(b *testing.B) {
	abs := libc(b, "labs")
	args := []uintptr{5}
	b.ReportAllocs()
	for b.Loop() {
		callC(abs, args)
	}
}
