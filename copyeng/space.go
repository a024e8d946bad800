package copyeng

import (
	"fmt"
	"sync/atomic"

	"github.com/tritier/tritier/internal/pinned"
)

// Kind is where a space's memory is.
type Kind uint8

// The kinds of memory.
const (
	HostMemory   Kind = iota // pinned host memory, mapped into the GPU
	DeviceMemory             // GPU memory; with the Host engine ordinary memory
)

// String is "host" or "device".
func (k Kind) String() string {
	if k == HostMemory {
		return "host"
	}
	return "device"
}

// Space is a range of memory that batches address by page number. Spaces come
// from an Engine and serve that engine alone. The zero value is not usable.
type Space struct {
	owner  any // the engine
	kind   Kind
	addr   uint64 // address for the GPU; the Host engine has none
	bytes  []byte // nil for GPU memory
	size   uint64 // in bytes
	closed atomic.Bool
	free   func() error // nil for memory of the caller
}

// Kind says where the memory is.
func (s *Space) Kind() Kind { return s.kind }

// Size is the number of bytes.
func (s *Space) Size() uint64 { return s.size }

// Bytes is the memory itself where the CPU can address it: host spaces, and
// device spaces of the Host engine; nil for GPU memory. It must not be used
// after Close, nor while a batch that touches the same pages is in flight.
func (s *Space) Bytes() []byte { return s.bytes }

// Address is where a GPU finds the space; 0 with the Host engine.
func (s *Space) Address() uint64 { return s.addr }

// Close frees memory that the engine allocated and forgets memory that the
// caller lent. No batch that uses the space may be in flight. Closing twice
// does nothing.
func (s *Space) Close() error {
	if s.closed.Swap(true) || s.free == nil {
		return nil
	}
	return s.free()
}

// LimitError says that host memory does not fit into one of the machine's limits
// (physical memory, a control group, RLIMIT_AS, ...), which, and what to do.
type LimitError = pinned.LimitError

// LendError says why memory cannot be lent to an engine.
type LendError struct {
	Kind   Kind
	Offset uint64 // of the first byte that is in the way, from the memory's beginning
	What   string
}

// Error gives one line.
func (e *LendError) Error() string {
	return fmt.Sprintf("copy engine: lend %s memory: byte %d: %s", e.Kind, e.Offset, e.What)
}

// checkLoan refuses host memory that no engine takes.
func checkLoan(mem []byte) error {
	if len(mem) == 0 {
		return &LendError{HostMemory, 0, "there is none: the memory is empty"}
	}
	if at := addressOf(mem); at%MinPage != 0 {
		return &LendError{HostMemory, 0, fmt.Sprintf("it begins at address %#x, which is no multiple of %d: pages are read and written in aligned pieces", at, MinPage)}
	}
	return nil
}

// usable says whether a batch of an engine may use the space as kind.
func (s *Space) usable(owner any, kind Kind, field string) error {
	switch {
	case s == nil || s.owner == nil:
		return &BatchError{field, "is missing"}
	case s.owner != owner:
		return &BatchError{field, "belongs to another engine"}
	case s.kind != kind:
		return &BatchError{field, fmt.Sprintf("is %s memory", s.kind)}
	case s.closed.Load():
		return fmt.Errorf("copy batch: %s: %w", field, ErrClosed)
	}
	return nil
}
