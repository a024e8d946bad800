package copyeng

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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
	// Force makes every batch take one path, one of GPU.Paths, for measurements
	// and tests. An exchange is not forced.
	Force Path
	// MaxBlocks bounds the thread blocks of a copy kernel, each of 256
	// threads; 0 is 64. Fewer leave more of the GPU to others: 16 fill PCIe
	// Gen5 x16 with pages of 64 KiB.
	MaxBlocks int
	// NoLaunch is for copies while kernels run that may hold every SM, and that wait
	// for these copies: it leaves memcpy-async and batch, which start no kernel and
	// make no stream when first used. Exchange then copies one way after the other.
	NoLaunch bool
}

// defaultBlocks saturates PCIe Gen5 x16 with room for its latency, on half the
// SMs of an H200.
const defaultBlocks = 64

// GPU is the engine over a CUDA device.
type GPU struct {
	ctx     *cuda.Context
	kernels *kernels // nil with NoLaunch
	table   *curveTable
	force   Path
	blocks  int
	counter counter
	// patience bounds the waits without a context: of Close, and of Copy for
	// room. closeWait, except in tests.
	patience time.Duration

	mu     sync.Mutex  // protects queues, and setting closed
	closed atomic.Bool // read without mu
	queues map[*gpuQueue]bool
}

var _ Engine = (*GPU)(nil)

// OpenGPU makes an engine on a context, which must outlive it. A path that
// Force cannot mean is an error that lists those it can.
func OpenGPU(ctx *cuda.Context, opts GPUOptions) (*GPU, error) {
	if ctx == nil {
		return nil, &ArgumentError{Call: "OpenGPU", Name: "context", What: "is missing: take one of cuda.Device.Retain"}
	}
	dev := ctx.Device()
	g := &GPU{ctx: ctx, force: opts.Force, blocks: opts.MaxBlocks, patience: closeWait, queues: map[*gpuQueue]bool{}}
	if !opts.NoLaunch {
		var err error
		if g.kernels, err = loadKernels(ctx); err != nil {
			return nil, fmt.Errorf("copy engine on %s: %w", dev, closedToo(err))
		}
	}
	if g.blocks <= 0 {
		g.blocks = defaultBlocks
	}
	if err := g.setUp(opts); err != nil {
		return nil, errors.Join(fmt.Errorf("copy engine on %s: %w", dev, err), g.unload())
	}
	return g, nil
}

// unload gives the kernels back.
func (g *GPU) unload() error {
	if g.kernels == nil {
		return nil
	}
	return g.kernels.Close()
}

// setUp checks options and device, and makes the table to choose by.
func (g *GPU) setUp(opts GPUOptions) (err error) {
	dev := g.ctx.Device()
	cal, source := opts.Calibration, "calibration given by the program"
	if cal == nil {
		cal, source, err = find(dev.UUID(), dev.Driver().Version().String())
	} else {
		err = cal.Check()
	}
	if err != nil {
		return err
	}
	if paths := g.Paths(); opts.Force != "" && !slices.Contains(paths, opts.Force) {
		return fmt.Errorf("path %s cannot be forced: this GPU and driver have %v for batches", opts.Force, paths)
	}
	v, err := dev.Attribute(cuda.CanMapHostMemory)
	if err != nil {
		return err
	}
	if v == 0 {
		return errors.New("the device cannot map host memory")
	}
	g.table = newCurveTable(cal, source, g.usable)
	return nil
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
	case PathMemcpy, PathSequential:
		return true
	case PathZeroCopy, PathExchange:
		return g.kernels != nil
	}
	if g.kernels == nil && p != PathBatch {
		return false
	}
	switch p {
	case PathBatch, PathBatch2, PathBatch4, PathHybrid25, PathHybrid50, PathTwoBatches:
		d := g.ctx.Device().Driver()
		return d.Has(cuda.SymMemcpyBatchAsyncV2) || d.Has(cuda.SymMemcpyBatchAsync)
	}
	return false
}

// alive fails once the engine is closed.
func (g *GPU) alive() error {
	if g.closed.Load() {
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
		return nil, fmt.Errorf("copy engine: %w", closedToo(err))
	}
	return &Space{owner: g, kind: DeviceMemory, addr: uint64(m.Ptr()), size: size, free: m.Free}, nil
}

// Stats is what has been started so far.
func (g *GPU) Stats() Stats { return g.counter.stats() }

// Choose says how a batch would go. What Copy would refuse is answered with
// PathNone, and the reason as the source.
func (g *GPU) Choose(dir Direction, pageSize, n int) Choice {
	if c, none := noChoice(dir, pageSize, n, directions-1); none {
		return c
	}
	return g.choose(dir, pageSize, n)
}

// ChooseExchange says how an exchange of n pages each way would go.
func (g *GPU) ChooseExchange(pageSize, n int) Choice {
	if c, none := noChoice(bothWays, pageSize, n, directions); none {
		return c
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

// Predict is the time of n pages one way by a path, from the curves that the engine
// chooses by, whether it has the path or not. False: they do not say.
func (g *GPU) Predict(p Path, dir Direction, pageSize, n int) (time.Duration, bool) {
	if _, none := noChoice(dir, pageSize, n, directions-1); none {
		return 0, false
	}
	us, ok := g.table.predict(dir, p, pageSize, float64(n))
	return time.Duration(min(us, longest) * 1e3), ok
}

// NewQueue gives a queue on a stream of its own.
func (g *GPU) NewQueue() (Queue, error) {
	s, err := g.ctx.NewStream()
	if err != nil {
		return nil, fmt.Errorf("copy engine: %w", closedToo(err))
	}
	q, err := g.queue(s, true)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return q, nil
}

// WrapQueue gives a queue on a stream of the caller: batches run in the
// stream's order, among whatever else it does. Closing the queue leaves the
// stream open. An *ArgumentError refuses a stream that is closed, that belongs
// to another GPU, or is a default stream: batched copies do not take the legacy
// one, and the thread's is another one from call to call.
func (g *GPU) WrapQueue(s *cuda.Stream) (Queue, error) {
	if err := g.fit(s); err != nil {
		return nil, err
	}
	q, err := g.queue(s, false)
	if err != nil {
		return nil, err // and no Queue that holds a nil
	}
	return q, nil
}

// The handles of the streams that CUDA has without making them.
const (
	nullStream      = 0 // the legacy one
	legacyStream    = 1 // the same
	perThreadStream = 2
)

// fit says whether a queue can work on a stream.
func (g *GPU) fit(s *cuda.Stream) error {
	refuse := func(err error, format string, args ...any) error {
		return &ArgumentError{Call: "WrapQueue", Name: "stream", What: fmt.Sprintf(format, args...), Err: err}
	}
	if s == nil || s.Context() == nil {
		return refuse(nil, "is missing: make one with cuda.Context.NewStream")
	}
	if !g.ctx.Same(s.Context()) {
		return refuse(nil, "is of another context, on %s, than the engine's on %s: take a stream of the engine's context", s.Context().Device(), g.Name())
	}
	switch s.Handle() {
	case nullStream, legacyStream:
		return refuse(cuda.ErrLegacyStream, "is the legacy default stream, which batched copies refuse: make one with cuda.Context.NewStream")
	case perThreadStream:
		return refuse(nil, "is the thread's default stream, hence another one from call to call: make one with cuda.Context.NewStream")
	}
	// No bytes are no work: the driver is not asked, so that errors of the
	// caller's work in the stream stay his.
	if err := s.CopyDevice(0, 0, 0); err != nil {
		return refuse(closedToo(err), "cannot be used: %v", err)
	}
	return nil
}

func (g *GPU) queue(s *cuda.Stream, own bool) (*gpuQueue, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.alive(); err != nil {
		return nil, err
	}
	q := &gpuQueue{engine: g, stream: s, own: own}
	q.lists = listRing{ctx: g.ctx, stream: s, patience: g.patience}
	g.queues[q] = true
	return q, nil
}

// Close closes the queues that are still open, all at once, and unloads the
// kernels. Spaces stay their owners' to close. Where a queue has copies in
// flight that do not end within 30 seconds, it and the kernels stay: Close
// fails, and can be called again. In any case the engine takes nothing new.
func (g *GPU) Close() error {
	g.mu.Lock()
	g.closed.Store(true) // from here on, no queue is made
	open := slices.Collect(maps.Keys(g.queues))
	g.mu.Unlock() // Queue.Close takes it
	errs := make([]error, len(open), len(open)+1)
	var wg sync.WaitGroup
	for i, q := range open {
		wg.Go(func() { errs[i] = q.Close() })
	}
	wg.Wait()
	g.mu.Lock()
	left := len(g.queues)
	g.mu.Unlock()
	if left > 0 { // a kernel in flight needs its code
		return errors.Join(append(errs, fmt.Errorf("copy engine on %s: %d queues still have copies in flight: close it again once they are done", g.Name(), left))...)
	}
	return errors.Join(append(errs, closedToo(g.unload()))...)
}
