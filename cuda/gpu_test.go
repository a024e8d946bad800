//go:build linux

package cuda

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
)

//go:embed testdata/kernels.ptx
var kernelsPTX []byte

// gpu gives a context of the first GPU. Without one the test skips, or fails
// if REQUIRE asks for a GPU.
func gpu(t testing.TB) *Context {
	t.Helper()
	d, err := Open()
	var v *Device
	if err == nil {
		v, err = d.Device("0")
	}
	if err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "gpu") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	c := must(v.Retain())(t)
	t.Cleanup(func() {
		if err := c.Close(); err != nil && c.Err() == nil {
			t.Error(err)
		}
	})
	return c
}

// random is a generator whose seed a failing test prints.
func random(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func fill(rng *rand.Rand, b []byte) []byte {
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rng.Uint64())
	}
	for i := len(b) &^ 7; i < len(b); i++ {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// soon is a deadline that no test comes near.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestGPUDevice(t *testing.T) {
	c := gpu(t)
	v := c.Device()
	t.Logf("%s, %s, %s, %d MiB, CUDA %s", v, v.UUID(), v.PCIAddress(), v.Memory()>>20, c.driver.Version())
	for _, name := range []string{"0", v.UUID(), v.UUID()[:12], v.PCIAddress()} {
		if got := must(c.driver.Device(name))(t); got != v {
			t.Errorf("%q is %s", name, got)
		}
	}
	if len(v.UUID()) != 40 || strings.Count(v.PCIAddress(), ":") != 2 || v.Memory() < 1<<28 {
		t.Errorf("the device is %s, %s, %d bytes", v.UUID(), v.PCIAddress(), v.Memory())
	}
	if major, _ := v.ComputeCapability(); major < 5 {
		t.Errorf("compute capability %d", major)
	}
	if n := must(v.Attribute(WarpSize))(t); n != 32 {
		t.Errorf("warps of %d", n)
	}
	for _, a := range []Attribute{MultiprocessorCount, DMABufSupported, GPUDirectRDMASupported, HostNativeAtomicSupported,
		MaxSharedMemoryPerBlockOptin, CooperativeLaunch, AsyncEngineCount, ReadOnlyHostRegisterSupported, HostNUMAID} {
		if n, err := v.Attribute(a); err != nil && !errors.Is(err, InvalidValue) {
			t.Errorf("attribute %d: %v", a, err)
		} else {
			t.Logf("attribute %d = %d", a, n)
		}
	}
	if active := must(v.Active())(t); !active {
		t.Error("the primary context is held, and not active")
	}
	free, total, err := c.MemInfo()
	if err != nil || free == 0 || free > total || total > v.Memory()+1<<30 {
		t.Errorf("%d of %d bytes are free, %v", free, total, err)
	}
	for _, s := range Symbols() {
		if !c.driver.Has(s) {
			t.Logf("the driver lacks %s (CUDA %s)", s, s.Since())
		}
	}
}

func TestGPURoundTrips(t *testing.T) {
	c, rng := gpu(t), random(t)
	stream := must(c.NewStream())(t)
	for _, n := range []uint64{1, 7, 4096, 65536 + 3, 8 << 20} {
		a, b := must(c.Alloc(n))(t), must(c.Alloc(n))(t)
		src, back := must(c.AllocHost(n, 0))(t), make([]byte, n) // one pinned, one not
		fill(rng, src.Bytes())
		ok(t, stream.Memset8(b.Ptr(), 0x5a, n))
		ok(t, stream.CopyToDevice(a.Ptr(), src.Bytes()))
		ok(t, stream.CopyDevice(b.Ptr(), a.Ptr(), n))
		ok(t, stream.CopyToHost(back, b.Ptr()))
		ok(t, stream.Wait(soon(t)))
		if !bytes.Equal(back, src.Bytes()) {
			t.Errorf("%d bytes came back changed", n)
		}
		pageable := fill(rng, make([]byte, n))
		ok(t, stream.CopyToDevice(a.Ptr(), pageable))
		ok(t, stream.CopyToHost(src.Bytes(), a.Ptr()))
		ok(t, stream.Wait(soon(t)))
		if !bytes.Equal(pageable, src.Bytes()) {
			t.Errorf("%d bytes of Go memory came back changed", n)
		}
		for _, m := range []interface{ Close() error }{a, b, src} {
			ok(t, m.Close())
		}
	}
}

func TestGPUMemsets(t *testing.T) {
	c := gpu(t)
	stream, m := must(c.NewStream())(t), must(c.Alloc(4096))(t)
	got := make([]byte, 4096)
	ok(t, stream.Memset8(m.Ptr(), 0xab, 4096))
	ok(t, stream.Memset32(m.Ptr().Add(8), 0x01020304, 2))
	ok(t, stream.CopyToHost(got, m.Ptr()))
	ok(t, stream.Wait(soon(t)))
	want := bytes.Repeat([]byte{0xab}, 4096)
	copy(want[8:], []byte{4, 3, 2, 1, 4, 3, 2, 1})
	if !bytes.Equal(got, want) {
		t.Errorf("memory is %x…", got[:24])
	}
}

func TestGPUEventsAndStreams(t *testing.T) {
	c := gpu(t)
	least, greatest, err := c.StreamPriorities()
	if err != nil || least < greatest {
		t.Errorf("priorities %d to %d, %v", least, greatest, err)
	}
	const n = 256 << 20
	m := must(c.Alloc(n))(t)
	a, b := must(c.NewStream())(t), must(c.NewStream(WithPriority(greatest)))(t)
	start, end := must(c.NewEvent(true))(t), must(c.NewEvent(true))(t)
	begin := time.Now()
	ok(t, start.Record(a))
	for v := range byte(8) {
		ok(t, a.Memset8(m.Ptr(), v+1, n))
	}
	ok(t, end.Record(a))
	ok(t, b.WaitEvent(end))
	got := make([]byte, 16)
	ok(t, b.CopyToHost(got, m.Ptr().Add(n-16)))
	ok(t, b.Wait(soon(t)))
	wall := time.Since(begin)
	if want := bytes.Repeat([]byte{8}, 16); !bytes.Equal(got, want) {
		t.Errorf("the second stream did not wait for the first: %v", got)
	}
	if done, err := end.Query(); !done || err != nil {
		t.Errorf("the event is done: %v, %v", done, err)
	}
	ok(t, end.Wait(soon(t)))
	if d := must(end.ElapsedSince(start))(t); d <= 0 || d > wall {
		t.Errorf("the GPU took %v of %v", d, wall)
	}
	untimed := must(c.NewEvent(false))(t)
	ok(t, untimed.Record(a))
	ok(t, untimed.Wait(soon(t)))
	if _, err := untimed.ElapsedSince(start); !errors.Is(err, InvalidHandle) {
		t.Errorf("elapsed without timing: %v", err)
	}
	ok(t, c.WrapStream(1).Memset8(m.Ptr(), 1, 16))
	ok(t, c.WrapStream(0).Wait(soon(t)))
	ok(t, c.Do(func() error {
		s := c.WrapStream(2)
		return errors.Join(s.Memset8(m.Ptr(), 2, 16), s.Wait(soon(t)))
	}))
}

func TestGPULaunch(t *testing.T) {
	c, rng := gpu(t), random(t)
	stream, module := must(c.NewStream())(t), must(c.LoadModule(kernelsPTX))(t)
	k := must(module.Function("scale_add"))(t)
	const n = 100_003
	host := must(c.AllocHost(4*n, 0))(t)
	values := unsafe.Slice((*float32)(unsafe.Pointer(&host.Bytes()[0])), n)
	want := make([]float32, n)
	for i := range values {
		values[i] = float32(rng.IntN(1000))
		want[i] = (values[i]*2+1)*3 + 1
	}
	device := must(c.Alloc(4 * n))(t)
	ok(t, stream.CopyToDevice(device.Ptr(), host.Bytes()))
	cfg := LaunchConfig{Grid: D1((n + 255) / 256), Block: D1(256)}
	params := binary.LittleEndian.AppendUint64(nil, uint64(device.Ptr()))
	params = binary.LittleEndian.AppendUint32(params, n)
	params = binary.LittleEndian.AppendUint32(params, math.Float32bits(2))
	ok(t, k.Launch(stream, cfg, params, 0, 8, 12))
	ok(t, k.LaunchArgs(stream, cfg, device, uint32(n), float32(3)))
	ok(t, stream.CopyToHost(host.Bytes(), device.Ptr()))
	ok(t, stream.Wait(soon(t)))
	for i := range want {
		if values[i] != want[i] {
			t.Fatalf("element %d is %v, want %v", i, values[i], want[i])
		}
	}
	ok(t, must(module.Function("nothing"))(t).Launch(stream, LaunchConfig{}, nil))
	ok(t, c.Synchronize(soon(t)))
}

func TestGPUArgumentLayout(t *testing.T) {
	c := gpu(t)
	stream, module := must(c.NewStream())(t), must(c.LoadModule(kernelsPTX))(t)
	out := must(c.AllocHost(48, 0))(t)
	args := []any{uint8(0x11), out, uint16(0x2222), float64(1.5), cPoint{A: 0x33, B: 0x4444444444444444, C: [3]float32{1, 2, 3}}}
	ok(t, must(module.Function("mixed"))(t).LaunchArgs(stream, LaunchConfig{}, args...))
	ok(t, stream.Wait(soon(t)))
	want := []uint64{0x11, 0x2222, math.Float64bits(1.5), 0x33, 0x4444444444444444, uint64(math.Float32bits(3))}
	for i, w := range want {
		if got := binary.LittleEndian.Uint64(out.Bytes()[8*i:]); got != w {
			t.Errorf("parameter %d reached the kernel as %#x, want %#x", i, got, w)
		}
	}
}

// TestGPUAlignedParameter: one that is aligned to more than the place where sm_90's
// parameters start is not where its alignment alone would put it.
func TestGPUAlignedParameter(t *testing.T) {
	c := gpu(t)
	stream, module := must(c.NewStream())(t), must(c.LoadModule(kernelsPTX))(t)
	k, out := must(module.Function("aligned"))(t), must(c.AllocHost(16, 0))(t)
	big := [8]uint64{0: 0x1111, 7: 0x7777}
	ok(t, k.LaunchArgs(stream, LaunchConfig{}, uint32(0x2222), big, out))
	ok(t, stream.Wait(soon(t)))
	if got := [2]uint64{binary.LittleEndian.Uint64(out.Bytes()), binary.LittleEndian.Uint64(out.Bytes()[8:])}; got != [2]uint64{0x1111 + 0x2222, 0x7777} {
		t.Errorf("the kernel read %#x", got)
	}
	if c.driver.has[SymFuncGetParamInfo] {
		for _, args := range [][]any{{uint32(0x2222), big, out, uint8(0)}, {uint32(0x2222), [7]uint64{}, out}} {
			if err := k.LaunchArgs(stream, LaunchConfig{}, args...); !errors.Is(err, InvalidValue) {
				t.Errorf("with %d arguments: %v", len(args), err)
			}
		}
	}
}

func TestGPUCooperativeLaunch(t *testing.T) {
	c := gpu(t)
	if must(c.Device().Attribute(CooperativeLaunch))(t) == 0 {
		t.Skip("the GPU has no cooperative launch")
	}
	stream, module := must(c.NewStream())(t), must(c.LoadModule(kernelsPTX))(t)
	out := must(c.AllocHost(16, 0))(t)
	k := must(module.Function("whoami"))(t)
	ok(t, k.LaunchArgs(stream, LaunchConfig{Grid: D1(4), Cooperative: true}, uint8(100), out))
	ok(t, stream.Wait(soon(t)))
	for i := range 4 {
		if got := binary.LittleEndian.Uint32(out.Bytes()[4*i:]); got != uint32(100+i) {
			t.Errorf("block %d wrote %d", i, got)
		}
	}
}

func TestGPUBatch(t *testing.T) {
	c, rng := gpu(t), random(t)
	stream := must(c.NewStream())(t)
	const page, pages = 4096, 300
	device := must(c.Alloc(page * pages))(t)
	src, back := must(c.AllocHost(page*pages, 0))(t), must(c.AllocHost(page*pages, 0))(t)
	fill(rng, src.Bytes())
	address := func(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }
	b := &CopyBatch{}
	to := rng.Perm(pages)
	for i, p := range to {
		b.Add(uint64(device.Ptr())+uint64(p)*page, address(src.Bytes())+uint64(i)*page, page)
	}
	err := stream.CopyBatch(b)
	var missing *MissingSymbolError
	if errors.As(err, &missing) {
		t.Skip(err)
	}
	ok(t, err)
	b.Reset()
	for i, p := range to {
		b.Add(address(back.Bytes())+uint64(i)*page, uint64(device.Ptr())+uint64(p)*page, page)
	}
	ok(t, stream.CopyBatch(b))
	ok(t, stream.Wait(soon(t)))
	if !bytes.Equal(src.Bytes(), back.Bytes()) {
		t.Error("the batch changed the data")
	}
	for _, h := range []uintptr{0, 1} {
		if err := c.WrapStream(h).CopyBatch(b); !errors.Is(err, ErrLegacyStream) {
			t.Errorf("on the legacy stream: %v", err)
		}
	}
	if c.driver.has[SymMemcpyBatchAsync] && c.driver.has[SymMemcpyBatchAsyncV2] {
		c.driver.has[SymMemcpyBatchAsyncV2] = false // the driver has both: try the older one, too
		defer func() { c.driver.has[SymMemcpyBatchAsyncV2] = true }()
		clear(back.Bytes())
		ok(t, stream.CopyBatch(b))
		ok(t, stream.Wait(soon(t)))
		if !bytes.Equal(src.Bytes(), back.Bytes()) {
			t.Error("the batch of CUDA 12.8 changed the data")
		}
	}
}

func TestGPUConcurrentStreams(t *testing.T) {
	c, rng := gpu(t), random(t)
	module := must(c.LoadModule(kernelsPTX))(t)
	whoami := must(module.Function("whoami"))(t)
	var all sync.WaitGroup
	for g := range 8 {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		stream, m := must(c.NewStream())(t), must(c.Alloc(64<<10))(t)
		out := must(c.AllocHost(4, 0))(t)
		all.Go(func() {
			src, back := make([]byte, 64<<10), make([]byte, 64<<10)
			for range 50 {
				fill(rng, src)
				err := errors.Join(stream.CopyToDevice(m.Ptr(), src), stream.CopyToHost(back, m.Ptr()),
					whoami.LaunchArgs(stream, LaunchConfig{}, uint8(g), out), stream.Wait(soon(t)))
				if err != nil || !bytes.Equal(src, back) || out.Bytes()[0] != byte(g) {
					t.Errorf("goroutine %d: %v, or the data changed", g, err)
					return
				}
			}
		})
	}
	all.Wait()
}
