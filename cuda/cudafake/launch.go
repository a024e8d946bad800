package cudafake

import (
	"math"

	"github.com/tritier/tritier/cuda"
)

// geometry is the shape of a launch.
type geometry struct {
	grid, block [3]uint32
	shared      uint32
}

func (c *call) geometry() geometry {
	var q geometry
	for i := range 3 {
		q.grid[i], q.block[i] = c.u32(1+i), c.u32(4+i)
	}
	q.shared = c.u32(7)
	return q
}

func (q geometry) threads() uint64 {
	return uint64(q.block[0]) * uint64(q.block[1]) * uint64(q.block[2])
}

func (q geometry) blocks() float64 {
	return float64(q.grid[0]) * float64(q.grid[1]) * float64(q.grid[2])
}

// fits says whether the device and the kernel can have the shape.
func (q geometry) fits(f *function) bool {
	for i, limit := range [...]uint32{math.MaxInt32, math.MaxUint16, math.MaxUint16} {
		if q.grid[i] == 0 || q.grid[i] > limit {
			return false
		}
	}
	for i, limit := range [...]uint32{1024, 1024, 64} {
		if q.block[i] == 0 || q.block[i] > limit {
			return false
		}
	}
	return q.threads() <= uint64(f.threadLimit()) && uint64(q.shared) <= f.maxDynamic
}

func (c *call) launch() cuda.Result {
	return c.queueKernel(c.ptr(9), c.ptr(10), func(*function, geometry) cuda.Result { return cuda.Success })
}

// launchCooperative answers a launch whose blocks must all fit at once; it
// has no other form of the parameters than one pointer each.
func (c *call) launchCooperative() cuda.Result {
	return c.queueKernel(c.ptr(9), 0, func(f *function, q geometry) cuda.Result {
		d := f.module.ctx.dev
		room := f.resident(q.threads(), uint64(q.shared)) * d.attribute(cuda.MultiprocessorCount)
		if q.blocks() > float64(room) {
			return cooperativeLaunchTooBig
		}
		return cuda.Success
	})
}

func (c *call) queueKernel(params, extra uintptr, check func(*function, geometry) cuda.Result) cuda.Result {
	f, r := c.function(0)
	if r != cuda.Success {
		return r
	}
	s, r := c.stream(8)
	switch {
	case r != cuda.Success:
		return r
	case s.ctx != f.module.ctx:
		return cuda.InvalidHandle
	}
	q := c.geometry()
	if !q.fits(f) {
		return cuda.InvalidValue
	}
	if r := check(f, q); r != cuda.Success {
		return r
	}
	block, r := c.params(f, params, extra)
	if r != cuda.Success {
		return r
	}
	run := c.kernels[f.name]
	if run == nil {
		c.note("%s: kernel %s has no Go function: RegisterKernel gives it one", c.symbol, f.name)
		return cuda.NotSupported
	}
	s.enqueue("kernel "+f.name, &kernelRun{
		run: run,
		launch: &Launch{
			GPU: c.GPU, Name: f.name, Device: s.ctx.dev.ordinal,
			Grid: q.grid, Block: q.block, Shared: q.shared, Params: block, ctx: s.ctx,
		},
	})
	return cuda.Success
}

// params gathers the kernel's parameter block, by either form of the call.
func (c *call) params(f *function, params, extra uintptr) ([]byte, cuda.Result) {
	want := f.paramBytes()
	switch {
	case params != 0 && extra != 0:
		return nil, cuda.InvalidValue
	case params >= lowest:
		block := make([]byte, want)
		for i, p := range f.params {
			at := uintptr(get64(params + uintptr(8*i)))
			if at < lowest || !c.exists(at, p.size, "a parameter of kernel "+f.name) {
				return nil, cuda.InvalidValue
			}
			copy(block[p.offset:], view(at, p.size))
		}
		return block, cuda.Success
	case extra >= lowest:
		return c.paramBuffer(f, extra)
	case want > 0:
		return nil, cuda.InvalidValue
	}
	return nil, cuda.Success
}

// paramBuffer reads the list {1, buffer, 2, &size, 0}. The driver refuses a
// buffer that is too large, and reads garbage beyond one that is too small;
// the fake refuses both.
func (c *call) paramBuffer(f *function, extra uintptr) ([]byte, cuda.Result) {
	const end, bufferPointer, bufferSize = 0, 1, 2
	var buffer, size uintptr
	for i := uintptr(0); ; i += 16 {
		key := get64(extra + i)
		if key == end {
			break
		}
		value := uintptr(get64(extra + i + 8))
		switch key {
		case bufferPointer:
			buffer = value
		case bufferSize:
			size = value
		default:
			return nil, cuda.InvalidValue
		}
	}
	if size < lowest {
		return nil, cuda.InvalidValue
	}
	n, want := get64(size), f.paramBytes()
	switch {
	case n > want:
		return nil, cuda.LaunchOutOfResources
	case n < want || n > 0 && buffer < lowest:
		c.note("%s: kernel %s takes %d bytes of parameters, not %d", c.symbol, f.name, want, n)
		return nil, cuda.InvalidValue
	case !c.exists(buffer, n, "the parameters of kernel "+f.name):
		return nil, cuda.InvalidValue
	}
	return append([]byte(nil), view(buffer, n)...), cuda.Success
}

// resident is how many blocks of that many threads and bytes of dynamic
// shared memory a multiprocessor holds at once.
func (f *function) resident(threads, dynamic uint64) uint64 {
	d := f.module.ctx.dev
	if threads == 0 || threads > uint64(f.threadLimit()) || dynamic > d.attribute(cuda.MaxSharedMemoryPerBlockOptin) {
		return 0
	}
	const sharedPerMultiprocessor, registersPerMultiprocessor, blocksPerMultiprocessor = 81, 82, 106
	threads = (threads + 31) &^ 31
	return min(
		d.attribute(cuda.MaxThreadsPerMultiprocessor)/threads,
		d.attribute(registersPerMultiprocessor)/(registers*threads),
		d.attribute(sharedPerMultiprocessor)/(f.shared+dynamic+reservedShared),
		d.attribute(blocksPerMultiprocessor))
}

func (c *call) occupancy() cuda.Result {
	f, r := c.function(1)
	switch {
	case r != cuda.Success:
		return r
	case c.i32(2) <= 0:
		return cuda.InvalidValue
	}
	c.put32(0, uint32(f.resident(uint64(c.i32(2)), c.u64(3))))
	return cuda.Success
}
