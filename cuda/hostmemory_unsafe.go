package cuda

import "unsafe"

func (m *HostMemory) alloc(n uint64, flags uintptr) error {
	var p *byte // the driver's memory, which the collector ignores
	if err := m.ctx.call(SymMemHostAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n), flags); err != nil {
		return err
	}
	m.handle = uintptr(unsafe.Pointer(p))
	m.bytes = unsafe.Slice(p, n)
	return nil
}

func (r *Registration) register(flags uintptr) error {
	r.handle = uintptr(unsafe.Pointer(unsafe.SliceData(r.bytes)))
	return r.ctx.call(SymMemHostRegister, uintptr(unsafe.Pointer(unsafe.SliceData(r.bytes))), uintptr(len(r.bytes)), flags)
}

// devicePointer asks for the GPU's address of pinned host memory.
func (c *Context) devicePointer(host uintptr) (Ptr, error) {
	var p uint64
	err := c.call(SymMemHostGetDevicePointer, uintptr(unsafe.Pointer(&p)), host, 0)
	return Ptr(p), err
}
