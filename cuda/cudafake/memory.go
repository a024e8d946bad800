package cudafake

import (
	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/cuda"
)

func (c *call) memInfo() cuda.Result {
	d := c.ctx.dev
	c.put64(0, d.Memory-min(d.used, d.Memory))
	c.put64(1, d.Memory)
	return cuda.Success
}

func (c *call) memAlloc() cuda.Result {
	if c.u64(1) == 0 {
		return cuda.InvalidValue
	}
	b, r := c.allocate(c.ctx, deviceBlock, c.u64(1))
	if r == cuda.Success {
		c.put64(0, uint64(b.base))
	}
	return r
}

// exact is the live block of a kind that begins at argument i.
func (c *call) exact(i int, kind blockKind) *block {
	if b := c.find(c.ptr(i)); b != nil && b.base == c.ptr(i) && b.kind == kind {
		return b
	}
	return nil
}

func (c *call) memFree() cuda.Result { return c.release(deviceBlock) }

func (c *call) hostFree() cuda.Result { return c.release(pinnedBlock) }

// release frees the block that argument 0 names. Like the driver, it first
// waits for all work of the context.
func (c *call) release(kind blockKind) cuda.Result {
	if c.ptr(0) == 0 {
		return cuda.Success
	}
	b := c.exact(0, kind)
	if b == nil {
		c.note("%s: %#x is not the start of live %s", c.symbol, c.ptr(0), kind)
		return cuda.InvalidValue
	}
	return c.waitAndFree(b)
}

func (c *call) waitAndFree(b *block) cuda.Result {
	c.drain(c.ctx)
	if b.ctx != c.ctx {
		c.drain(b.ctx)
	}
	switch r := c.settle(); {
	case r != cuda.Success:
		return r
	case b.gone: // another call has freed it meanwhile
		c.note("%s: %s is freed twice at once", c.symbol, b)
		return cuda.InvalidValue
	}
	c.free(b)
	return cuda.Success
}

// Flags of pinned memory.
const (
	hostPortable = 1
	hostMapped   = 2
	hostCombined = 4 // cuMemHostAlloc: write-combined
	hostIO       = 4 // cuMemHostRegister: memory of a device
	hostReadOnly = 8
)

func (c *call) hostAlloc() cuda.Result {
	f := c.u32(2)
	if f&^(hostPortable|hostMapped|hostCombined) != 0 {
		return cuda.InvalidValue
	}
	if c.u64(1) == 0 {
		c.put64(0, 0)
		return cuda.Success
	}
	b, r := c.allocate(c.ctx, pinnedBlock, c.u64(1))
	if r == cuda.Success {
		b.flags = f
		c.put64(0, uint64(b.base))
	}
	return r
}

func (c *call) hostRegister() cuda.Result {
	addr, n, f := c.ptr(0), c.u64(1), c.u32(2)
	switch {
	case n == 0 || addr+uintptr(n) < addr || f&^(hostPortable|hostMapped|hostIO|hostReadOnly) != 0:
		return cuda.InvalidValue
	case c.owned(addr) || c.owned(addr+uintptr(n)-1):
		return cuda.InvalidValue // the GPU's own memory
	case f&hostIO != 0:
		return cuda.InvalidValue // the fake's host has no device memory to map
	case f&hostReadOnly != 0 && c.ctx.dev.attribute(cuda.ReadOnlyHostRegisterSupported) == 0:
		return cuda.NotSupported
	case c.ctx.dev.attribute(cuda.HostRegisterSupported) == 0:
		return cuda.NotSupported
	}
	next := c.registered.after(addr)
	if c.registered.find(addr) != nil || next < len(c.registered.blocks) && c.registered.blocks[next].base < addr+uintptr(n) {
		return cuda.HostMemoryAlreadyRegistered
	}
	if n > c.config.pinnedLimit || c.pinned+charge(n) > c.config.pinnedLimit {
		return cuda.OutOfMemory
	}
	if !c.exists(addr, n, "memory to register") {
		return cuda.InvalidValue
	}
	c.pinned += charge(n)
	c.lastID++
	c.registered.insert(&block{kind: registeredBlock, base: addr, size: n, bytes: view(addr, n), ctx: c.ctx, flags: f, id: c.lastID, file: -1})
	return cuda.Success
}

func (c *call) hostUnregister() cuda.Result {
	if b := c.exact(0, registeredBlock); b != nil {
		return c.waitAndFree(b)
	}
	if c.ptr(0) == 0 {
		return cuda.InvalidValue
	}
	c.note("%s: %#x is not the start of registered memory", c.symbol, c.ptr(0))
	if c.find(c.ptr(0)) != nil {
		return cuda.InvalidValue
	}
	return cuda.HostMemoryNotRegistered
}

// hostDevicePointer gives the address itself: all is one address space.
func (c *call) hostDevicePointer() cuda.Result {
	b := c.find(c.ptr(1))
	if b == nil || b.kind.device() || c.u32(2) != 0 || !b.hostIn(c.ctx) {
		return cuda.InvalidValue
	}
	c.put64(0, uint64(c.ptr(1)))
	return cuda.Success
}

// rangeHandle exports device memory as a file. A dma-buf may begin inside an
// allocation; a file of this kind cannot.
func (c *call) rangeHandle() cuda.Result {
	const dmaBufFD = 1
	addr, n := c.ptr(1), c.u64(2)
	b := c.find(addr)
	page := uint64(c.deviceArena.page)
	switch {
	case !c.config.dmaBuf:
		return cuda.NotSupported
	case c.u32(3) != dmaBufFD || c.u64(4) != 0 || b == nil || b.kind != deviceBlock:
		return cuda.InvalidValue
	case n == 0 || n%page != 0 || uint64(addr)%page != 0 || n > uint64(b.end()-addr):
		return cuda.InvalidValue
	case addr != b.first:
		c.note("%s: %#x lies inside an allocation, of which the fake can export only the start", c.symbol, addr)
		return cuda.NotSupported
	}
	fd, err := unix.FcntlInt(uintptr(b.file), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		c.note("%s: %v", c.symbol, err)
		return cuda.OutOfMemory
	}
	c.put32(0, uint32(fd))
	return cuda.Success
}

// Attributes of a pointer (CUpointer_attribute).
const (
	pointerContext    = 1
	pointerMemoryType = 2
	pointerDevice     = 3
	pointerHost       = 4
	pointerBufferID   = 7
	pointerManaged    = 8
	pointerOrdinal    = 9
	pointerRangeStart = 11
	pointerRangeSize  = 12
	pointerMapped     = 13
)

func (c *call) pointerAttribute() cuda.Result {
	b := c.find(c.ptr(2))
	if b == nil {
		return cuda.InvalidValue
	}
	memoryType := uint32(1)
	if b.kind.device() {
		memoryType = 2
	}
	switch c.u32(1) {
	case pointerContext:
		c.put64(0, uint64(b.ctx.handle))
	case pointerMemoryType:
		c.put32(0, memoryType)
	case pointerHost:
		if b.kind.device() {
			c.put64(0, 0)
			return cuda.InvalidValue
		}
		c.put64(0, c.u64(2))
	case pointerDevice:
		return c.pointerDevice(b)
	case pointerBufferID:
		c.put64(0, b.id)
	case pointerManaged:
		view(c.ptr(0), 1)[0] = 0 // a C bool
	case pointerOrdinal:
		c.put32(0, uint32(b.ctx.dev.ordinal))
	case pointerRangeStart, pointerRangeSize:
		return c.pointerRange(b)
	case pointerMapped:
		view(c.ptr(0), 1)[0] = 1
	default:
		return cuda.InvalidValue
	}
	return cuda.Success
}

// pointerDevice gives the address as kernels of the current context use it; it
// has none where they cannot reach the memory.
func (c *call) pointerDevice(b *block) cuda.Result {
	x, ok := object[*context](c.GPU, c.current[unix.Gettid()])
	switch {
	case !ok:
		return cuda.InvalidContext
	case !x.reaches(b):
		return cuda.InvalidValue
	}
	c.put64(0, c.u64(2))
	return cuda.Success
}

func (c *call) pointerRange(b *block) cuda.Result {
	switch {
	case c.config.noRange:
		return cuda.NotSupported
	case c.u32(1) == pointerRangeStart:
		c.put64(0, uint64(b.base))
	default:
		c.put64(0, b.size)
	}
	return cuda.Success
}
