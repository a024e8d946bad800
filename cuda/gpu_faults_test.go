//go:build linux

package cuda

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// mapped gives a mapping of anonymous memory, as a pool would register it.
func mapped(t testing.TB, n int) []byte {
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(b) })
	return b
}

func TestGPURegisterHost(t *testing.T) {
	memory := mapped(t, 1<<20) // before the context: unmapped after it
	c, rng := gpu(t), random(t)
	fill(rng, memory)
	stream, m := must(c.NewStream())(t), must(c.Alloc(1<<20))(t)
	r := must(c.RegisterHost(memory, 0))(t)
	if _, err := c.RegisterHost(memory, 0); !errors.Is(err, HostMemoryAlreadyRegistered) {
		t.Errorf("registered again: %v", err)
	}
	back := make([]byte, 1<<20)
	ok(t, stream.CopyToDevice(m.Ptr(), memory))
	ok(t, stream.CopyToHost(back, m.Ptr()))
	ok(t, stream.Wait(soon(t)))
	if !bytes.Equal(memory, back) {
		t.Error("registered memory came back changed")
	}
	// A kernel writes it in place.
	binary.LittleEndian.PutUint32(memory[4096:], math.Float32bits(20))
	k := must(must(c.LoadModule(kernelsPTX))(t).Function("scale_add"))(t)
	ok(t, k.LaunchArgs(stream, LaunchConfig{Block: D1(32)}, r.DevicePtr().Add(4096), uint32(1), float32(2)))
	ok(t, stream.Wait(soon(t)))
	if got := math.Float32frombits(binary.LittleEndian.Uint32(memory[4096:])); got != 41 {
		t.Errorf("the kernel wrote %v, want 41", got)
	}
	ok(t, r.Unregister())
	again := must(c.RegisterHost(memory, Portable))(t)
	if again.DevicePtr() != 0 {
		t.Errorf("memory that is not mapped is at %s", again.DevicePtr())
	}
}

func TestGPUPointerInfo(t *testing.T) {
	c := gpu(t)
	m, h := must(c.Alloc(8<<20))(t), must(c.AllocHost(1<<20, 0))(t)
	got := must(c.PointerInfo(m.Ptr().Add(100)))(t)
	if got.Type != MemoryDevice || got.Device != 0 || got.DevicePtr != m.Ptr().Add(100) || got.Managed ||
		got.Start > m.Ptr() || got.Size < m.Size() {
		t.Errorf("device memory is %+v", got)
	}
	host := uintptr(unsafe.Pointer(&h.Bytes()[0]))
	got = must(c.PointerInfo(Ptr(host)))(t)
	if got.Type != MemoryHost || got.HostPtr != host || got.DevicePtr != h.DevicePtr() || got.Managed {
		t.Errorf("pinned memory is %+v", got)
	}
	ordinary := make([]byte, 4096)
	got = must(c.PointerInfo(Ptr(uintptr(unsafe.Pointer(&ordinary[0])))))(t)
	if got.Type != MemoryUnknown || got.DevicePtr != 0 {
		t.Errorf("Go memory is %+v", got)
	}
}

func TestGPUDMABuf(t *testing.T) {
	c := gpu(t)
	m := must(c.Alloc(2 << 20))(t)
	fd, err := m.DMABuf()
	var e *Error
	var missing *MissingSymbolError
	switch {
	case err == nil:
		t.Logf("dma-buf %d", fd)
		if err := syscall.Close(fd); err != nil {
			t.Errorf("%d is no file descriptor: %v", fd, err)
		}
	case errors.As(err, &e) || errors.As(err, &missing):
		t.Logf("no dma-buf here: %v", err)
		if fd != -1 {
			t.Errorf("a file descriptor, %d, with an error", fd)
		}
	default:
		t.Errorf("an untyped error: %v", err)
	}
}

func TestGPUModules(t *testing.T) {
	c := gpu(t)
	m := must(c.LoadModule(kernelsPTX))(t)
	if _, err := m.Function("no_such_kernel"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "no_such_kernel") {
		t.Errorf("a missing kernel: %v", err)
	}
	p, n, err := m.Global("table")
	if err != nil || n != 16 {
		t.Fatalf("the global has %d bytes, %v", n, err)
	}
	stream, table := must(c.NewStream())(t), make([]byte, 16)
	ok(t, stream.CopyToHost(table, p))
	ok(t, stream.Wait(soon(t)))
	if !bytes.Equal(table, []byte{11, 0, 0, 0, 22, 0, 0, 0, 33, 0, 0, 0, 44, 0, 0, 0}) {
		t.Errorf("the global holds %v", table)
	}
	if _, _, err := m.Global("no_such_global"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a missing global: %v", err)
	}
	bad := bytes.Replace(kernelsPTX, []byte("fma.rn.f32"), []byte("fancy.f32"), 1)
	_, err = c.LoadModule(bad)
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, InvalidPTX) || e.Log == "" || !strings.Contains(fmt.Sprintf("%+v", err), strings.TrimSpace(e.Log)) {
		t.Errorf("invalid PTX: %+v", err)
	}
	t.Logf("%+v", err)
	future := bytes.Replace(kernelsPTX, []byte(".version 6.3"), []byte(".version 99.0"), 1)
	if _, err := c.LoadModule(future); !errors.Is(err, UnsupportedPTXVersion) {
		t.Errorf("PTX of the future: %v", err)
	}
	if _, err := c.LoadModule([]byte("neither PTX nor a cubin")); err == nil || c.Err() != nil {
		t.Errorf("an image of neither kind: %v", err)
	}
}

func TestGPUFunctionAttributes(t *testing.T) {
	c := gpu(t)
	m, stream := must(c.LoadModule(kernelsPTX))(t), must(c.NewStream())(t)
	k := must(m.Function("nothing"))(t)
	scale := must(m.Function("scale_add"))(t)
	for a, least := range map[FunctionAttribute]int{FunctionMaxThreadsPerBlock: 32, FunctionRegisters: 1, FunctionPTXVersion: 70, FunctionBinaryVersion: 70} {
		if n, err := scale.Attribute(a); err != nil || n < least {
			t.Errorf("attribute %d is %d, %v", a, n, err)
		}
	}
	if n := must(k.MaxActiveBlocks(256, 0))(t); n < 1 {
		t.Errorf("%d blocks at once", n)
	}
	const shared = 60 << 10 // above the 48 KiB that need no permission
	if err := k.Launch(stream, LaunchConfig{SharedBytes: shared}, nil); !errors.Is(err, InvalidValue) {
		t.Errorf("60 KiB of shared memory without permission: %v", err)
	}
	ok(t, k.SetMaxDynamicShared(shared))
	ok(t, k.Launch(stream, LaunchConfig{SharedBytes: shared}, nil))
	if err := k.Launch(stream, LaunchConfig{Block: D1(4096)}, nil); !errors.Is(err, InvalidValue) {
		t.Errorf("a block of 4096 threads: %v", err)
	}
	ok(t, stream.Wait(soon(t)))
}

// TestGPUDeadline has a kernel wait for the host, and the host give up first.
func TestGPUDeadline(t *testing.T) {
	c := gpu(t)
	stream, event := must(c.NewStream())(t), must(c.NewEvent(false))(t)
	flag := must(c.AllocHost(4, 0))(t)
	word := (*atomic.Uint32)(unsafe.Pointer(&flag.Bytes()[0]))
	defer word.Store(1) // the context's Close would wait for the kernel
	k := must(must(c.LoadModule(kernelsPTX))(t).Function("hold"))(t)
	ok(t, k.LaunchArgs(stream, LaunchConfig{}, flag))
	ok(t, event.Record(stream))
	for name, wait := range map[string]func(context.Context) error{"stream": stream.Wait, "event": event.Wait, "context": c.Synchronize} {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		start := time.Now()
		err := wait(ctx)
		cancel()
		var d *DeadlineError
		if !errors.As(err, &d) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 2*time.Second {
			t.Errorf("%s: %v after %v", name, err, time.Since(start))
		}
	}
	if done, err := stream.Query(); done || err != nil {
		t.Errorf("the kernel is done: %v, %v", done, err)
	}
	word.Store(1)
	ok(t, event.Wait(soon(t)))
	ok(t, stream.Wait(soon(t)))
	ok(t, c.Synchronize(soon(t)))
}

const childVariable = "CUDA_TEST_CHILD"

// TestGPUIllegalAddress runs in a process of its own: the fault costs it the GPU.
func TestGPUIllegalAddress(t *testing.T) {
	gpu(t)
	child := exec.CommandContext(soon(t), os.Args[0], "-test.run=^TestGPUIllegalAddressChild$", "-test.v")
	child.Env = append(os.Environ(), childVariable+"=1")
	out, err := child.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestGPUIllegalAddressChild")) {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func TestGPUIllegalAddressChild(t *testing.T) {
	if os.Getenv(childVariable) == "" {
		t.Skip("TestGPUIllegalAddress runs it in a process of its own")
	}
	c := gpu(t)
	stream, other := must(c.NewStream())(t), must(c.NewStream())(t)
	memory := must(c.Alloc(100))(t)
	k := must(must(c.LoadModule(kernelsPTX))(t).Function("poke"))(t)
	ok(t, k.LaunchArgs(stream, LaunchConfig{}, Ptr(16)))
	err := stream.Wait(soon(t))
	if !errors.Is(err, IllegalAddress) || !errors.Is(err, ErrSticky) {
		t.Fatalf("the wait: %v", err)
	}
	t.Log(err)
	first := c.Err()
	var e *Error
	if !errors.As(first, &e) || e.Result != IllegalAddress || e.Text == "" {
		t.Errorf("Err is %v", first)
	}
	for name, err := range map[string]error{
		"Alloc": second(c.Alloc(1)), "the other stream": other.Wait(soon(t)), "Launch": k.LaunchArgs(other, LaunchConfig{}, memory),
		"Synchronize": c.Synchronize(soon(t)), "NewStream": second(c.NewStream()),
	} {
		if !errors.Is(err, ErrSticky) || !errors.Is(err, first) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := memory.Free(); err != nil && !errors.Is(err, ErrSticky) {
		t.Errorf("Free: %v", err)
	}
	if err := c.Close(); err != nil && !errors.Is(err, ErrSticky) {
		t.Errorf("Close: %v", err)
	}
}

// TestGPULeaks makes and closes everything many times over.
func TestGPULeaks(t *testing.T) {
	c := gpu(t)
	memory := mapped(t, 1<<20)
	defer c.Close() // before the mapping goes
	cycle := func() {
		stream, event := must(c.NewStream())(t), must(c.NewEvent(true))(t)
		m, h := must(c.Alloc(16<<20))(t), must(c.AllocHost(1<<20, 0))(t)
		r, module := must(c.RegisterHost(memory, 0))(t), must(c.LoadModule(kernelsPTX))(t)
		k := must(module.Function("scale_add"))(t)
		ok(t, stream.CopyToDevice(m.Ptr(), h.Bytes()))
		ok(t, k.LaunchArgs(stream, LaunchConfig{}, m, uint32(1), float32(1)))
		ok(t, event.Record(stream))
		ok(t, event.Wait(soon(t)))
		for _, o := range []interface{ Close() error }{r, h, m, module, event, stream} {
			ok(t, o.Close())
		}
	}
	for range 5 { // what the driver keeps for itself
		cycle()
	}
	free, _, err := c.MemInfo()
	ok(t, err)
	fds := openFiles(t)
	for range 200 {
		cycle()
	}
	after, _, err := c.MemInfo()
	ok(t, err)
	if after+32<<20 < free {
		t.Errorf("%d MiB of device memory are gone", (free-after)>>20)
	}
	if n := openFiles(t); n > fds+2 {
		t.Errorf("%d files are open, %d before", n, fds)
	}
	if len(c.live) != 0 {
		t.Errorf("the context still knows %d objects", len(c.live))
	}
}

func openFiles(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	ok(t, err)
	return len(list)
}
