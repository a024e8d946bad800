package cudafake

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime/debug"

	"github.com/tritier/tritier/cuda"
)

// KernelFunc does what a kernel does, for all threads of the grid; it runs on
// a goroutine of its own, when its turn in the stream has come. An error loses
// the context: with the cuda.Result in its chain, as the *Fault of Launch's
// methods has one, otherwise with LaunchFailed; so does a panic. The error's
// text is in GPU.Violations.
//
// A kernel that waits for something must end when Launch.Done is closed.
type KernelFunc func(l *Launch) error

// RegisterKernel gives the kernels of that name, in whatever module, their
// function; nil takes it back. Launches that are queued keep theirs.
func (g *GPU) RegisterKernel(name string, fn KernelFunc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if fn == nil {
		delete(g.kernels, name)
		return
	}
	g.kernels[name] = fn
}

// Fault is an error of the running kernel, with the result that it has on a
// GPU.
type Fault struct {
	Result cuda.Result
	Text   string
}

func (f *Fault) Error() string { return f.Text }

// Unwrap is the result.
func (f *Fault) Unwrap() error { return f.Result }

// Launch is one run of a kernel. It is valid until the KernelFunc returns, and
// so is what its methods give.
type Launch struct {
	GPU         *GPU
	Name        string
	Device      int // ordinal
	Grid, Block [3]uint32
	Shared      uint32 // bytes of dynamic shared memory
	Params      []byte // the parameter block

	ctx    *context
	blocks []*block // pinned; protected by GPU.mu
	err    error    // the first bad use of a method; of the kernel's goroutine
}

// Done is closed when the kernel must end: its context is lost or released,
// or the GPU is closed.
func (l *Launch) Done() <-chan struct{} { return l.ctx.done }

// Threads is the number of threads in the grid.
func (l *Launch) Threads() uint64 {
	n := uint64(1)
	for i := range 3 {
		n *= uint64(l.Grid[i]) * uint64(l.Block[i])
	}
	return n
}

// U64 is the 64-bit parameter at offset off. Beyond the parameters it is 0,
// and the launch fails.
func (l *Launch) U64(off int) uint64 { return binary.LittleEndian.Uint64(l.param(off, 8)) }

// U32 is the 32-bit parameter at offset off. Beyond the parameters it is 0,
// and the launch fails.
func (l *Launch) U32(off int) uint32 { return binary.LittleEndian.Uint32(l.param(off, 4)) }

// F32 is the float parameter at offset off, in the manner of U32.
func (l *Launch) F32(off int) float32 { return math.Float32frombits(l.U32(off)) }

// F64 is the double parameter at offset off, in the manner of U64.
func (l *Launch) F64(off int) float64 { return math.Float64frombits(l.U64(off)) }

func (l *Launch) param(off, n int) []byte {
	if off < 0 || off > len(l.Params)-n {
		if l.err == nil {
			l.err = fmt.Errorf("kernel %s reads %d bytes of its parameters at %d: it has %d", l.Name, n, off, len(l.Params))
		}
		return make([]byte, n)
	}
	return l.Params[off:][:n]
}

// Memory is the n bytes at addr, if the kernel may touch them: memory of its
// device, of a device whose context is enabled as a peer, or pinned or
// registered host memory (of its context, or portable), within one allocation or across registered ranges
// that adjoin. Otherwise it is a *Fault with IllegalAddress. The memory cannot
// be freed before the kernel ends.
func (l *Launch) Memory(addr, n uint64) ([]byte, error) {
	g := l.GPU
	g.mu.Lock()
	defer g.mu.Unlock()
	var blocks []*block
	for at, end := addr, addr+n; ; {
		b := g.find(uintptr(at))
		if end < addr || b == nil || !l.ctx.reaches(b) || len(blocks) > 0 && b.kind != registeredBlock {
			return nil, &Fault{cuda.IllegalAddress, fmt.Sprintf("kernel %s: illegal access to %d bytes at %#x: %s", l.Name, n, addr, g.near(addr))}
		}
		blocks = append(blocks, b)
		if at = uint64(b.end()); end <= at {
			break
		}
	}
	for _, b := range blocks {
		b.pins++
	}
	l.blocks = append(l.blocks, blocks...)
	if len(blocks) == 1 {
		return blocks[0].bytes[addr-uint64(blocks[0].base):][:n:n], nil
	}
	return view(uintptr(addr), n), nil
}

// near describes what is at addr or before it, for a message.
func (g *GPU) near(addr uint64) string {
	for _, t := range []*table{&g.deviceArena.table, &g.hostArena.table, &g.registered} {
		if i := t.after(uintptr(addr)); i > 0 {
			if b := t.blocks[i-1]; addr-uint64(b.base) < 2*b.size+1<<20 {
				return fmt.Sprintf("%d bytes behind the start of %s", addr-uint64(b.base), b)
			}
		}
	}
	return "no allocation is near"
}

// Word32 is the 32-bit word at addr, for atomic access to memory that the host
// or another kernel uses at the same time. Beside Memory's fault there is
// MisalignedAddress.
func (l *Launch) Word32(addr uint64) (*uint32, error) {
	b, err := l.aligned(addr, 4)
	if err != nil {
		return nil, err
	}
	return word32(b), nil
}

// Word64 is the 64-bit word at addr, in the manner of Word32.
func (l *Launch) Word64(addr uint64) (*uint64, error) {
	b, err := l.aligned(addr, 8)
	if err != nil {
		return nil, err
	}
	return word64(b), nil
}

func (l *Launch) aligned(addr, n uint64) ([]byte, error) {
	if addr%n != 0 {
		return nil, &Fault{cuda.MisalignedAddress, fmt.Sprintf("kernel %s: %#x is not aligned to %d bytes", l.Name, addr, n)}
	}
	return l.Memory(addr, n)
}

// kernelRun is the work of a launch. The scheduler starts run instead of
// taking steps.
type kernelRun struct {
	run    KernelFunc
	launch *Launch
}

func (k *kernelRun) begin(*GPU, *op) cuda.Result { return cuda.Success }

func (k *kernelRun) step() (last bool) { return true }

func (k *kernelRun) end(g *GPU) { g.unpin(k.launch.blocks) }

// start runs the kernel, on a goroutine of its own, and ends its operation.
func (k *kernelRun) start(g *GPU, o *op) {
	defer g.goroutines.Done()
	err := k.protected()
	g.mu.Lock()
	defer g.mu.Unlock()
	k.end(g)
	r := cuda.Success
	if err != nil {
		if !errors.As(err, &r) || r == cuda.Success {
			r = cuda.LaunchFailed
		}
		if k.launch.ctx.state() == cuda.Success { // not for what only follows
			g.note("%s: %v", o.name, err)
		}
	}
	g.complete(o, r)
}

// protected calls the function and makes an error of a panic, which would be
// a trap on a GPU.
func (k *kernelRun) protected() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	// A raw access beyond a view faults; that too is the kernel's failure
	// and not the process's.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if err := k.run(k.launch); err != nil {
		return err
	}
	return k.launch.err
}
