package bamio_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/bamio/bamiofake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// drivelike is a software controller under the name of another transport: it
// stands for a raw drive.
type drivelike struct {
	*soft.Controller
	name  string
	noMap bool
}

func (d *drivelike) Name() string { return d.name }

func (d *drivelike) Map(b []byte) (*libnvm.Memory, error) {
	if d.noMap {
		return nil, &libnvm.MapError{Transport: d.name, Reason: "it maps its own memory only"}
	}
	return d.Controller.Map(b)
}

// importer is one that reaches GPU memory.
type importer struct {
	drivelike
	fail error
	live int
}

func (d *importer) ImportDMABuf(fd int, n uint64) (uint64, func() error, error) {
	if d.fail != nil {
		return 0, nil, d.fail
	}
	b, err := unix.Mmap(fd, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return 0, nil, os.NewSyscallError("mmap", err)
	}
	m, err := d.Controller.Map(b)
	if err != nil {
		return 0, nil, errors.Join(err, unix.Munmap(b))
	}
	d.live++
	iova, err := m.IOVA(0)
	return iova, func() error { d.live--; return errors.Join(m.Free(), unix.Munmap(b)) }, err
}

// rawDrive opens a controller over a transport that wraps a software controller.
func (r *rig) rawDrive(wrap func(*soft.Controller) libnvm.Transport) bamio.Drive {
	r.t.Helper()
	m, err := soft.NewMemory(8 << 20)
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := soft.New(context.Background(), soft.Config{Namespaces: []soft.NamespaceConfig{{Backend: m, BlockSize: 512}}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return bamio.Drive{Name: "raw", Controller: r.controller(wrap(s))}
}

// ioBackend is a fake GPU whose host has device memory to map: the software
// controller's registers.
type ioBackend struct{ *cudafake.GPU }

func (b ioBackend) Call(s cuda.Symbol, args []uintptr) cuda.Result {
	const ioMemory = 4
	if s == cuda.SymMemHostRegister && args[2]&ioMemory != 0 {
		args = append([]uintptr(nil), args...)
		args[2] &^= ioMemory
	}
	return b.GPU.Call(s, args)
}

func peerGPU() cudafake.Option {
	return cudafake.WithDevice(cudafake.DeviceSpec{Attributes: map[cuda.Attribute]int{cuda.DMABufSupported: 1, cuda.GPUDirectRDMASupported: 1}})
}

// blocked says whether a blocker's line has all the words.
func blocked(p bamio.Path, words ...string) bool {
	for _, b := range p.Blockers {
		all := true
		for _, w := range words {
			all = all && strings.Contains(b.String(), w)
		}
		if all {
			return true
		}
	}
	return false
}

// TestRawDrive: a raw drive's doorbells are registers that the GPU maps, and its
// path says so.
func TestRawDrive(t *testing.T) {
	r := newRigOver(t, func(g *cudafake.GPU) cuda.Backend { return ioBackend{g} })
	e := r.open(bamio.Options{
		Drives: []bamio.Drive{r.rawDrive(func(s *soft.Controller) libnvm.Transport { return &drivelike{s, "vfio", false} }), r.drive(8<<20, soft.Config{})},
		Queues: 4, Buffers: 32,
	})
	p := e.Path()
	if want := bamio.DriveBAR + " and " + bamio.SharedHost; p.Doorbells != want || p.Payload != bamio.PinnedHost {
		t.Errorf("%v", p)
	}
	if !blocked(p, bamio.PeerPayload, "raw", "vfio", "dma-buf") || !blocked(p, bamio.PeerRings, "raw", "vfio") {
		t.Errorf("blockers: %v", p.Blockers)
	}
	r.must(e, func(d *bamiofake.Device) error { return exercise(d, 8, 6, 4) })
}

// TestDoorbellsBlocked: where the GPU cannot map the registers, Open says what
// CUDA said and Probe names the blocker; nothing is left.
func TestDoorbellsBlocked(t *testing.T) {
	r := newRig(t)
	d := r.rawDrive(func(s *soft.Controller) libnvm.Transport { return &drivelike{s, "vfio", false} })
	_, err := bamio.Open(t.Context(), bamio.Options{GPU: r.gpu, Drives: []bamio.Drive{d}})
	var setup *bamio.SetupError
	if !errors.As(err, &setup) || setup.Step != "map the doorbells" || !errors.Is(err, cuda.InvalidValue) || setup.Remedy == "" {
		t.Errorf("open: %v", err)
	}
	p, err := bamio.Probe(r.gpu, []bamio.Drive{d})
	if err != nil {
		t.Fatal(err)
	}
	if p.Doorbells != bamio.Nowhere || !blocked(p, bamio.GPUDoorbells, "raw", "CUDA_ERROR_INVALID_VALUE") {
		t.Errorf("%v, %v", p, p.Blockers)
	}
}

// TestPeerPayload: where drives import GPU memory, payload never passes the host.
func TestPeerPayload(t *testing.T) {
	r := newRigOver(t, func(g *cudafake.GPU) cuda.Backend { return ioBackend{g} }, cudafake.DMABuf(), peerGPU())
	im := &importer{drivelike: drivelike{name: "vfio"}}
	d := r.rawDrive(func(s *soft.Controller) libnvm.Transport { im.Controller = s; return im })
	p, err := bamio.Probe(r.gpu, []bamio.Drive{d})
	if err != nil || p.Payload != bamio.GPUMemory || im.live != 0 {
		t.Errorf("probe: %v, %v, %v; %d imports live", p, p.Blockers, err, im.live)
	}
	e := r.open(bamio.Options{Drives: []bamio.Drive{d}, Queues: 2, Buffers: 32, BufferBytes: 16 << 10})
	if e.Path().Payload != bamio.GPUMemory || e.Payload() != nil || im.live != 1 {
		t.Errorf("%v, %v; %d imports live", e.Path(), e.Path().Blockers, im.live)
	}
	r.must(e, func(d *bamiofake.Device) error { return exercise(d, 8, 6, 32) })
	if err := e.Close(); err != nil || im.live != 0 {
		t.Errorf("close: %v; %d imports live", err, im.live)
	}
	host := r.open(bamio.Options{Drives: []bamio.Drive{d}, Queues: 2, Buffers: 32, HostPayload: true})
	if host.Path().Payload != bamio.PinnedHost || len(host.Payload()) == 0 {
		t.Errorf("host memory was asked for: %v", host.Path())
	}
}

// TestPeerBlockers: each thing that is in the way has its name, and payload then
// passes host memory.
func TestPeerBlockers(t *testing.T) {
	refused := errors.New("the IOMMU refuses it")
	for name, c := range map[string]struct {
		fake  []cudafake.Option
		fail  error
		words []string
	}{
		"no dma-buf":     {nil, nil, []string{"GPU 0", "no dma-buf"}},
		"no RDMA":        {[]cudafake.Option{cudafake.WithDevice(cudafake.DeviceSpec{Attributes: map[cuda.Attribute]int{cuda.DMABufSupported: 1}})}, nil, []string{"GPU 0", "GPUDirect RDMA"}},
		"export refused": {[]cudafake.Option{peerGPU()}, nil, []string{"GPU 0", "cannot be exported", "CUDA_ERROR_NOT_SUPPORTED"}},
		"import refused": {[]cudafake.Option{peerGPU(), cudafake.DMABuf()}, refused, []string{"raw", refused.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigOver(t, func(g *cudafake.GPU) cuda.Backend { return ioBackend{g} }, c.fake...)
			im := &importer{drivelike: drivelike{name: "vfio"}, fail: c.fail}
			e := r.open(bamio.Options{Drives: []bamio.Drive{r.rawDrive(func(s *soft.Controller) libnvm.Transport { im.Controller = s; return im })}, Queues: 1, Buffers: 8})
			if e.Path().Payload != bamio.PinnedHost || !blocked(e.Path(), append(c.words, bamio.PeerPayload)...) {
				t.Errorf("%v: %v", e.Path(), e.Path().Blockers)
			}
			r.must(e, func(d *bamiofake.Device) error { return exercise(d, 4, 2, 1) })
		})
	}
}

// TestTransportMemory: a transport that maps no other memory gives its own.
func TestTransportMemory(t *testing.T) {
	r := newRigOver(t, func(g *cudafake.GPU) cuda.Backend { return ioBackend{g} })
	d := r.rawDrive(func(s *soft.Controller) libnvm.Transport { return &drivelike{s, "raw", true} })
	e := r.open(bamio.Options{Drives: []bamio.Drive{d}, Queues: 2, Buffers: 32})
	if !blocked(e.Path(), bamio.PeerPayload, "IOMMU") {
		t.Errorf("%v", e.Path().Blockers)
	}
	r.must(e, func(d *bamiofake.Device) error { return exercise(d, 8, 4, 8) })
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	two := []bamio.Drive{r.drive(8<<20, soft.Config{}), d}
	var refused *libnvm.MapError
	if _, err := bamio.Open(t.Context(), bamio.Options{GPU: r.gpu, Drives: two, Queues: 2}); !errors.As(err, &refused) {
		t.Errorf("payload for two drives of which one maps nothing: %v", err)
	}
}

// TestFeatures is what tritier doctor is told.
func TestFeatures(t *testing.T) {
	if gpu, peer := bamio.Features(); !gpu || peer {
		t.Errorf("%v, %v", gpu, peer)
	}
}
