// Package vfio reaches an NVMe drive through Linux's VFIO: the drive's registers are mapped into the program, and an IOMMU limits the drive
// to the memory that the program gave it. It needs no root once the drive is bound to vfio-pci and the group's device node belongs to the
// user.
//
// Two interfaces of the kernel lead there, see [Interface]. Errors about the machine's set-up come from internal/vfio and internal/pci,
// are typed, and say what to do.
package vfio

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/internal/pci"
	"github.com/tritier/tritier/internal/vfio"
	"github.com/tritier/tritier/libnvm"
)

// Interface selects one of the kernel's two VFIO interfaces.
type Interface int

// The interfaces.
const (
	// Auto takes IOMMUFD where the kernel has it, and Group elsewhere.
	Auto Interface = iota
	// Group is the older one: IOMMU groups in a container of type 1.
	Group
	// IOMMUFD is the one of Linux 6.6: a character device for each function, and I/O address spaces.
	IOMMUFD
)

// Options for [Open].
type Options struct {
	Interface Interface
	// Bind takes the drive from the kernel's nvme driver and binds it to vfio-pci when that is not so yet; it needs root. A drive that is
	// mounted, swap, part of another device, partitioned or otherwise holds data is refused.
	Bind bool
	// Force binds even then. Data on the drive may be lost.
	Force bool
}

// Driver is the kernel driver that VFIO needs a drive bound to.
const Driver = "vfio-pci"

// Transport is a drive opened through VFIO. It implements [libnvm.Transport] and [libnvm.CMB].
type Transport struct {
	dev  *vfio.Device
	name string
	regs libnvm.Registers

	mu     sync.Mutex
	bars   map[int][]byte               // mapped BARs by number
	iova   map[*libnvm.Memory]revocable // all memory that was not freed, and what Revoke needs to know of it
	closed bool                         // the drive's access to all memory has ended

	unmapped atomic.Bool // Close has begun
	once     sync.Once
	err      error // of Close
}

type revocable struct {
	iova uint64
	size int
}

// Open opens the drive at a PCI address, such as 0000:01:00.0.
func Open(address string, o Options) (*Transport, error) {
	return open(vfio.Kernel(), pci.Host(), address, o)
}

func open(sys vfio.System, tree pci.Tree, address string, o Options) (*Transport, error) {
	f, err := tree.Find(address)
	if err != nil {
		return nil, fmt.Errorf("libnvm/vfio: %w", err)
	}
	// What is in the way for good comes before the drive is taken from anybody.
	if err := vfio.Probe(sys, f.Address); err != nil {
		return nil, fmt.Errorf("libnvm/vfio: %w", err)
	}
	if o.Bind {
		if err := tree.Bind(f.Address, Driver, o.Force); err != nil {
			return nil, fmt.Errorf("libnvm/vfio: %w", err)
		}
	}
	dev, name, err := openDevice(sys, f.Address, o.Interface)
	if err != nil {
		return nil, fmt.Errorf("libnvm/vfio: %w", err)
	}
	t := &Transport{dev: dev, name: name, bars: map[int][]byte{}, iova: map[*libnvm.Memory]revocable{}}
	bar, err := t.BAR(0)
	if err == nil {
		t.regs, err = libnvm.NewRegisters(bar)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("libnvm/vfio: registers of %s: %w", f.Address, err), dev.Close())
	}
	return t, nil
}

// openDevice follows the choice of interface; with Auto a kernel without iommufd is no error.
func openDevice(sys vfio.System, address string, i Interface) (*vfio.Device, string, error) {
	if i != Group {
		d, err := vfio.OpenCdev(sys, address)
		if err == nil {
			return d, "iommufd", nil
		}
		var missing *vfio.NoIOMMUFDError
		if i == IOMMUFD || !errors.As(err, &missing) {
			return nil, "", err
		}
	}
	d, err := vfio.OpenGroup(sys, address, vfio.GroupOptions{})
	return d, "vfio", err
}

// Name is "vfio" or "iommufd".
func (t *Transport) Name() string { return t.name }

// Address is the drive's PCI address.
func (t *Transport) Address() string { return t.dev.Address() }

// Registers is BAR0, mapped whole; after Close, when the mapping is gone, registers that read as all ones.
func (t *Transport) Registers() libnvm.Registers {
	if t.unmapped.Load() {
		return libnvm.Registers{}
	}
	return t.regs
}

// BAR maps BAR number bir whole, once; the mapping lives until Close.
func (t *Transport) BAR(bir int) ([]byte, error) {
	if bir < 0 || bir > 5 {
		return nil, fmt.Errorf("libnvm/vfio: there is no BAR%d", bir)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if b, ok := t.bars[bir]; ok {
		return b, nil
	}
	b, err := t.dev.MapRegion(bir)
	if err != nil {
		return nil, fmt.Errorf("libnvm/vfio: %w", err)
	}
	t.bars[bir] = b
	return b, nil
}

// Region is where another process finds a BAR: it maps Bytes at Offset of the descriptor FD, which it inherits.
type Region struct {
	FD     int // the receiver of the Region closes it
	Offset int64
	Bytes  int
}

// ShareBAR gives what another process needs to map BAR number bir, such as one whose threads ring doorbells of queues that were made here:
// see [libnvm.QueuePair.Layout]. The memory that the drive reaches is shared by handing shared memory to Map. The other process's
// descriptors and mappings keep the device open for the kernel, and memory that is mapped for the drive locked, even after Close: end that
// process first.
func (t *Transport) ShareBAR(bir int) (Region, error) {
	if bir < 0 || bir > 5 {
		return Region{FD: -1}, fmt.Errorf("libnvm/vfio: there is no BAR%d", bir)
	}
	fd, offset, bytes, err := t.dev.ShareRegion(bir)
	if err != nil {
		return Region{FD: -1}, fmt.Errorf("libnvm/vfio: %w", err)
	}
	return Region{fd, offset, bytes}, nil
}

// Alloc maps fresh memory for the drive, contiguous in IOVA space whatever its size. It counts against the limit of locked memory.
func (t *Transport) Alloc(bytes int) (*libnvm.Memory, error) {
	size := (bytes + libnvm.PageSize - 1) &^ (libnvm.PageSize - 1)
	if bytes <= 0 || size <= 0 {
		return nil, fmt.Errorf("libnvm/vfio: cannot allocate %d bytes", bytes)
	}
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("libnvm/vfio: %d bytes of memory: %w", size, os.NewSyscallError("mmap", err))
	}
	// A forked child would share the pages copy-on-write, and the parent could then end up with a page that the drive does not write to.
	_ = unix.Madvise(b, unix.MADV_DONTFORK)
	m, err := t.register(b, func() error { return unix.Munmap(b) })
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(b))
	}
	return m, nil
}

// Map lets the drive reach the caller's memory. The kernel pins it: a private file mapping or memory that cannot be written is refused.
func (t *Transport) Map(buf []byte) (*libnvm.Memory, error) {
	return t.register(buf, func() error { return nil })
}

// register maps b and makes the Memory; after runs once the drive can no longer reach b.
func (t *Transport) register(b []byte, after func() error) (*libnvm.Memory, error) {
	iova, err := t.dev.Map(b)
	if err != nil {
		return nil, t.mapError(err)
	}
	var m *libnvm.Memory
	release := func() error {
		// Memory that the drive may still reach must not be given back to the system, so a failure here leaks it.
		if err := t.dev.Unmap(iova, len(b)); err != nil {
			return fmt.Errorf("libnvm/vfio: %w", err)
		}
		t.mu.Lock()
		delete(t.iova, m)
		t.mu.Unlock()
		return after()
	}
	m, err = libnvm.NewMemory(b, iova, release)
	if err != nil {
		return nil, errors.Join(err, t.dev.Unmap(iova, len(b)))
	}
	t.mu.Lock()
	t.iova[m] = revocable{iova, len(b)}
	closed := t.closed
	t.mu.Unlock()
	if closed { // by somebody else meanwhile, who has not seen this memory
		return m, m.Detach()
	}
	return m, nil
}

// mapError keeps the typed cause, which says what to do.
func (t *Transport) mapError(err error) error {
	var m *vfio.MapError
	if errors.As(err, &m) {
		return &libnvm.MapError{Transport: t.name, Reason: fmt.Sprintf("%d bytes", m.Bytes), Remedy: m.Remedy, Err: err}
	}
	return &libnvm.MapError{Transport: t.name, Reason: "the kernel refuses it", Err: err}
}

// Revoke ends the drive's access to memory at once, for memory of a command that timed out. The program keeps its mapping and the address is
// not used again before Free. A drive that still uses it meets an IOMMU fault, and may then report a fatal status.
func (t *Transport) Revoke(m *libnvm.Memory) error {
	t.mu.Lock()
	r, ok := t.iova[m]
	t.mu.Unlock()
	if !ok {
		return errors.New("libnvm/vfio: this memory is not of this transport, or was freed")
	}
	if err := t.dev.Revoke(r.iova, r.size); err != nil {
		return fmt.Errorf("libnvm/vfio: %w", err)
	}
	return nil
}

// Reset resets the PCI function. The controller forgets its queues, and must be brought up again.
func (t *Transport) Reset() error { return t.dev.Reset() }

// RemovalRequested reports whether the kernel has asked for the drive back since the last call, since somebody unplugs or unbinds it. The
// kernel waits for Close.
func (t *Transport) RemovalRequested() (bool, error) { return t.dev.RemovalRequested() }

// Close ends the drive's access to all memory, unmaps its registers and gives the device back to VFIO. Memory stays the program's until it is
// freed, which works then even for what a command that timed out had used. A second Close does nothing.
func (t *Transport) Close() error {
	t.once.Do(func() { t.err = t.close() })
	return t.err
}

func (t *Transport) close() error {
	t.unmapped.Store(true)
	if err := t.dev.Close(); err != nil {
		return err // that the drive's access has ended is not certain
	}
	t.mu.Lock()
	t.closed = true
	left := slices.Collect(maps.Keys(t.iova))
	t.mu.Unlock() // Detach may free the memory, which takes the lock
	var errs []error
	for _, m := range left {
		errs = append(errs, m.Detach())
	}
	return errors.Join(errs...)
}
