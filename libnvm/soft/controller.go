package soft

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/internal/spec"
)

const name = "soft"

// Controller is a software NVMe controller. It implements libnvm.Transport.
//
// Thread 0 also is the control thread: it alone looks at the registers and runs
// admin commands, and the fields marked "control" are its own.
type Controller struct {
	cfg        Config
	arena      *arena
	regs       libnvm.Registers
	barBytes   int
	cmbOffset  int
	namespaces []*namespace
	threads    []*thread
	ctx        context.Context
	cancel     context.CancelFunc
	started    time.Time
	closeOnce  sync.Once
	closeErr   error
	serving    atomic.Int32 // threads that have not ended
	halted     atomic.Int32
	revive     atomic.Bool
	violations [violationBackward + 1]atomic.Uint64 // wrong doorbell values, by kind
	log        errorLog
	events     eventQueue

	host hostState // control
}

// namespace is one namespace of the controller.
type namespace struct {
	id        uint32
	backend   Backend
	blocks    uint64
	blockSize int
	readOnly  bool
	memory    *Memory // the backend, if it is ordinary memory
}

// statistics are a thread's counts as others may read them.
type statistics struct {
	reads, writes, readBytes, writeBytes, commands, errors, fast atomic.Uint64
}

// Stats are the controller's counters since it was made.
type Stats struct {
	Reads, Writes         uint64 // read and write commands
	ReadBytes, WriteBytes uint64
	Commands, Errors      uint64
	// Doorbell values outside the queue, and values that moved backward or past
	// what the other side has freed. Each also raises an asynchronous event.
	DoorbellRange, DoorbellBackward uint64
}

// New makes a controller and starts its service threads. They end when ctx is
// done or Close is called; Close must be called in any case. Once they have
// ended the controller is gone for its host: its registers read all ones, so
// that nobody waits for it. Backends belong to
// the controller from here on, also when New fails.
func New(ctx context.Context, cfg Config) (*Controller, error) {
	full, err := cfg.withDefaults()
	if err != nil {
		return nil, errors.Join(err, closeBackends(cfg))
	}
	c := &Controller{cfg: full, started: time.Now()}
	doorbells := spec.Doorbells + 2*(full.Queues+1)*full.DoorbellStride
	c.cmbOffset = (doorbells + pageSize - 1) &^ (pageSize - 1)
	c.barBytes = c.cmbOffset + full.CMBBytes
	if c.arena, err = newArena(c.barBytes, int(full.MemoryLimit)&^(pageSize-1)); err != nil {
		return nil, errors.Join(err, closeBackends(cfg))
	}
	if c.regs, err = libnvm.NewRegisters(c.arena.mem[:c.barBytes:c.barBytes]); err != nil {
		return nil, errors.Join(err, c.arena.close(), closeBackends(cfg))
	}
	for i, n := range full.Namespaces {
		memory, _ := n.Backend.(*Memory)
		c.namespaces = append(c.namespaces, &namespace{
			id: uint32(i + 1), backend: n.Backend, blocks: uint64(n.Backend.Size() / int64(n.BlockSize)),
			blockSize: n.BlockSize, readOnly: n.ReadOnly, memory: memory,
		})
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.host.init()
	c.resetRegisters()
	for i := range full.Threads {
		t := &thread{c: c, id: i, mailbox: make(chan func(), 1), ready: make(chan error, 1), stopped: make(chan struct{}), fastLimit: full.fastLimit()}
		c.threads = append(c.threads, t)
	}
	c.serving.Store(int32(len(c.threads)))
	for _, t := range c.threads {
		go t.run()
	}
	for _, t := range c.threads {
		err = errors.Join(err, <-t.ready)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func closeBackends(cfg Config) error {
	var errs []error
	for _, n := range cfg.Namespaces {
		if n.Backend != nil {
			errs = append(errs, n.Backend.Close())
		}
	}
	return errors.Join(errs...)
}

// Name is "soft".
func (c *Controller) Name() string { return name }

// Registers is BAR0: properties, doorbells, and the controller memory buffer.
// After Close it is the zero value, which reads as a device that is gone.
func (c *Controller) Registers() libnvm.Registers {
	if c.arena.isClosed() {
		return libnvm.Registers{}
	}
	return c.regs
}

// Alloc gives out zeroed memory of the memfd, contiguous whatever its size.
func (c *Controller) Alloc(bytes int) (*libnvm.Memory, error) { return c.arena.alloc(bytes) }

// Map registers memory that the caller brings, any page-aligned memory of the process.
func (c *Controller) Map(buf []byte) (*libnvm.Memory, error) { return c.arena.adopt(buf) }

// File is a duplicate of the memfd's descriptor, for a producer in another
// process, with the size of BAR0. The file holds BAR0 at offset 0 and the
// memory given out by Alloc behind it: memory at IOVA x is at file offset
// x - 1<<32.
func (c *Controller) File() (*os.File, int, error) {
	c.arena.mu.Lock() // Close gives the descriptor's number back under it
	defer c.arena.mu.Unlock()
	if c.arena.closed {
		return nil, 0, fmt.Errorf("soft: duplicate the memfd: %w", libnvm.ErrClosed)
	}
	fd, err := unix.FcntlInt(uintptr(c.arena.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("soft: duplicate the memfd: %w", err)
	}
	return os.NewFile(uintptr(fd), "nvme-soft-controller"), c.barBytes, nil
}

// Describe says what the namespaces are stored in, one line each.
func (c *Controller) Describe() []string {
	var s []string
	for _, n := range c.namespaces {
		s = append(s, fmt.Sprintf("namespace %d: %s, %d blocks of %d bytes", n.id, n.backend.Describe(), n.blocks, n.blockSize))
	}
	return s
}

// Stats reads the counters. A thread adds its own at the end of each sweep.
func (c *Controller) Stats() Stats {
	sum := Stats{DoorbellRange: c.violations[violationRange].Load(), DoorbellBackward: c.violations[violationBackward].Load()}
	for _, t := range c.threads {
		s := &t.stats
		sum.Reads += s.reads.Load()
		sum.Writes += s.writes.Load()
		sum.ReadBytes += s.readBytes.Load()
		sum.WriteBytes += s.writeBytes.Load()
		sum.Commands += s.commands.Load()
		sum.Errors += s.errors.Load()
	}
	return sum
}

// stopTimeout bounds how long Close waits for a service thread.
const stopTimeout = 10 * time.Second

// Close stops the threads, then closes the backends and frees the memory. All
// memory from Alloc and the registers are invalid afterwards.
func (c *Controller) Close() error {
	c.closeOnce.Do(func() { c.closeErr = c.close() })
	return c.closeErr
}

func (c *Controller) close() error {
	c.cancel()
	limit := time.NewTimer(stopTimeout)
	defer limit.Stop()
	for _, t := range c.threads {
		select {
		case <-t.stopped:
		case <-limit.C:
			return fmt.Errorf("soft: service thread %d did not stop within %v; its memory stays mapped", t.id, stopTimeout)
		}
	}
	var errs []error
	for _, t := range c.threads {
		errs = append(errs, t.closeErr)
	}
	if err := errors.Join(errs...); err != nil {
		return err // operations in progress may still use the memory
	}
	for _, n := range c.namespaces {
		errs = append(errs, n.backend.Close())
	}
	return errors.Join(append(errs, c.arena.close())...)
}

// namespace finds a namespace by its id, or returns nil.
func (c *Controller) namespace(id uint32) *namespace {
	if id == 0 || uint64(id) > uint64(len(c.namespaces)) {
		return nil
	}
	return c.namespaces[id-1]
}

// now is the time since the controller was made.
func (c *Controller) now() time.Duration { return time.Since(c.started) }
