package soft

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm"
)

// Memory is a backend that keeps a namespace in ordinary memory. It is lost at
// Close. Operations finish at once.
type Memory struct {
	data   []byte
	mapped []byte // what the kernel gave, with data in it
}

// hugePage is what the kernel maps at once where it can. Random blocks of a large
// store would miss the TLB each time in pages of 4 KiB, and the first touch of each
// page takes three times as long for the same bytes.
const hugePage = 2 << 20

// NewMemory makes a memory backend of size bytes, all zero. Memory is used as
// it is written, or when it is told to hold zeroes, in huge pages where the kernel
// has them.
func NewMemory(size int64) (*Memory, error) {
	if size <= 0 {
		return nil, fmt.Errorf("soft: memory backend of %d bytes", size)
	}
	// Older kernels begin a mapping at any page, where no huge page fits.
	b, err := unix.Mmap(-1, 0, int(size)+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("soft: memory backend of %d bytes: %w", size, err)
	}
	data := b[-uintptr(unsafe.Pointer(unsafe.SliceData(b)))%hugePage:][:size:size]
	// A small store is not to take a huge page. A kernel without them refuses,
	// which does no harm.
	if whole := size / hugePage * hugePage; whole > 0 {
		_ = unix.Madvise(data[:whole], unix.MADV_HUGEPAGE)
	}
	return &Memory{data, b}, nil
}

// Size is the size in bytes.
func (m *Memory) Size() int64 { return int64(len(m.data)) }

// Open returns a channel; any number of them may be used at once.
func (m *Memory) Open() (Channel, error) { return memoryChannel{m}, nil }

// Describe says what the backend is.
func (m *Memory) Describe() string { return fmt.Sprintf("memory, %d bytes", len(m.data)) }

// Close frees the memory.
func (m *Memory) Close() error {
	b := m.mapped
	m.data, m.mapped = nil, nil
	if b == nil {
		return nil
	}
	return unix.Munmap(b)
}

// Bytes is the content, for tests that look at what was really written.
func (m *Memory) Bytes() []byte { return m.data }

type memoryChannel struct{ m *Memory }

func (c memoryChannel) Submit() {}

func (c memoryChannel) Reap(done []*Op) []*Op { return done }

func (c memoryChannel) Close() error { return nil }

// Start does the operation.
func (c memoryChannel) Start(op *Op) bool {
	op.Status = libnvm.StatusSuccess
	if op.Kind == OpFlush {
		return true
	}
	if op.Offset < 0 || op.Length < 0 || op.Offset > c.m.Size()-op.Length {
		op.Status = libnvm.StatusLBAOutOfRange
		return true
	}
	data := c.m.data[op.Offset : op.Offset+op.Length]
	switch op.Kind {
	case OpRead:
		for i := range op.Segments {
			s := &op.Segments[i]
			n := copy(unsafe.Slice(s.Base, s.Len), data)
			data = data[n:]
		}
	case OpWrite:
		for i := range op.Segments {
			s := &op.Segments[i]
			n := copy(data, unsafe.Slice(s.Base, s.Len))
			data = data[n:]
		}
	case OpWriteZeroes:
		c.m.zero(op.Offset, op.Length, true)
	default:
		c.m.zero(op.Offset, op.Length, false)
	}
	return true
}
