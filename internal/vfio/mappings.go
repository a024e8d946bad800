package vfio

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// translator is the part in which the two interfaces differ: it puts memory at a device address and takes it away.
type translator interface {
	mapAt(b []byte, iova uint64) error
	unmapAt(iova, size uint64) (unmapped uint64, err error)
	close() error
}

// mapping is memory that the device can reach, or could until it was revoked.
type mapping struct {
	size    uint64
	revoked bool
}

// mappings hands out device addresses and knows what lies at them.
type mappings struct {
	sys   System
	trans translator

	mu     sync.Mutex // guards the fields below; held over system calls, so that an address is free only when the kernel says so
	iovas  *iovaSpace
	used   map[uint64]mapping
	locked uint64 // bytes mapped
	closed bool
}

// newMappings takes the usable ranges; none means that there is no IOMMU, and every mapping is refused.
func newMappings(sys System, t translator, ranges []iovaRange) *mappings {
	return &mappings{sys: sys, trans: t, iovas: newIOVASpace(ranges), used: map[uint64]mapping{}}
}

func (m *mappings) add(b []byte) (uint64, error) {
	size := uint64(len(b))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, &MapError{Bytes: size, Err: errClosed}
	}
	iova, err := m.iovas.take(size)
	if err != nil {
		return 0, &MapError{Bytes: size, Err: err, Remedy: "free some memory first; without an IOMMU use huge pages by their physical address"}
	}
	if err := m.trans.mapAt(b, iova); err != nil {
		m.iovas.give(iova, size)
		return 0, m.failure(size, err)
	}
	m.used[iova] = mapping{size: size}
	m.locked += size
	return iova, nil
}

// errClosed is the cause of a mapping that comes after Close.
var errClosed = errors.New("the device is closed")

// remove ends the device's access. With keep set the address stays taken, so that a device that still uses it meets nothing, rather than
// what would be mapped there next.
func (m *mappings) remove(iova, size uint64, keep bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, ok := m.used[iova]
	if !ok || u.size != size {
		return fmt.Errorf("vfio: nothing of %d bytes is mapped at %#x", size, iova)
	}
	if !u.revoked && !m.closed { // closing ended all access
		// Less than all would leave the device with access to memory that is reused.
		if n, err := m.trans.unmapAt(iova, size); err != nil || n != size {
			return fmt.Errorf("vfio: unmapping %d bytes at %#x: %d unmapped, %v", size, iova, n, err)
		}
		m.locked -= size
	}
	if keep {
		m.used[iova] = mapping{size, true}
		return nil
	}
	delete(m.used, iova)
	m.iovas.give(iova, size)
	return nil
}

// failure explains the errno of a mapping.
func (m *mappings) failure(size uint64, err error) error {
	limit, lerr := m.sys.Memlock()
	switch {
	case errors.Is(err, unix.ENOMEM) && lerr == nil && limit != unlimited:
		return &MemlockError{m.locked + size, limit, err}
	case errors.Is(err, unix.ENOSPC):
		return &MapError{size, "the kernel's limit of mappings is reached: map fewer, larger pieces or raise vfio_iommu_type1.dma_entry_limit", err}
	case errors.Is(err, unix.EFAULT):
		return &MapError{size, "the memory cannot be pinned for a device (a file mapping, or not writable)", err}
	}
	return &MapError{Bytes: size, Err: err}
}

func (m *mappings) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	return m.trans.close()
}
