package bamio

import (
	"context"
	"errors"
	"sync"

	"github.com/tritier/tritier/cuda"
)

// Engine is GPU-initiated I/O over a set of drives. Its methods may be called
// from any goroutine.
type Engine struct {
	opts   Options
	gpu    *cuda.Context
	depth  int
	ports  []*port
	drives []*member
	queues []*queue
	path   Path

	payload payload
	control *cuda.HostMemory // the stop flag, words for the watchdog, request slots
	image   image
	memory  *cuda.DeviceMemory // what image describes
	at      cuda.Ptr           // its address

	look   look    // copies of what the GPU is doing
	life   life    // who uses the engine
	served served  // the request ring's consumer
	_      noCopy_ // an Engine is its address
}

// noCopy_ makes go vet refuse copies.
type noCopy_ struct{}

func (*noCopy_) Lock()   {}
func (*noCopy_) Unlock() {}

// Open sets everything up: queue pairs in their controllers, the GPU's access to
// rings and doorbells, payload memory that GPU and controllers reach, and the
// structs that device code works with. ctx bounds Open only.
//
// Errors: all violations of the options, joined, or a *SetupError; in either case
// nothing is left behind.
func Open(ctx context.Context, opts Options) (*Engine, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{opts: opts, gpu: opts.GPU}
	e.life.init()
	for _, step := range []func(context.Context) error{
		func(context.Context) error { return e.findDrives() },
		func(context.Context) error { return e.createQueues() },
		func(context.Context) error { e.lookAtQueues(); return e.registerQueues() },
		e.openPayload,
		func(context.Context) error { return e.openControl() },
		e.upload,
	} {
		if err = context.Cause(ctx); err == nil {
			err = step(ctx)
		}
		if err != nil {
			return nil, errors.Join(err, e.release())
		}
	}
	return e, nil
}

// Offsets in the control memory. Words that the GPU polls have a page without
// anything that the CPU writes often.
const (
	stopAt    = 0
	wordAt    = page // source of small copies to the GPU, under look.mu
	slotsAt   = 2 * page
	slotBytes = 64
)

// openControl takes the pinned memory that host and kernels share, and the
// stream and memory for looking at what kernels do.
func (e *Engine) openControl() error {
	size := slotsAt + e.opts.Requests*slotBytes
	var err error
	if e.control, err = e.gpu.AllocHost(uint64(size), cuda.Portable|cuda.Mapped); err != nil {
		return &SetupError{"allocate pinned memory for control", "", "", err}
	}
	clear(e.control.Bytes())
	e.image.plan(len(e.drives), len(e.queues), e.depth)
	if err := e.look.open(e.gpu, e.image.live()); err != nil {
		return &SetupError{"open a stream for looking at kernels", e.gpu.Device().String(), "", err}
	}
	return nil
}

// upload fills the GPU's memory.
func (e *Engine) upload(ctx context.Context) error {
	var err error
	if e.memory, err = e.gpu.Alloc(uint64(e.image.size)); err != nil {
		return &SetupError{"allocate GPU memory for queues", e.gpu.Device().String(), "", err}
	}
	e.at = e.memory.Ptr()
	b := e.fill()
	ctx, cancel := bounded(ctx, e.opts.Deadline)
	defer cancel()
	err = e.look.stream.CopyToDevice(e.at, b)
	if err == nil {
		err = e.look.stream.Wait(ctx)
	}
	if err != nil {
		return &SetupError{"fill GPU memory", e.gpu.Device().String(), "", err}
	}
	return nil
}

// Ptr is the address of the Engine struct of layout.cuh, which kernels take as
// their argument. It is valid until Close.
func (e *Engine) Ptr() cuda.Ptr { return e.at }

// StopPtr is the GPU's address of the word that asks kernels to end: not 0 from Stop
// to Resume. It is for waits of device code that are not bamio's own.
func (e *Engine) StopPtr() cuda.Ptr { return e.control.DevicePtr().Add(stopAt) }

// Context is the GPU that the engine is for.
func (e *Engine) Context() *cuda.Context { return e.gpu }

// Path says where queues, doorbells and payload are, and what is in the way of
// better places.
func (e *Engine) Path() Path { return e.path }

// Queues is the number of queue pairs, Depth the entries of each.
func (e *Engine) Queues() int { return len(e.queues) }

// Depth is the number of entries of a queue; one less can be in flight.
func (e *Engine) Depth() int { return e.depth }

// Deadline is what bounds every wait of device code.
func (e *Engine) Deadline() (ns uint64) { return uint64(e.opts.Deadline.Nanoseconds()) }

// DriveInfo describes a drive as kernels see it.
type DriveInfo struct {
	Name       string
	Blocks     uint64
	BlockSize  int // bytes
	MaxBytes   int // of one command
	FirstQueue int
	Queues     int
}

// Drives are the drives in the order of Options.Drives, which is that of device code.
func (e *Engine) Drives() []DriveInfo {
	var out []DriveInfo
	for _, d := range e.drives {
		out = append(out, DriveInfo{d.name, d.ns.Blocks, d.ns.BlockSize, d.port.ctrl.MaxTransfer(), d.first, d.count})
	}
	return out
}

// Buffers is the number of payload buffers and the size of each.
func (e *Engine) Buffers() (count, bytes int) { return e.payload.count, e.payload.buffer }

// Payload is the payload memory, buffer after buffer, as the host sees it; nil
// where it is GPU memory. It must not be touched after Close, and not while
// commands use it.
func (e *Engine) Payload() []byte { return e.payload.bytes }

// PayloadPtr is the GPU's address of the first payload buffer.
func (e *Engine) PayloadPtr() cuda.Ptr { return cuda.Ptr(e.payload.base) }

// Stop asks kernels to end: device code that waits then returns Stopped. It does
// not wait for them. Resume takes it back, for the next kernels.
func (e *Engine) Stop() error { return e.setStop(1) }

// Resume lets kernels work after Stop, or after a stall.
func (e *Engine) Resume() error { return e.setStop(0) }

func (e *Engine) setStop(v uint32) error {
	if err := e.life.begin(); err != nil {
		return err
	}
	defer e.life.end()
	store32(e.control.Bytes(), stopAt, v)
	return nil
}

// life counts who uses the engine, so that Close frees nothing under them.
type life struct {
	mu      sync.Mutex
	closeMu sync.Mutex // one Close at a time; taken before all else
	users   int
	closing bool
	ending  chan struct{} // closed when Close has begun
	idle    chan struct{} // closed when closing and without users
}

func (l *life) init() { l.ending, l.idle = make(chan struct{}), make(chan struct{}) }

// begin is called before the engine's memory is used; end after it.
func (l *life) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return ErrClosed
	}
	l.users++
	return nil
}

func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users == 0 && l.closing {
		close(l.idle)
	}
}

// close ends the time of begin. It may be called again.
func (l *life) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return
	}
	l.closing = true
	close(l.ending)
	if l.users == 0 {
		close(l.idle)
	}
}
