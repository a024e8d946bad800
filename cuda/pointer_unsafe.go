package cuda

import (
	"errors"
	"unsafe"
)

// MemoryType is where memory lies (CUmemorytype).
type MemoryType int

// The types of memory.
const (
	MemoryUnknown MemoryType = 0 // CUDA does not know the address: ordinary host memory, or none at all
	MemoryHost    MemoryType = 1 // pinned host memory
	MemoryDevice  MemoryType = 2
	MemoryArray   MemoryType = 3
	MemoryUnified MemoryType = 4
)

// String names the type.
func (t MemoryType) String() string {
	switch t {
	case MemoryHost:
		return "pinned host"
	case MemoryDevice:
		return "device"
	case MemoryArray:
		return "array"
	case MemoryUnified:
		return "unified"
	}
	return "unknown to CUDA"
}

// PointerInfo is what CUDA knows about an address. What it does not know
// about the address's kind of memory is zero.
type PointerInfo struct {
	Type MemoryType
	// Device is the ordinal of the device that the memory belongs to, or
	// that it was pinned for; -1 if CUDA does not say.
	Device int
	// DevicePtr and HostPtr are the address as the GPU and as the CPU use it.
	// DevicePtr is 0 for memory that kernels of this context cannot reach,
	// such as what another context has pinned without Portable.
	DevicePtr Ptr
	HostPtr   uintptr
	// Managed memory moves between host and device by itself.
	Managed bool
	// Start and Size are the allocation, or the registration, that the address
	// lies in. Size is 0 where the driver does not say.
	Start Ptr
	Size  uint64
	// BufferID is different for any two allocations of the process, also for
	// those that have the same address one after the other; 0 where the driver
	// does not say.
	BufferID uint64
}

// The attributes of a pointer (CUpointer_attribute).
const (
	pointerMemoryType    = 2
	pointerDevicePointer = 3
	pointerHostPointer   = 4
	pointerBufferID      = 7
	pointerIsManaged     = 8
	pointerDeviceOrdinal = 9
	pointerRangeStart    = 11
	pointerRangeSize     = 12
)

// PointerInfo says what CUDA knows about an address of host or device
// memory. An address that it does not know is no error: its Type is MemoryUnknown.
func (c *Context) PointerInfo(p Ptr) (PointerInfo, error) {
	if err := c.acquire("cuda.Context.PointerInfo"); err != nil {
		return PointerInfo{}, err
	}
	defer c.mu.RUnlock()
	info := PointerInfo{Device: -1}
	kind, known, err := c.pointerAttribute(pointerMemoryType, p)
	if err != nil || !known || kind == 0 {
		return info, about(err, "address %s", p)
	}
	info.Type = MemoryType(int32(kind))
	for _, a := range []struct {
		attribute uintptr
		set       func(uint64)
	}{
		{pointerDevicePointer, func(v uint64) { info.DevicePtr = Ptr(v) }},
		{pointerHostPointer, func(v uint64) { info.HostPtr = uintptr(v) }},
		{pointerBufferID, func(v uint64) { info.BufferID = v }},
		{pointerIsManaged, func(v uint64) { info.Managed = v != 0 }},
		{pointerDeviceOrdinal, func(v uint64) { info.Device = int(int32(v)) }},
		{pointerRangeStart, func(v uint64) { info.Start = Ptr(v) }},
		{pointerRangeSize, func(v uint64) { info.Size = v }},
	} {
		v, known, err := c.pointerAttribute(a.attribute, p)
		if err != nil {
			return info, about(err, "address %s", p)
		}
		if known {
			a.set(v)
		}
	}
	return info, nil
}

// pointerAttribute asks for one attribute. The driver answers InvalidValue
// for an address that it does not know, and NotSupported for an attribute
// that the memory does not have.
func (c *Context) pointerAttribute(attribute uintptr, p Ptr) (v uint64, known bool, err error) {
	err = c.call(SymPointerGetAttribute, uintptr(unsafe.Pointer(&v)), attribute, uintptr(p))
	if errors.Is(err, InvalidValue) || errors.Is(err, NotSupported) && !isMissing(err) {
		return 0, false, nil
	}
	return v, err == nil, err
}

func isMissing(err error) bool {
	var missing *MissingSymbolError
	return errors.As(err, &missing)
}
