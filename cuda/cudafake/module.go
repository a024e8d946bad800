package cudafake

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tritier/tritier/cuda"
)

const (
	imageLimit = 64 << 20 // bytes of PTX text
	nameLimit  = 4096     // bytes of a kernel's or a global's name
	// registers is what every kernel is said to use.
	registers = 32
	// reservedShared is the shared memory that each block costs beyond its own.
	reservedShared = 1024
)

// module is a loaded PTX text. Protected by GPU.mu.
type module struct {
	ctx       *context
	handle    uintptr
	program   *program
	globals   map[string]*block
	functions map[string]*function
}

func (m *module) context() *context { return m.ctx }

func (m *module) String() string { return fmt.Sprintf("module %#x", m.handle) }

// function is a kernel of a module.
type function struct {
	*ptxKernel
	module     *module
	handle     uintptr
	maxDynamic uint64 // bytes of dynamic shared memory
	carveout   int
}

// Options of loading (CUjit_option) that the fake follows.
const (
	jitErrorLog     = 5
	jitErrorLogSize = 6
)

// jitLog is where the caller wants the errors of a load.
type jitLog struct {
	buffer uintptr
	size   uintptr // of the buffer
	slot   uintptr // where the size was given, and what was used goes; 0 without
}

func (c *call) jitLog() (jitLog, bool) {
	var l jitLog
	n := c.u32(2)
	if n == 0 {
		return l, true
	}
	if n > 64 || c.ptr(3) < lowest || c.ptr(4) < lowest {
		return l, false
	}
	for i := range uintptr(n) {
		slot := c.ptr(4) + 8*i
		switch value := uintptr(get64(slot)); get32(c.ptr(3) + 4*i) {
		case jitErrorLog:
			l.buffer = value
		case jitErrorLogSize:
			l.size, l.slot = uintptr(uint32(value)), slot
		}
	}
	return l, true
}

// writeLog puts text into the log, cut to its room, with a NUL.
func (c *call) writeLog(l jitLog, text string) {
	room := min(uint64(l.size), uint64(len(text))+1)
	if l.buffer < lowest || room == 0 || !c.exists(l.buffer, room, "the compiler's log") {
		return
	}
	dst := view(l.buffer, room)
	n := copy(dst[:room-1], text)
	dst[n] = 0
	if l.slot != 0 {
		put64(l.slot, uint64(n+1))
	}
}

func (c *call) moduleLoad() cuda.Result {
	log, ok := c.jitLog()
	if !ok {
		return cuda.InvalidValue
	}
	prog, r, why := c.readImage()
	if r != cuda.Success {
		c.writeLog(log, why)
		return r
	}
	// The driver waits for what runs before it makes room for the module.
	c.drain(c.ctx)
	if r := c.settle(); r != cuda.Success {
		return r
	}
	m := &module{ctx: c.ctx, program: prog, globals: make(map[string]*block), functions: make(map[string]*function)}
	for _, v := range prog.globals {
		b, r := c.allocate(c.ctx, globalBlock, v.size)
		if r != cuda.Success {
			c.unload(m)
			return r
		}
		clear(b.bytes)
		copy(b.bytes, v.init)
		m.globals[v.name] = b
	}
	m.handle = c.handle(m)
	c.put64(0, uint64(m.handle))
	return cuda.Success
}

// readImage reads the PTX text; why is the log where it is refused.
func (c *call) readImage() (prog *program, r cuda.Result, why string) {
	src, ok := text(c.ptr(1), imageLimit)
	switch {
	case !ok || !strings.Contains(src, ".version"):
		return nil, cuda.InvalidImage, "error: the image is no PTX text"
	case strings.HasPrefix(src, "\x7fELF"):
		return nil, cuda.NoBinaryForGPU, "error: the fake runs no cubin, only PTX with Go functions behind it"
	}
	prog, err := parsePTX(src)
	newest := c.config.version/1000 - 4 // CUDA 12 brought PTX 8, CUDA 13 PTX 9
	switch {
	case err != nil:
		return nil, cuda.InvalidPTX, err.Error()
	case prog.versionMajor > newest:
		return nil, cuda.UnsupportedPTXVersion, fmt.Sprintf("ptx input; error: .version %d.%d is newer than %d.x", prog.versionMajor, prog.versionMinor, newest)
	case prog.target > c.ctx.dev.smVersion():
		return nil, cuda.InvalidPTX, fmt.Sprintf("ptx input; error: .target sm_%d is above the device's sm_%d", prog.target, c.ctx.dev.smVersion())
	}
	return prog, cuda.Success, ""
}

// module is the one that argument i names.
func (c *call) module(i int) (*module, cuda.Result) {
	m, ok := object[*module](c.GPU, c.ptr(i))
	if !ok {
		c.note("%s: %#x is no module", c.symbol, c.ptr(i))
		return nil, cuda.InvalidHandle
	}
	return m, m.ctx.state()
}

// moduleUnload waits for all work of the context, like the driver.
func (c *call) moduleUnload() cuda.Result {
	m, r := c.module(0)
	if r != cuda.Success {
		return r
	}
	delete(c.objects, m.handle)
	c.drain(m.ctx)
	if r := c.settle(); r != cuda.Success {
		return r
	}
	c.unload(m)
	return cuda.Success
}

func (g *GPU) unload(m *module) {
	for _, f := range m.functions {
		delete(g.objects, f.handle)
	}
	for _, b := range m.globals {
		g.free(b)
	}
}

func (c *call) moduleFunction() cuda.Result {
	m, r := c.module(1)
	if r != cuda.Success {
		return r
	}
	name, ok := text(c.ptr(2), nameLimit)
	k := m.program.kernels[name]
	if !ok || k == nil {
		return cuda.NotFound
	}
	f := m.functions[name]
	if f == nil {
		limit := m.ctx.dev.attribute(cuda.MaxSharedMemoryPerBlock)
		f = &function{ptxKernel: k, module: m, maxDynamic: limit - min(k.shared, limit), carveout: -1}
		f.handle = c.handle(f)
		m.functions[name] = f
	}
	c.put64(0, uint64(f.handle))
	return cuda.Success
}

func (c *call) moduleGlobal() cuda.Result {
	m, r := c.module(2)
	if r != cuda.Success {
		return r
	}
	name, ok := text(c.ptr(3), nameLimit)
	b := m.globals[name]
	if !ok || b == nil {
		return cuda.NotFound
	}
	for _, v := range m.program.globals {
		if v.name == name && v.unknown {
			c.note("%s: the fake cannot compute the initial value of %s", c.symbol, name)
			return cuda.NotSupported
		}
	}
	for i, v := range []uint64{uint64(b.base), b.size} {
		if c.ptr(i) >= lowest {
			c.put64(i, v)
		}
	}
	return cuda.Success
}

// function is the one that argument i names.
func (c *call) function(i int) (*function, cuda.Result) {
	f, ok := object[*function](c.GPU, c.ptr(i))
	if !ok {
		c.note("%s: %#x is no function", c.symbol, c.ptr(i))
		return nil, cuda.InvalidHandle
	}
	return f, f.module.ctx.state()
}

var errArgument = errors.New("no such attribute")

// attribute is one of the function's properties (CUfunction_attribute).
func (f *function) attribute(a int) (int, error) {
	switch a {
	case 0:
		return f.threadLimit(), nil
	case 1:
		return int(f.shared), nil
	case 4:
		return registers, nil
	case 5:
		return f.module.program.target, nil
	case 6:
		return f.module.ctx.dev.smVersion(), nil
	case 8:
		return int(f.maxDynamic), nil
	case 9:
		return f.carveout, nil
	case 2, 3, 7, 10, 11, 12, 13, 14, 15: // constants, local memory, cache mode, clusters
		return 0, nil
	}
	return 0, errArgument
}

// threadLimit is the most threads a block of the kernel can have.
func (f *function) threadLimit() int {
	n := int(f.module.ctx.dev.attribute(cuda.MaxThreadsPerBlock))
	if f.maxThreads > 0 {
		n = min(n, f.maxThreads)
	}
	return n
}

func (c *call) functionAttribute() cuda.Result {
	f, r := c.function(2)
	if r != cuda.Success {
		return r
	}
	v, err := f.attribute(c.i32(1))
	if err != nil {
		return cuda.InvalidValue
	}
	c.put32(0, uint32(v))
	return cuda.Success
}

// functionParam tells where a parameter is and how long.
func (c *call) functionParam() cuda.Result {
	f, r := c.function(0)
	if r != cuda.Success {
		return r
	}
	i := c.u64(1)
	if i >= uint64(len(f.params)) {
		return cuda.InvalidValue
	}
	c.put64(2, f.params[i].offset)
	if c.ptr(3) != 0 {
		c.put64(3, f.params[i].size)
	}
	return cuda.Success
}

func (c *call) functionSet() cuda.Result {
	f, r := c.function(0)
	if r != cuda.Success {
		return r
	}
	v := c.i32(2)
	switch c.i32(1) {
	case 8:
		if v < 0 || uint64(v)+f.shared > f.module.ctx.dev.attribute(cuda.MaxSharedMemoryPerBlockOptin) {
			return cuda.InvalidValue
		}
		f.maxDynamic = uint64(v)
	case 9:
		if v < -1 || v > 100 {
			return cuda.InvalidValue
		}
		f.carveout = v
	default:
		return cuda.InvalidValue
	}
	return cuda.Success
}
