package cuda

import "unsafe"

// rangeHandleDMABuf is CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD.
const rangeHandleDMABuf = 1

func (c *Context) alloc(n uint64) (p uintptr, err error) {
	err = c.call(SymMemAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n))
	return p, err
}

// MemInfo is the device memory that is free, and all of it, in bytes. Other
// programs on the device change it at any time.
func (c *Context) MemInfo() (free, total uint64, err error) {
	if err := c.acquire("cuda.Context.MemInfo"); err != nil {
		return 0, 0, err
	}
	defer c.mu.RUnlock()
	err = c.call(SymMemGetInfo, uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total)))
	return free, total, about(err, "%s", c.device)
}

func (m *DeviceMemory) export() (int, error) {
	fd := int32(-1)
	err := m.ctx.call(SymMemGetHandleForAddressRange, uintptr(unsafe.Pointer(&fd)),
		m.handle, uintptr(m.size), rangeHandleDMABuf, 0)
	return int(fd), err
}
