package libnvm

import (
	"fmt"
	"unsafe"

	"github.com/tritier/tritier/libnvm/internal/mmio"
)

// PageSize is the memory page size that the driver sets in CC.MPS, and the
// unit of every physical region page (PRP).
const PageSize = 4096

// Transport reaches one controller: its registers and memory that it can read
// and write. Alloc and Map may be called from several goroutines at once.
// Close comes last, when no Memory is used any more; what is still quarantined
// then can be freed afterwards.
type Transport interface {
	// Name is "soft", "vfio", "iommufd" or "raw".
	Name() string
	// Registers is the whole BAR0, however large. The mapping lives until Close.
	Registers() Registers
	// Alloc returns page-aligned, zeroed memory that the controller can reach.
	// The size is rounded up to whole pages. Up to 2 MiB it is contiguous in
	// IOVA space; more may come in pieces, each a multiple of 4 KiB.
	Alloc(bytes int) (*Memory, error)
	// Map makes the caller's memory reachable by the controller. Address and
	// length must be multiples of PageSize, and the memory must not move
	// (not on a goroutine's stack) nor be unmapped before Free. A transport
	// that cannot do so returns a *MapError.
	Map(buf []byte) (*Memory, error)
	// Close stops the controller's access to all memory and unmaps the
	// registers. Once it is certain that nothing reaches the memory any more,
	// it calls Memory.Detach for all that was not freed, which ends the
	// quarantine that no reset could end. When Close fails, that is not certain.
	Close() error
}

// CMB is implemented by a transport whose controller memory buffer lies in
// another BAR than BAR0. The driver asks for it by the number in CMBLOC.BIR.
type CMB interface {
	// BAR maps BAR number bir whole; the mapping lives until Close.
	BAR(bir int) ([]byte, error)
}

// A MapError says why a transport cannot map memory that the caller brings.
type MapError struct {
	Transport string // name of the transport
	Reason    string // what is in the way
	Remedy    string // what to do instead
	Err       error  // the system's error, or nil
}

func (e *MapError) Error() string {
	s := fmt.Sprintf("libnvm: %s transport cannot map this memory: %s", e.Transport, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

func (e *MapError) Unwrap() error { return e.Err }

// Registers is a mapped BAR0. The zero value reads as all ones, like a device
// that is gone. Methods may be called from any goroutine.
type Registers struct {
	base unsafe.Pointer
	size int
}

// NewRegisters wraps a mapped BAR, which must be at least 4 KiB, a multiple of
// 4 bytes and 8-byte aligned.
func NewRegisters(bar []byte) (Registers, error) {
	if len(bar) < PageSize || len(bar)%4 != 0 || uintptr(unsafe.Pointer(unsafe.SliceData(bar)))%8 != 0 {
		return Registers{}, fmt.Errorf("libnvm: BAR of %d bytes is too small or not aligned for an NVMe controller", len(bar))
	}
	return Registers{unsafe.Pointer(unsafe.SliceData(bar)), len(bar)}, nil
}

// Len is the size of the mapping in bytes.
func (r Registers) Len() int { return r.size }

// bytes is the mapping, for a controller memory buffer inside it.
func (r Registers) bytes() []byte { return unsafe.Slice((*byte)(r.base), r.size) }

// at is the register at off, or nil when off is outside or not dword aligned.
func (r Registers) at(off int) *uint32 {
	if off < 0 || off > r.size-4 || off%4 != 0 {
		return nil
	}
	return (*uint32)(unsafe.Add(r.base, off))
}

// Read32 reads a register; outside the mapping it reads all ones, as PCI does.
func (r Registers) Read32(off int) uint32 {
	p := r.at(off)
	if p == nil {
		return 1<<32 - 1
	}
	return mmio.Load32(p)
}

// Read64 reads two dwords, the low one first; controllers need not support
// 8-byte accesses.
func (r Registers) Read64(off int) uint64 {
	lo := r.Read32(off)
	return uint64(lo) | uint64(r.Read32(off+4))<<32
}

// Write32 writes a register with one plain store; outside the mapping it does nothing.
func (r Registers) Write32(off int, v uint32) {
	if p := r.at(off); p != nil {
		mmio.Store32(p, v)
	}
}

// Write64 writes two dwords, the low one first.
func (r Registers) Write64(off int, v uint64) {
	r.Write32(off, uint32(v))
	r.Write32(off+4, uint32(v>>32))
}

// Doorbell finds the doorbell at off once, so that ringing it needs no check.
func (r Registers) Doorbell(off int) (Doorbell, error) {
	p := r.at(off)
	if p == nil {
		return Doorbell{}, fmt.Errorf("libnvm: doorbell at %#x outside the %#x bytes of BAR0 that are mapped", off, r.size)
	}
	return Doorbell{p}, nil
}

// Doorbell is one doorbell register.
type Doorbell struct{ p *uint32 }

// Ring writes v with one plain 32-bit store that follows all earlier stores.
func (d Doorbell) Ring(v uint32) { mmio.Store32(d.p, v) }

// Pointer is the register's address, for a producer that is not written in Go.
func (d Doorbell) Pointer() unsafe.Pointer { return unsafe.Pointer(d.p) }
