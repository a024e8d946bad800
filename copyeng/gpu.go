package copyeng

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tritier/tritier/cuda"
)

// closeWait bounds the wait of Close for what is in flight.
const closeWait = 30 * time.Second

// GPUOptions are the choices of OpenGPU. The zero value is good.
type GPUOptions struct {
	// Calibration is the curves to choose by; nil looks for the GPU's own
	// file (CalibrationFile) and falls back to the built-in ones.
	Calibration *Calibration
	// Force makes every batch take one path, for measurements and tests.
	Force Path
	// MaxBlocks bounds the thread blocks of a copy kernel, each of 256
	// threads; 0 is 64. Fewer leave more of the GPU to others: 16 fill PCIe
	// Gen5 x16 with pages of 64 KiB.
	MaxBlocks int
}

// defaultBlocks saturates PCIe Gen5 x16 with room for its latency, on half the
// SMs of an H200.
const defaultBlocks = 64

// GPU is the engine over a CUDA device.
type GPU struct {
	ctx     *cuda.Context
	kernels *kernels
	table   *curveTable
	force   Path
	blocks  int
	counter counter

	mu     sync.Mutex // protects closed and queues
	closed bool
	queues map[*gpuQueue]bool
}

var _ Engine = (*GPU)(nil)

// OpenGPU makes an engine on a context, which must outlive it.
func OpenGPU(ctx *cuda.Context, opts GPUOptions) (*GPU, error) {
	dev := ctx.Device()
	k, err := loadKernels(ctx)
	if err != nil {
		return nil, fmt.Errorf("copy engine on %s: %w", dev, err)
	}
	g := &GPU{ctx: ctx, kernels: k, force: opts.Force, blocks: opts.MaxBlocks, queues: map[*gpuQueue]bool{}}
	if g.blocks <= 0 {
		g.blocks = defaultBlocks
	}
	cal, source := opts.Calibration, "calibration given by the program"
	if cal == nil {
		cal, source, err = find(dev.UUID(), dev.Driver().Version().String())
	} else {
		err = cal.Check()
	}
	if err == nil && opts.Force != "" && !g.usable(opts.Force) {
		err = fmt.Errorf("path %s: not one of this GPU and driver (they have %v)", opts.Force, g.Paths())
	}
	if err == nil {
		var v int
		v, err = dev.Attribute(cuda.CanMapHostMemory)
		if err == nil && v == 0 {
			err = errors.New("the device cannot map host memory")
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("copy engine on %s: %w", dev, err), k.Close())
	}
	g.table = newCurveTable(cal, source, g.usable)
	return g, nil
}

// Name is the device's.
func (g *GPU) Name() string { return g.ctx.Device().String() }

// Context is the context that the engine works in.
func (g *GPU) Context() *cuda.Context { return g.ctx }

// Source says where the curves come from that the engine chooses by.
func (g *GPU) Source() string { return g.table.source }

// Paths are the paths that this GPU and driver have.
func (g *GPU) Paths() []Path {
	var list []Path
	for _, p := range gpuPaths {
		if g.usable(p) {
			list = append(list, p)
		}
	}
	return list
}

// usable says whether the driver has what a path needs.
func (g *GPU) usable(p Path) bool {
	switch p {
	case PathMemcpy, PathZeroCopy, PathExchange, PathSequential:
		return true
	case PathBatch, PathBatch2, PathBatch4, PathHybrid25, PathHybrid50, PathTwoBatches:
		d := g.ctx.Device().Driver()
		return d.Has(cuda.SymMemcpyBatchAsyncV2) || d.Has(cuda.SymMemcpyBatchAsync)
	}
	return false
}

// alive fails once the engine is closed.
func (g *GPU) alive() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return fmt.Errorf("copy engine: %w", ErrClosed)
	}
	return nil
}

// Allocate gives device memory.
func (g *GPU) Allocate(size uint64) (*Space, error) {
	if err := g.alive(); err != nil {
		return nil, err
	}
	m, err := g.ctx.Alloc(size)
	if err != nil {
		return nil, fmt.Errorf("copy engine: %w", err)
	}
	return &Space{owner: g, kind: DeviceMemory, addr: uint64(m.Ptr()), size: size, free: m.Free}, nil
}

// Stats is what has been started so far.
func (g *GPU) Stats() Stats { return g.counter.stats() }

// Choose says how a batch would go. A page size out of range is answered
// with PathNone.
func (g *GPU) Choose(dir Direction, pageSize, n int) Choice {
	if n <= 0 || dir > ToHost || !validPage(pageSize) {
		return Choice{Path: PathNone, Dir: dir, Page: pageSize, Pages: n, Source: "nothing to copy"}
	}
	return g.choose(dir, pageSize, n)
}

// ChooseExchange says how an exchange of n pages each way would go.
func (g *GPU) ChooseExchange(pageSize, n int) Choice {
	if n <= 0 || !validPage(pageSize) {
		return Choice{Path: PathNone, Dir: bothWays, Page: pageSize, Pages: n, Source: "nothing to copy"}
	}
	return g.choose(bothWays, pageSize, n)
}

// choose is Choose for a shape that is valid.
func (g *GPU) choose(dir Direction, pageSize, n int) Choice {
	c := Choice{Dir: dir, Page: pageSize, Pages: n}
	if g.force != "" && dir != bothWays {
		c.Path, c.Source = g.force, "the path was forced"
		return c
	}
	best := g.table.choose(dir, pageSize, n)
	c.Path, c.Time, c.Source, c.choices = best.path, time.Duration(best.micros*1e3), g.table.source, g.table
	return c
}

// NewQueue gives a queue on a stream of its own.
func (g *GPU) NewQueue() (Queue, error) {
	s, err := g.ctx.NewStream()
	if err != nil {
		return nil, fmt.Errorf("copy engine: %w", err)
	}
	q, err := g.queue(s, true)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return q, nil
}

// WrapQueue gives a queue on a stream of the caller: batches run in the
// stream's order, among whatever else it does. Closing the queue leaves the
// stream open. Not the legacy default stream, which batched copies refuse.
func (g *GPU) WrapQueue(s *cuda.Stream) (Queue, error) { return g.queue(s, false) }

func (g *GPU) queue(s *cuda.Stream, own bool) (*gpuQueue, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, fmt.Errorf("copy engine: %w", ErrClosed)
	}
	q := &gpuQueue{engine: g, stream: s, own: own}
	g.queues[q] = true
	return q, nil
}

// Close closes the queues that are still open, and unloads the kernels. Spaces
// stay their owners' to close.
func (g *GPU) Close() error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	var open []*gpuQueue
	for q := range g.queues {
		open = append(open, q)
	}
	g.mu.Unlock() // Queue.Close takes it
	var errs []error
	for _, q := range open {
		errs = append(errs, q.Close())
	}
	return errors.Join(append(errs, g.kernels.Close())...)
}
