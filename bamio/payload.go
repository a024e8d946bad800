package bamio

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/internal/pinned"
	"github.com/tritier/tritier/libnvm"
)

// DMABufImporter is a transport that lets its controller reach GPU memory. No
// transport of libnvm can yet.
type DMABufImporter interface {
	// ImportDMABuf makes the first n bytes of a dma-buf reachable, contiguous at
	// a page-aligned IOVA. The descriptor stays the caller's. release ends it.
	ImportDMABuf(fd int, n uint64) (iova uint64, release func() error, err error)
}

// dmaMemory is the payload in one controller's address space.
type dmaMemory struct {
	iova    uint64
	release func() error // nil while there is nothing to release
}

// payload is the memory that data passes.
type payload struct {
	place Place
	base  uint64 // the GPU's address
	bytes []byte // the host's view, nil for GPU memory

	pool   *pinned.Pool
	device *cuda.DeviceMemory
	reg    *cuda.Registration // of memory that the transport gave

	buffer, count, list int // bytes of a buffer, buffers, bytes of a PRP list
}

// openPayload decides where payload passes and makes it reachable for all.
func (e *Engine) openPayload(ctx context.Context) error {
	p := &e.payload
	p.buffer, p.count = e.opts.BufferBytes, e.opts.Buffers
	if p.count == 0 {
		p.count = len(e.queues) * (e.depth - 1)
	}
	p.list = listBytes(p.buffer)
	size := uint64(p.buffer) * uint64(p.count)
	host := e.opts.HostPayload
	if !host {
		blockers, err := e.tryPeer(size)
		if err != nil {
			return err
		}
		e.path.Blockers = append(e.path.Blockers, blockers...)
		host = len(blockers) > 0
	}
	if host { // GPU memory is not wanted, or something is in the way
		if err := e.hostPayload(ctx, size); err != nil {
			return err
		}
	}
	e.path.Payload = p.place
	for _, port := range e.ports {
		if err := e.writeLists(port); err != nil {
			return err
		}
	}
	return nil
}

// hostPayload takes pinned memory and maps it for every controller.
func (e *Engine) hostPayload(ctx context.Context, size uint64) error {
	p := &e.payload
	p.place = PinnedHost
	pool, err := pinned.Open(ctx, poolConfig(e.gpu, size))
	if err != nil {
		return &SetupError{"allocate the payload memory", fmt.Sprintf("%d bytes", size), "", err}
	}
	p.pool, p.bytes = pool, pool.Bytes()[:size]
	if p.base, err = pool.DeviceAddr(0); err == nil && !pool.Contiguous() {
		err = errors.New("its chunks have no contiguous addresses on the GPU: ask for at most 4 GiB")
	}
	if err != nil {
		return &SetupError{"address the payload memory", fmt.Sprintf("%d bytes", size), "", err}
	}
	for _, port := range e.ports {
		m, err := port.ctrl.Transport().Map(pool.Bytes())
		var refused *libnvm.MapError
		if errors.As(err, &refused) && len(e.ports) == 1 && port.buffers.release == nil {
			return e.transportPayload(port, size, err)
		}
		if err != nil {
			return &SetupError{"map the payload memory for the drive", port.name, "", err}
		}
		port.buffers.release = m.Free
		if port.buffers.iova, err = contiguous(m, len(pool.Bytes())); err != nil {
			return &SetupError{"map the payload memory for the drive", port.name, "", err}
		}
	}
	return nil
}

// transportPayload is for a transport that maps no memory but its own (raw, whose
// memory is huge pages): a single drive, and as much as is contiguous.
func (e *Engine) transportPayload(port *port, size uint64, refused error) error {
	p := &e.payload
	if err := p.pool.Close(); err != nil {
		return err
	}
	p.pool, p.bytes = nil, nil
	fail := func(err error) error {
		return &SetupError{"take payload memory from the drive's transport", port.name,
			"use fewer or smaller buffers, or reach the drive through VFIO", errors.Join(refused, err)}
	}
	m, err := port.ctrl.Transport().Alloc(int(size))
	if err != nil {
		return fail(err)
	}
	port.buffers.release = m.Free
	if port.buffers.iova, err = contiguous(m, int(size)); err != nil {
		return fail(err)
	}
	if p.reg, err = e.gpu.RegisterHost(m.Bytes(), cuda.Portable|cuda.Mapped); err != nil {
		return fail(err)
	}
	p.base, p.bytes = uint64(p.reg.DevicePtr()), m.Bytes()[:size]
	return nil
}

// contiguous is the IOVA of memory that must lie in one piece.
func contiguous(m *libnvm.Memory, n int) (uint64, error) {
	if !m.Contiguous(0, n) {
		return 0, fmt.Errorf("its %d bytes are not contiguous for the controller", n)
	}
	return m.IOVA(0)
}

// tryPeer puts the payload into GPU memory if every drive can reach it, and
// otherwise names what is in the way.
func (e *Engine) tryPeer(size uint64) ([]Blocker, error) {
	if blockers := peerBlockers(e.gpu, e.ports); len(blockers) > 0 {
		return blockers, nil
	}
	p := &e.payload
	mem, err := e.gpu.Alloc((size + peerAlign - 1) &^ (peerAlign - 1))
	if err != nil {
		return nil, &SetupError{"allocate the payload in GPU memory", fmt.Sprintf("%d bytes", size), "", err}
	}
	if blocker := e.export(mem); blocker != nil {
		return []Blocker{*blocker}, errors.Join(e.releaseBuffers(), mem.Free())
	}
	p.place, p.device, p.base = GPUMemory, mem, uint64(mem.Ptr())
	return nil, nil
}

// peerAlign is what the size of exported memory is a multiple of: a huge page,
// which the driver allocates in.
const peerAlign = 2 << 20

// export makes GPU memory reachable for every controller.
func (e *Engine) export(mem *cuda.DeviceMemory) *Blocker {
	fd, err := mem.DMABuf()
	if err != nil {
		return &Blocker{PeerPayload, e.gpu.Device().String(), "its memory cannot be exported (dma-buf)", "see tritier doctor", err}
	}
	defer unix.Close(fd)
	for _, port := range e.ports {
		imp, ok := port.ctrl.Transport().(DMABufImporter)
		if !ok {
			return &Blocker{PeerPayload, port.name, "its transport imports no dma-buf", "", nil}
		}
		b := &port.buffers
		if b.iova, b.release, err = imp.ImportDMABuf(fd, mem.Size()); err != nil {
			b.release = nil
			return &Blocker{PeerPayload, port.name, "its transport does not import the GPU's memory", "check that GPU and drive are behind one PCIe switch and that the IOMMU lets them reach each other", err}
		}
	}
	return nil
}

// listBytes is the size of a buffer's PRP list: a power of two, so that none
// crosses a page, which a list may only end at.
func listBytes(buffer int) int {
	n := 64
	for n < (buffer/page-1)*8 {
		n *= 2
	}
	return n
}

// writeLists makes the PRP lists of all buffers for one controller: entry k of a
// list is the address of the buffer's page k + 1.
func (e *Engine) writeLists(port *port) error {
	p := &e.payload
	total := p.list * p.count
	var err error
	if port.lists, err = port.ctrl.Transport().Alloc(total); err != nil {
		return &SetupError{"allocate PRP lists", port.name, "", err}
	}
	if _, err := contiguous(port.lists, total); err != nil {
		return &SetupError{"allocate PRP lists", port.name, "use fewer or smaller buffers", err}
	}
	b := port.lists.Bytes()
	for i := range p.count {
		first := port.buffers.iova + uint64(i)*uint64(p.buffer)
		for k := range p.buffer/page - 1 {
			binary.LittleEndian.PutUint64(b[i*p.list+8*k:], first+uint64(k+1)*page)
		}
	}
	return nil
}

// releaseBuffers ends the controllers' access to the payload.
func (e *Engine) releaseBuffers() error {
	var errs []error
	for _, port := range e.ports {
		if r := port.buffers.release; r != nil {
			err := r()
			errs = append(errs, err)
			if err == nil {
				port.buffers = dmaMemory{}
			}
		}
		if port.lists != nil {
			err := port.lists.Free()
			errs = append(errs, err)
			if err == nil {
				port.lists = nil
			}
		}
	}
	return errors.Join(errs...)
}

// freePayload gives the payload back, once no controller can reach it. Memory
// that the transport gave is unregistered before it is freed.
func (e *Engine) freePayload() error {
	p := &e.payload
	errs := []error{unregister(&p.reg), e.releaseBuffers()}
	if errs[1] != nil {
		return errors.Join(errs...) // a controller may still reach the rest
	}
	if p.pool != nil {
		errs = append(errs, p.pool.Close())
		p.pool = nil
	}
	if p.device != nil {
		errs = append(errs, p.device.Free())
		p.device = nil
	}
	p.bytes = nil
	return errors.Join(errs...)
}
