package pinned

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"syscall"
)

// AnyNode as [Config.Node] leaves it to the kernel where memory comes from.
const AnyNode = -1

const (
	// ChunkAlign is what a chunk's size must be a multiple of, and what the pool's address is: a huge page of x86-64.
	ChunkAlign = 2 << 20
	// DefaultChunkBytes keeps boundaries rare (see the package comment) and a call of the driver near 0.1 s, the time in which a
	// cancelled start ends.
	DefaultChunkBytes = 4 << 30

	// pieceBytes is what a worker touches at a time: 4 ms of one thread, so that a cancelled start ends soon.
	pieceBytes = 16 << 20
	// maxWorkers bounds the default: a memory node's bandwidth is used up before.
	maxWorkers = 32
)

// HugePages chooses the size of the pool's pages.
type HugePages int

const (
	// HugeTransparent asks for transparent huge pages (MADV_HUGEPAGE) and takes small ones where the kernel has none. Reserved huge
	// pages (hugetlbfs) are not used: a node that runs out of them kills the process at first touch.
	HugeTransparent HugePages = iota
	// HugeNever asks for small pages.
	HugeNever
)

// RegisterFunc makes mem known to the device's driver as pinned memory, and returns the address by which the device reaches its first
// byte and the function that undoes it. mem is touched already. Calls come one at a time, in no order of chunks and from any goroutine.
type RegisterFunc func(mem []byte) (device uint64, unregister func() error, err error)

// Config says what pool to make. Size is the only field that must be set; mind that Node 0 is a node: [AnyNode] is -1.
type Config struct {
	Size uint64 // bytes, rounded up to whole pages
	Node int    // NUMA node, usually the GPU's, or AnyNode

	// Strict makes memory of another node an error: with a [*LimitError] when the node lacks it. Without Strict the pool takes what it
	// gets, and [Stats] says what that was.
	Strict bool

	// Register registers a chunk; nil makes a pool of plain memory, for an engine without a GPU.
	Register RegisterFunc
	// OutOfMemory says whether an error of Register means that memory or the right to pin it is lacking. By default those that
	// errors.Is(err, ENOMEM).
	OutOfMemory func(error) bool

	ChunkBytes uint64 // bytes per registration, a multiple of ChunkAlign; 0 means DefaultChunkBytes
	Workers    int    // goroutines that touch; 0 means one for each CPU of the node, at most 32
	HugePages  HugePages

	// Unchecked skips the comparison with physical memory, the node's included, for virtual machines whose memory grows as it is used.
	// Control groups and the other limits are still observed.
	Unchecked bool

	// Progress is called now and then, by one goroutine at a time, with done rising to total; the last call of a successful Open has
	// done == total. The unit is bytes of the pool; where there is a Register, touching is half of a byte's work and registering the
	// other half. It delays the worker that calls it.
	Progress func(done, total uint64)

	// Root is the directory tree that holds "proc" and "sys"; nil means the machine's own.
	Root fs.FS

	// These are for tests and measurements of this package.
	kernel kernel
	loop   bool // touch by a loop, not by MADV_POPULATE_WRITE
}

// fill checks the configuration and puts defaults in. All violations are reported together.
func (c Config) fill() (Config, error) {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf("pinned: "+format, a...)) }
	if c.Size == 0 || c.Size > math.MaxInt64/2 {
		bad("size %d: give a number of bytes from 1 to %d", c.Size, uint64(math.MaxInt64/2))
	}
	if c.Node < AnyNode {
		bad("NUMA node %d: give a node's number, or -1 for any", c.Node)
	}
	if c.Strict && c.Node == AnyNode {
		bad("strict placement needs a NUMA node")
	}
	if c.ChunkBytes%ChunkAlign != 0 || c.ChunkBytes > math.MaxInt64/2 {
		bad("chunk of %d bytes: give a multiple of %d", c.ChunkBytes, ChunkAlign)
	}
	if c.Workers < 0 {
		bad("%d workers: give at least 1, or 0 for one for each CPU of the node", c.Workers)
	}
	if c.HugePages != HugeTransparent && c.HugePages != HugeNever {
		bad("unknown choice of huge pages %d", c.HugePages)
	}
	if c.ChunkBytes == 0 {
		c.ChunkBytes = DefaultChunkBytes
	}
	if c.OutOfMemory == nil {
		c.OutOfMemory = func(err error) bool { return errors.Is(err, syscall.ENOMEM) }
	}
	if c.Root == nil {
		c.Root = machineRoot()
	}
	if c.kernel == nil {
		c.kernel = machineKernel()
	}
	return c, errors.Join(errs...)
}
