package cuda

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// Module is loaded GPU code.
type Module struct {
	object
}

// LoadModule loads PTX, which the driver compiles for the device, or a cubin
// or fat binary. If it does not compile, the error's Log is the compiler's log.
func (c *Context) LoadModule(image []byte) (*Module, error) {
	const call = "cuda.Context.LoadModule"
	if err := c.acquire(call); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	if len(image) == 0 {
		return nil, refused(call, "give PTX or a cubin", "an empty image")
	}
	m := &Module{object: object{ctx: c, kind: "module"}}
	if err := m.load(image); err != nil {
		return nil, about(err, "image of %d bytes for %s", len(image), c.device)
	}
	c.adopt(m)
	return m, nil
}

// Close unloads the module. Kernels of it that run must be done; its
// Functions are not valid after it. Closing again does nothing.
func (m *Module) Close() error {
	const call = "cuda.Module.Close"
	if m == nil {
		return missing(call, "module")
	}
	return m.destroy(m, SymModuleUnload, call)
}

// Unload is Close.
func (m *Module) Unload() error { return m.Close() }

func (m *Module) rank() int { return rankModule }

// acquire is that of object, for a module that may be nil.
func (m *Module) acquire(call string) error {
	if m == nil {
		return missing(call, "module")
	}
	return m.object.acquire(call)
}

// Function finds a kernel by its name in the image. ErrNotFound if it has none of
// that name: C++ changes names, unless they are extern "C".
func (m *Module) Function(name string) (*Function, error) {
	const call = "cuda.Module.Function"
	if err := m.acquire(call); err != nil {
		return nil, err
	}
	defer m.release()
	c, err := cName(call, name)
	if err != nil {
		return nil, err
	}
	h, err := m.function(c)
	if err != nil {
		return nil, named(err, "kernel", name)
	}
	return &Function{module: m, name: name, handle: h}, nil
}

// Global finds a variable of the module: its address and size in bytes.
// ErrNotFound if there is none of that name.
func (m *Module) Global(name string) (Ptr, uint64, error) {
	const call = "cuda.Module.Global"
	if err := m.acquire(call); err != nil {
		return 0, 0, err
	}
	defer m.release()
	c, err := cName(call, name)
	if err != nil {
		return 0, 0, err
	}
	p, n, err := m.global(c)
	return p, n, named(err, "global", name)
}

// cName is the name as C wants it.
func cName(call, name string) ([]byte, error) {
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return nil, refused(call, "give a name without zero bytes", "name %q", name)
	}
	return append([]byte(name), 0), nil
}

// named adds the name that was looked for.
func named(err error, kind, name string) error {
	if e, ok := err.(*Error); ok && e.Result == NotFound {
		e.Hint = fmt.Sprintf("the module has no %s of that name; C++ changes names, unless they are extern \"C\"", kind)
	}
	return about(err, "%s %s", kind, name)
}

// Function is a kernel. It is valid as long as its module is open.
type Function struct {
	module *Module
	name   string
	handle uintptr
	// sizes of its first parameters, in bytes: of as many as launches have asked for.
	sizes atomic.Pointer[[]uint64]
}

// acquire keeps the kernel's module loaded until k.module.release.
func (k *Function) acquire(call string) error {
	if k == nil || k.module == nil {
		return missing(call, "kernel")
	}
	return k.module.acquire(call)
}

// Name is the kernel's name in the image.
func (k *Function) Name() string { return k.name }

// String names the kernel in errors.
func (k *Function) String() string {
	if k == nil {
		return "no kernel"
	}
	return "kernel " + k.name
}

// Attribute reads a property of the kernel, as it was compiled for the device.
func (k *Function) Attribute(a FunctionAttribute) (int, error) {
	if err := k.acquire("cuda.Function.Attribute"); err != nil {
		return 0, err
	}
	defer k.module.release()
	n, err := k.attribute(a)
	return n, about(err, "attribute %d of %s", int(a), k)
}

// SetMaxDynamicShared allows launches with up to so many bytes of dynamic
// shared memory; without it the limit is 48 KiB. At most
// MaxSharedMemoryPerBlockOptin, less the kernel's static shared memory.
func (k *Function) SetMaxDynamicShared(bytes int) error {
	if err := k.acquire("cuda.Function.SetMaxDynamicShared"); err != nil {
		return err
	}
	defer k.module.release()
	err := k.module.ctx.call(SymFuncSetAttribute, k.handle, uintptr(FunctionMaxDynamicShared), uintptr(bytes))
	return about(err, "%d bytes of dynamic shared memory for %s", bytes, k)
}

// MaxActiveBlocks is how many blocks of blockThreads threads and dynShared
// bytes of dynamic shared memory run on one multiprocessor at once.
func (k *Function) MaxActiveBlocks(blockThreads, dynShared int) (int, error) {
	if err := k.acquire("cuda.Function.MaxActiveBlocks"); err != nil {
		return 0, err
	}
	defer k.module.release()
	n, err := k.activeBlocks(blockThreads, dynShared)
	return n, about(err, "blocks of %d threads and %d bytes of %s", blockThreads, dynShared, k)
}
