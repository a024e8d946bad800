package copyeng_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

// mapping is memory of the host that begins at a multiple of a page.
func mapping(t *testing.T, size int) []byte {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	return mem
}

// register pins memory until the test has ended.
func register(t *testing.T, ctx *cuda.Context, mem []byte, flags cuda.HostFlags) {
	t.Helper()
	r, err := ctx.RegisterHost(mem, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Unregister(); err != nil {
			t.Error(err)
		}
	})
}

// refusedAt checks that a loan was refused for the byte at offset.
func refusedAt(t *testing.T, what string, s *copyeng.Space, err error, offset uint64, text string) {
	t.Helper()
	var e *copyeng.LendError
	if s != nil || !errors.As(err, &e) || e.Offset != offset || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: lent %v, %v; want a LendError at byte %d that says %q", what, s != nil, err, offset, text)
	}
}

// otherContext is the context of the fake's second device.
func otherContext(t *testing.T, g *copyeng.GPU) *cuda.Context {
	t.Helper()
	dev, err := g.Context().Device().Driver().Device("1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := dev.Retain()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
	})
	return ctx
}

const mib = 1 << 20

// lendings runs a test over drivers that say how far an allocation reaches, and
// that do not.
func lendings(t *testing.T, test func(t *testing.T, g *copyeng.GPU)) {
	for name, options := range map[string][]cudafake.Option{
		"ranges": {cudafake.Devices(2)}, "no ranges": {cudafake.Devices(2), cudafake.NoPointerRange()},
	} {
		t.Run(name, func(t *testing.T) {
			g, _ := fakeGPU(t, copyeng.GPUOptions{}, options...)
			test(t, g)
		})
	}
}

// Lent memory must be pinned from end to end, and begin where pages do.
func TestLendHost(t *testing.T) {
	lendings(t, func(t *testing.T, g *copyeng.GPU) {
		s, err := g.LendHost(nil)
		refusedAt(t, "nothing", s, err, 0, "empty")
		mem := mapping(t, 16*mib)
		s, err = g.LendHost(mem)
		refusedAt(t, "ordinary memory", s, err, 0, "unknown to CUDA")
		register(t, g.Context(), mem[:12*mib], 0)
		for _, skip := range []int{1, 8, 16, 256, 511} {
			s, err = g.LendHost(mem[skip : 8*mib])
			refusedAt(t, "misaligned memory", s, err, 0, "multiple of 512")
		}
		for _, part := range [][]byte{mem[:12*mib], mem[512:mib], mem[mib : mib+1], mem[12*mib-512 : 12*mib]} {
			if s, err := g.LendHost(part); err != nil || s.Size() != uint64(len(part)) || &s.Bytes()[0] != &part[0] {
				t.Errorf("%d pinned bytes: %v", len(part), err)
			}
		}
		m, err := g.Context().AllocHost(1<<16, 0)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := g.LendHost(m.Bytes()); err != nil || s.Address() != uint64(m.DevicePtr()) {
			t.Errorf("memory that the driver allocated: %v", err)
		}
		if err := m.Free(); err != nil {
			t.Error(err)
		}
	})
}

// A gap in the middle is found, however small it is.
func TestLendHostWithAGap(t *testing.T) {
	g, _ := fakeGPU(t, copyeng.GPUOptions{})
	mem := mapping(t, 16*mib)
	register(t, g.Context(), mem[:5*mib], 0)
	register(t, g.Context(), mem[5*mib+4096:], 0)
	s, err := g.LendHost(mem)
	refusedAt(t, "a gap of a page", s, err, 5*mib, "unknown to CUDA")
	s, err = g.LendHost(mem[mib:])
	refusedAt(t, "a gap of a page", s, err, 4*mib, "unknown to CUDA")
	s, err = g.LendHost(mem[:5*mib+1])
	refusedAt(t, "a byte too many", s, err, 5*mib, "unknown to CUDA")

	// A driver that names no ranges lets it be found by the end of the step.
	g, _ = fakeGPU(t, copyeng.GPUOptions{}, cudafake.NoPointerRange())
	mem = mapping(t, 16*mib)
	register(t, g.Context(), mem[:5*mib], 0)
	register(t, g.Context(), mem[5*mib+4096:8*mib], 0)
	s, err = g.LendHost(mem[:8*mib])
	refusedAt(t, "a gap of a page", s, err, 6*mib-1, "another allocation or registration than the one at byte 4194304")
	s, err = g.LendHost(mem[6*mib:])
	refusedAt(t, "the rest is not pinned", s, err, 2*mib, "unknown to CUDA")
	s, err = g.LendHost(mem[6*mib : 9*mib])
	refusedAt(t, "half of a step is not pinned", s, err, 2*mib, "unknown to CUDA")
}

// Registrations that adjoin are one space only if no page lies across the
// border: the driver refuses a copy across.
func TestLendHostAcrossRegistrations(t *testing.T) {
	lendings(t, func(t *testing.T, g *copyeng.GPU) {
		mem := mapping(t, 24*mib)
		for _, part := range [][]byte{mem[:4*mib], mem[4*mib : 9*mib], mem[9*mib : 16*mib], mem[16*mib:]} {
			register(t, g.Context(), part, 0)
		}
		for _, c := range []struct{ from, to, border int }{
			{0, 12, 9}, {4, 12, 5}, {1, 5, 3}, {3, 9, 1}, {8, 10, 1}, {14, 24, 0}, {0, 9, 0}, {2, 6, 0}, {10, 18, 0}, {9, 24, 7},
		} {
			s, err := g.LendHost(mem[c.from*mib : c.to*mib])
			if c.border == 0 {
				if err != nil || s.Size() != uint64(c.to-c.from)*mib {
					t.Errorf("MiB %d to %d: %v", c.from, c.to, err)
				}
				continue
			}
			var e *copyeng.LendError
			// Without ranges the step's last byte is what shows it.
			if !errors.As(err, &e) || e.Offset < uint64(c.border)*mib || e.Offset >= uint64(c.border+1)*mib || !strings.Contains(e.What, "another allocation or registration") {
				t.Errorf("MiB %d to %d: %v, want a LendError from byte %d on", c.from, c.to, err, c.border*mib)
			}
		}
	})
}

// Every path copies pages of every size on both sides of a border that a loan
// may have.
func TestCopiesBesideABorder(t *testing.T) {
	for _, p := range []copyeng.Path{copyeng.PathMemcpy, copyeng.PathBatch, copyeng.PathZeroCopy} {
		g, _ := fakeGPU(t, copyeng.GPUOptions{Force: p})
		r := newRig(t, g, 8*mib)
		mem := mapping(t, 8*mib)
		register(t, g.Context(), mem[:2*mib], 0)
		register(t, g.Context(), mem[2*mib:], 0)
		s, err := g.LendHost(mem)
		if err != nil {
			t.Fatal(err)
		}
		r.host = s
		for _, page := range []int{512, 4096, 2 * mib} {
			fill(mem, uint64(page))
			want := bytes.Clone(mem)
			pairs := shuffled(8*mib/page, 5)
			for _, dir := range []copyeng.Direction{copyeng.ToDevice, copyeng.ToHost} {
				if _, err := r.queue.Copy(r.batch(dir, page, pairs)); err != nil {
					t.Fatal(err)
				}
				if err := wait(t, r.queue); err != nil {
					t.Fatalf("%s, pages of %d: %v", p, page, err)
				}
				if dir == copyeng.ToDevice {
					clear(mem)
				}
			}
			if !bytes.Equal(mem, want) {
				t.Errorf("%s: pages of %d bytes did not come back", p, page)
			}
		}
	}
}

// Memory that another context has pinned for itself is not the engine's to use;
// what it has pinned for all is.
func TestLendHostOfAnotherContext(t *testing.T) {
	lendings(t, func(t *testing.T, g *copyeng.GPU) {
		other := otherContext(t, g)
		mem := mapping(t, 8*mib)
		register(t, other, mem[:2*mib], 0)
		register(t, g.Context(), mem[2*mib:4*mib], 0)
		register(t, other, mem[4*mib:6*mib], cuda.Mapped)
		register(t, other, mem[6*mib:], cuda.Portable)
		for _, part := range [][]byte{mem[:2*mib], mem[:4*mib], mem[6*mib:]} {
			if _, err := g.LendHost(part); err != nil {
				t.Errorf("portable memory: %v", err)
			}
		}
		s, err := g.LendHost(mem[4*mib : 5*mib])
		refusedAt(t, "another context's", s, err, 0, "cannot reach")
		s, err = g.LendHost(mem)
		refusedAt(t, "another context's in the middle", s, err, 4*mib, "cannot reach")
	})
}

// Device memory is lent if it is the context's, and still there.
func TestLendDevice(t *testing.T) {
	g, _ := fakeGPU(t, copyeng.GPUOptions{}, cudafake.Devices(2))
	share, err := g.Context().Device().Retain()
	if err != nil {
		t.Fatal(err)
	}
	var lent []*cuda.DeviceMemory
	for _, ctx := range []*cuda.Context{g.Context(), share, otherContext(t, g)} {
		m, err := ctx.Alloc(mib)
		if err != nil {
			t.Fatal(err)
		}
		lent = append(lent, m)
	}
	for _, m := range lent[:2] {
		s, err := g.LendDevice(m)
		if err != nil || s.Kind() != copyeng.DeviceMemory || s.Address() != uint64(m.Ptr()) || s.Size() != mib {
			t.Errorf("memory of the context: %+v, %v", s, err)
		}
	}
	s, err := g.LendDevice(nil)
	refusedAt(t, "nil", s, err, 0, "nil")
	s, err = g.LendDevice(lent[2])
	refusedAt(t, "memory of another GPU", s, err, 0, "another context")
	s, err = g.LendDevice(new(cuda.DeviceMemory))
	refusedAt(t, "memory that was never allocated", s, err, 0, "another context")
	if err := errors.Join(lent[0].Free(), lent[2].Free(), share.Close()); err != nil {
		t.Fatal(err)
	}
	for _, m := range lent[:2] {
		s, err := g.LendDevice(m)
		refusedAt(t, "freed memory", s, err, 0, "freed")
	}
	m, err := g.Context().Alloc(mib)
	if err != nil {
		t.Fatal(err)
	}
	host, err := g.AllocateHost(4096)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := g.LendDevice(m); s != nil || !errors.Is(err, copyeng.ErrClosed) {
		t.Errorf("a closed engine lends device memory: %v", err)
	}
	if s, err := g.LendHost(host.Bytes()); s != nil || !errors.Is(err, copyeng.ErrClosed) {
		t.Errorf("a closed engine lends host memory: %v", err)
	}
	if err := errors.Join(m.Free(), host.Close()); err != nil {
		t.Error(err)
	}
}

// On a GPU: what the driver says of registrations is what loans go by.
func TestLendHostGPU(t *testing.T) {
	mem := mapping(t, 16*mib) // before the context: unmapped after it
	ctx := realContext(t)
	g, err := copyeng.OpenGPU(ctx, copyeng.GPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]byte{mem[:4*mib], mem[4*mib : 9*mib], mem[9*mib : 12*mib]} {
		register(t, ctx, part, 0)
	}
	for _, c := range []struct {
		from, to int
		ok       bool
	}{{0, 4, true}, {1, 3, true}, {4, 9, true}, {0, 9, true}, {4, 10, false}, {3, 9, false}, {8, 10, false}, {9, 12, true}, {9, 13, false}, {12, 16, false}} {
		s, err := g.LendHost(mem[c.from*mib : c.to*mib])
		var e *copyeng.LendError
		if (err == nil) != c.ok || err != nil && !errors.As(err, &e) || err == nil && s.Size() != uint64(c.to-c.from)*mib {
			t.Errorf("MiB %d to %d: %v, want a loan: %v", c.from, c.to, err, c.ok)
		}
		info, err := ctx.PointerInfo(cuda.Ptr(addressOf(mem) + uint64(c.from)*mib))
		t.Logf("MiB %d: %+v, %v", c.from, info, err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}
