package cuda

// HostFlags say how host memory is pinned. The zero value stands for
// Portable|Mapped.
type HostFlags uint32

// The flags of pinned memory.
const (
	// Portable memory counts as pinned in every context, not only in the
	// one that pins it.
	Portable HostFlags = 1 << iota
	// Mapped memory has an address that kernels can use (DevicePtr).
	Mapped
	// WriteCombined memory (AllocHost only) is fast to write and slow to
	// read for the CPU.
	WriteCombined
	// IOMemory (RegisterHost only) is a mapping of a device's registers or
	// memory, such as a drive's BAR.
	IOMemory
	// ReadOnly (RegisterHost only) memory is only read by the GPU: needed
	// for a mapping without write permission (ReadOnlyHostRegisterSupported).
	ReadOnly
)

// The driver's bits. Write combining and I/O memory share one, in two calls.
const (
	cuHostPortable      = 0x1
	cuHostMapped        = 0x2
	cuHostWriteCombined = 0x4
	cuHostIOMemory      = 0x4
	cuHostReadOnly      = 0x8
)

// hostFlagBits says which bit each of the two calls has for a flag; 0: none.
var hostFlagBits = []struct {
	flag            HostFlags
	alloc, register uintptr
}{
	{Portable, cuHostPortable, cuHostPortable},
	{Mapped, cuHostMapped, cuHostMapped},
	{WriteCombined, cuHostWriteCombined, 0},
	{IOMemory, 0, cuHostIOMemory},
	{ReadOnly, 0, cuHostReadOnly},
}

// bits translates flags for one of the two calls.
func (f HostFlags) bits(call string, s Symbol) (uintptr, error) {
	var all uintptr
	rest := f
	for _, b := range hostFlagBits {
		bit := b.alloc
		if s == SymMemHostRegister {
			bit = b.register
		}
		if f&b.flag != 0 && bit != 0 {
			all |= bit
			rest &^= b.flag
		}
	}
	if rest != 0 {
		return 0, refused(call, "see HostFlags for which call takes which", "flags %#x", uint32(rest))
	}
	return all, nil
}

func (f HostFlags) orDefault() HostFlags {
	if f == 0 {
		return Portable | Mapped
	}
	return f
}

// HostMemory is pinned host memory that the driver allocated.
type HostMemory struct {
	object
	bytes  []byte
	device Ptr
}

// AllocHost allocates n bytes of pinned host memory, whose contents are
// undefined. It takes about 0.7 s/GiB: for large amounts, register memory that
// several threads have touched first.
func (c *Context) AllocHost(n uint64, flags HostFlags) (*HostMemory, error) {
	const call = "cuda.Context.AllocHost"
	if err := c.acquire(call); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	flags = flags.orDefault()
	bits, err := flags.bits(call, SymMemHostAlloc)
	if err != nil {
		return nil, err
	}
	if n == 0 || n > maxSlice {
		return nil, refused(call, "allocate at least one byte, and what an address can reach", "%d bytes", n)
	}
	m := &HostMemory{object: object{ctx: c, kind: "host memory"}}
	if err := m.alloc(n, bits); err != nil {
		return nil, about(err, "%d bytes of pinned host memory", n)
	}
	c.adopt(m)
	if flags&Mapped != 0 {
		if m.device, err = c.devicePointer(m.handle); err != nil {
			_ = m.Free() // the first error says more
			return nil, about(err, "%d bytes of pinned host memory", n)
		}
	}
	return m, nil
}

// maxSlice bounds a size, so that it fits an int.
const maxSlice = 1 << 47

// Bytes is the memory. It must not be touched after Free: the addresses are
// gone then, and the program faults.
func (m *HostMemory) Bytes() []byte { return m.bytes }

// Use calls f with the memory, which is not freed before f returns: Free, and
// the context's Close, wait for that. It fails, without a call, once the memory
// is freed. f must not free it.
func (m *HostMemory) Use(f func(b []byte)) error {
	if err := m.acquire("HostMemory.Use"); err != nil {
		return err
	}
	defer m.release()
	f(m.bytes)
	return nil
}

// DevicePtr is the address that kernels use for it; 0 without Mapped.
func (m *HostMemory) DevicePtr() Ptr { return m.device }

// Free gives the memory back, and waits for work that uses it. Freeing again
// does nothing.
func (m *HostMemory) Free() error {
	const call = "cuda.HostMemory.Free"
	if m == nil {
		return missing(call, "host memory")
	}
	return m.destroy(m, SymMemFreeHost, call)
}

// Close is Free.
func (m *HostMemory) Close() error { return m.Free() }

func (m *HostMemory) rank() int { return rankMemory }

// Registration is the pinning of memory that the program owns.
type Registration struct {
	object
	bytes  []byte
	device Ptr
}

// RegisterHost pins memory that the program has, such as a mapping. The
// memory must stay mapped until Unregister; the Registration keeps a Go slice
// from being collected. Whole pages are pinned, also where b begins or ends
// within one, so two registrations must not share a page.
func (c *Context) RegisterHost(b []byte, flags HostFlags) (*Registration, error) {
	const call = "cuda.Context.RegisterHost"
	if err := c.acquire(call); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	flags = flags.orDefault()
	bits, err := flags.bits(call, SymMemHostRegister)
	if err != nil {
		return nil, err
	}
	if len(b) == 0 {
		return nil, refused(call, "register at least one byte", "0 bytes")
	}
	r := &Registration{object: object{ctx: c, kind: "registration of host memory"}, bytes: b}
	if err := r.register(bits); err != nil {
		return nil, about(err, "%d bytes of host memory at %#x", len(b), r.handle)
	}
	c.adopt(r)
	if flags&Mapped != 0 {
		if r.device, err = c.devicePointer(r.handle); err != nil {
			_ = r.Unregister() // the first error says more
			return nil, about(err, "%d bytes of host memory at %#x", len(b), r.handle)
		}
	}
	return r, nil
}

// Bytes is the memory that was registered.
func (r *Registration) Bytes() []byte { return r.bytes }

// DevicePtr is the address that kernels use for it; 0 without Mapped.
func (r *Registration) DevicePtr() Ptr { return r.device }

// Unregister ends the pinning. Work that uses the memory must be done.
// Unregistering again does nothing.
func (r *Registration) Unregister() error {
	const call = "cuda.Registration.Unregister"
	if r == nil {
		return missing(call, "registration")
	}
	return r.destroy(r, SymMemHostUnregister, call)
}

// Close is Unregister.
func (r *Registration) Close() error { return r.Unregister() }

func (r *Registration) rank() int { return rankMemory }
