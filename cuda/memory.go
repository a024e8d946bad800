package cuda

import (
	"fmt"
	"os"
)

// Ptr is an address that the GPU uses: of device memory, or of host memory
// that is mapped for it.
type Ptr uint64

// Add is the address n bytes further on.
func (p Ptr) Add(n uint64) Ptr { return p + Ptr(n) }

// String is the address in hexadecimal.
func (p Ptr) String() string { return fmt.Sprintf("%#x", uint64(p)) }

// The order in which Context.Close closes what is open: freeing memory waits
// for the work that uses it, so that nothing runs when the rest goes.
const (
	rankMemory = iota
	rankEvent
	rankStream
	rankModule
)

// DeviceMemory is an allocation of device memory.
type DeviceMemory struct {
	object
	size uint64
}

// Alloc allocates n bytes of device memory, aligned to at least 256 bytes.
// Their contents are undefined. ErrOutOfMemory if there is no room.
func (c *Context) Alloc(n uint64) (*DeviceMemory, error) {
	const call = "cuda.Context.Alloc"
	if err := c.acquire(call); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	if n == 0 {
		return nil, refused(call, "allocate at least one byte", "0 bytes")
	}
	p, err := c.alloc(n)
	if err != nil {
		return nil, about(err, "%d bytes on %s", n, c.device)
	}
	m := &DeviceMemory{object: object{ctx: c, kind: "device memory", handle: p}, size: n}
	c.adopt(m)
	return m, nil
}

// Ptr is the address of the memory's first byte. It is not valid after Free.
func (m *DeviceMemory) Ptr() Ptr { return Ptr(m.handle) }

// Size is the number of bytes that were asked for.
func (m *DeviceMemory) Size() uint64 { return m.size }

// Context is the context that the memory was allocated in.
func (m *DeviceMemory) Context() *Context {
	if m == nil {
		return nil
	}
	return m.ctx
}

// acquire is that of object, for memory that may be nil.
func (m *DeviceMemory) acquire(call string) error {
	if m == nil {
		return missing(call, "device memory")
	}
	return m.object.acquire(call)
}

// Freed says whether the memory was given back, by Free or with its context.
func (m *DeviceMemory) Freed() bool {
	if m == nil {
		return true
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.closed
}

// Free gives the memory back, and waits for work on the device to do so, as
// the driver does. Freeing again does nothing. On a lost context the error is
// ErrSticky, and the memory counts as freed.
func (m *DeviceMemory) Free() error {
	const call = "cuda.DeviceMemory.Free"
	if m == nil {
		return missing(call, "device memory")
	}
	return m.destroy(m, SymMemFree, call)
}

// Close is Free.
func (m *DeviceMemory) Close() error { return m.Free() }

func (m *DeviceMemory) rank() int { return rankMemory }

// DMABuf exports the memory as a dma-buf, which other drivers of the kernel
// can import to reach it. The caller closes the file descriptor; the memory
// must not be freed before. Address and size must be multiples of the host's page.
// ErrNotSupported where the device (DMABufSupported) or the driver cannot.
func (m *DeviceMemory) DMABuf() (fd int, err error) {
	const call = "cuda.DeviceMemory.DMABuf"
	if err := m.acquire(call); err != nil {
		return -1, err
	}
	defer m.release()
	if page := uint64(os.Getpagesize()); uint64(m.handle)%page != 0 || m.size%page != 0 {
		return -1, refused(call, fmt.Sprintf("allocate a multiple of %d bytes", page),
			"%d bytes at %s", m.size, m.Ptr())
	}
	fd, err = m.export()
	return fd, about(err, "%d bytes at %s on %s", m.size, m.Ptr(), m.ctx.device)
}
