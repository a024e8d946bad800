package raw

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tritier/tritier/internal/pci"
	"github.com/tritier/tritier/internal/vfio"
	"github.com/tritier/tritier/libnvm"
)

// Transport is a drive that is given physical addresses. It implements [libnvm.Transport] and [libnvm.CMB].
type Transport struct {
	mapBAR func(int) ([]byte, error)
	stop   func() error // ends the drive's access to memory and unmaps its registers
	regs   libnvm.Registers
	mem    pool

	unmapped atomic.Bool // Close has begun
	once     sync.Once
	err      error // of Close
}

// Open opens the drive at a PCI address through sysfs. No driver may have it.
func Open(address string, o Options) (*Transport, error) {
	return open(pci.Host(), kernelPages{}, address, o)
}

func open(tree pci.Tree, src source, address string, o Options) (*Transport, error) {
	if !o.AllowUnsafe {
		return nil, ErrUnsafe
	}
	f, err := openFunction(tree, address, o)
	if err != nil {
		return nil, err
	}
	return newTransport(f.bar, f.close, src, address)
}

// OpenNoIOMMU opens the drive at a PCI address through VFIO's no-IOMMU mode, which the kernel must have been built with
// (CONFIG_VFIO_NOIOMMU) and which must be on (vfio.enable_unsafe_noiommu_mode=1).
func OpenNoIOMMU(address string, o Options) (*Transport, error) {
	return openNoIOMMU(vfio.Kernel(), pci.Host(), kernelPages{}, address, o)
}

func openNoIOMMU(sys vfio.System, tree pci.Tree, src source, address string, o Options) (*Transport, error) {
	if !o.AllowUnsafe {
		return nil, ErrUnsafe
	}
	f, err := tree.Find(address)
	if err != nil {
		return nil, fmt.Errorf("libnvm/raw: %w", err)
	}
	if o.Bind {
		if err := tree.Bind(f.Address, "vfio-pci", o.Force); err != nil {
			return nil, fmt.Errorf("libnvm/raw: %w", err)
		}
	}
	d, err := vfio.OpenGroup(sys, f.Address, vfio.GroupOptions{NoIOMMU: true})
	if err != nil {
		return nil, fmt.Errorf("libnvm/raw: %w", err)
	}
	return newTransport(d.MapRegion, d.Close, src, f.Address)
}

func newTransport(bar func(int) ([]byte, error), stop func() error, src source, address string) (*Transport, error) {
	t := &Transport{mapBAR: bar, stop: stop, mem: pool{src: src}}
	b, err := bar(0)
	if err == nil {
		t.regs, err = libnvm.NewRegisters(b)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("libnvm/raw: registers of %s: %w", address, err), stop())
	}
	return t, nil
}

// Name is "raw".
func (t *Transport) Name() string { return "raw" }

// Registers is BAR0, mapped whole; after Close, when the mapping is gone, registers that read as all ones.
func (t *Transport) Registers() libnvm.Registers {
	if t.unmapped.Load() {
		return libnvm.Registers{}
	}
	return t.regs
}

// BAR maps BAR number bir whole; the mapping lives until Close.
func (t *Transport) BAR(bir int) ([]byte, error) {
	if bir < 0 || bir > 5 {
		return nil, fmt.Errorf("libnvm/raw: there is no BAR%d", bir)
	}
	b, err := t.mapBAR(bir)
	if err != nil {
		return nil, fmt.Errorf("libnvm/raw: BAR%d: %w", bir, err)
	}
	return b, nil
}

// Alloc cuts memory out of huge pages; above 2 MiB it comes in chunks of 2 MiB.
func (t *Transport) Alloc(bytes int) (*libnvm.Memory, error) { return t.mem.alloc(bytes) }

// Map is refused: ordinary memory has no lasting physical address.
func (t *Transport) Map([]byte) (*libnvm.Memory, error) {
	return nil, &libnvm.MapError{Transport: "raw", Reason: "without an IOMMU only huge pages have a lasting physical address", Remedy: "use memory from Alloc, or VFIO with an IOMMU"}
}

// Close ends the drive's access to memory, unmaps its registers and gives the huge pages back; those of memory that was not freed follow with
// the last piece, which can be freed then even if a command that timed out had used it. A second Close does nothing.
func (t *Transport) Close() error {
	t.once.Do(func() { t.err = t.close() })
	return t.err
}

func (t *Transport) close() error {
	t.unmapped.Store(true)
	err := t.stop()
	if err == nil { // else it is not certain that the drive's access has ended
		err = t.mem.detach()
	}
	return errors.Join(err, t.mem.close())
}
