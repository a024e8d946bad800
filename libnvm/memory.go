package libnvm

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrMemoryHeld is returned by Memory.Free while a command that timed out may
// still move data to or from the memory. Reset the queue pair or the
// controller, then free it. When no reset succeeds, since the drive is gone or
// does not answer, close the controller and its transport, then free it.
var ErrMemoryHeld = errors.New("libnvm: memory is quarantined: a command that timed out may still use it; reset the controller first, or close its transport when that fails")

// Memory is a piece of memory that the controller can reach. Its methods may be
// called from any goroutine; what the bytes hold is the business of whoever
// owns the commands that use it.
type Memory struct {
	buf     []byte
	base    uint64   // IOVA of buf[0] when addrs is nil
	addrs   []uint64 // IOVA of each chunk otherwise
	shift   uint     // log2 of the chunk's bytes
	release func() error
	held    atomic.Int32 // commands that timed out on it and were not reset yet
	freed   atomic.Bool
	// detached and abandoned are each set before the other is looked at, so
	// that whichever comes second frees the memory.
	detached  atomic.Bool // the transport has ended all access to it
	abandoned atomic.Bool // nobody uses it any more, Detach is to free it
}

// NewMemory describes buf, contiguous at iova. It is for transports; release
// may be nil and is called once, by Free.
func NewMemory(buf []byte, iova uint64, release func() error) (*Memory, error) {
	if len(buf) == 0 || iova%PageSize != 0 {
		return nil, fmt.Errorf("libnvm: memory of %d bytes at IOVA %#x: want a page-aligned IOVA and at least one byte", len(buf), iova)
	}
	return &Memory{buf: buf, base: iova, release: release}, nil
}

// NewChunkedMemory describes buf as chunks of chunk bytes (a power of two, at
// least PageSize), the i-th of them at addrs[i].
func NewChunkedMemory(buf []byte, chunk int, addrs []uint64, release func() error) (*Memory, error) {
	if chunk < PageSize || chunk&(chunk-1) != 0 || len(buf) == 0 || (len(buf)+chunk-1)/chunk != len(addrs) {
		return nil, fmt.Errorf("libnvm: %d bytes in chunks of %d with %d addresses do not fit together", len(buf), chunk, len(addrs))
	}
	m := &Memory{buf: buf, addrs: addrs, release: release}
	for 1<<m.shift < chunk {
		m.shift++
	}
	for _, a := range addrs {
		if a%PageSize != 0 {
			return nil, fmt.Errorf("libnvm: chunk address %#x is not page-aligned", a)
		}
	}
	return m, nil
}

// Bytes is the memory itself.
func (m *Memory) Bytes() []byte { return m.buf }

// Len is its size in bytes.
func (m *Memory) Len() int { return len(m.buf) }

// IOVA is the address by which the controller knows byte off.
func (m *Memory) IOVA(off int) (uint64, error) {
	if off < 0 || off >= len(m.buf) {
		return 0, fmt.Errorf("libnvm: offset %d outside memory of %d bytes", off, len(m.buf))
	}
	return m.iova(off), nil
}

// iova is IOVA for an offset that is known to be inside.
func (m *Memory) iova(off int) uint64 {
	if m.addrs == nil {
		return m.base + uint64(off)
	}
	return m.addrs[off>>m.shift] + uint64(off&(1<<m.shift-1))
}

// Contiguous reports whether n bytes from off lie in one piece of IOVA space.
func (m *Memory) Contiguous(off, n int) bool {
	if off < 0 || n <= 0 || n > len(m.buf)-off {
		return false
	}
	if m.addrs == nil {
		return true
	}
	for p := (off>>m.shift + 1) << m.shift; p < off+n; p += 1 << m.shift {
		if m.iova(p) != m.iova(off)+uint64(p-off) {
			return false
		}
	}
	return true
}

// Free gives the memory back. While commands that use it are outstanding the
// caller must not free it; commands that timed out are known here, and Free
// then returns ErrMemoryHeld and leaves the memory as it is. That ends with a
// reset of the queue pair or the controller, or with Transport.Close. A second
// Free does nothing.
func (m *Memory) Free() error {
	if m.Held() > 0 {
		return ErrMemoryHeld
	}
	if m.freed.Swap(true) || m.release == nil {
		return nil
	}
	return m.release()
}

// Held is the number of timed-out commands that may still use the memory.
func (m *Memory) Held() int {
	if m.detached.Load() {
		return 0
	}
	return int(m.held.Load())
}

// Detach says that no controller can reach the memory any more, whatever
// commands it still has: Held is 0 from now on and Free works. It is for
// transports, which call it when they have closed the device. The bytes stay
// valid until Free, unless the transport says otherwise.
func (m *Memory) Detach() error {
	m.detached.Store(true)
	if m.abandoned.Load() {
		return m.Free()
	}
	return nil
}

// abandon gives up memory that a controller may still use: it is freed when
// the transport detaches it.
func (m *Memory) abandon() error {
	m.abandoned.Store(true)
	if m.detached.Load() {
		return m.Free()
	}
	return nil
}
