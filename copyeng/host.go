package copyeng

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// HostOptions are the choices of OpenHost. The zero value is good.
type HostOptions struct {
	// Workers bounds the goroutines, over all queues, that help with large
	// batches; each queue has one of its own besides. 0 is one less than
	// GOMAXPROCS, at most 7; below 0 is none.
	Workers int
	// DeviceBytes bounds the device memory allocated at one time, so that a
	// program's shortage of it can be tried out. 0 is no bound.
	DeviceBytes uint64
	// Fault, for tests, is asked when a batch runs; a batch for which it gives
	// an error is not copied. It may wait, which holds up its queue alone, and
	// must be safe for concurrent use. The batch is a copy that it must not
	// keep or change.
	Fault func(b *Batch) error
}

const (
	maxWorkers = 64
	// hostAlign is what device and host memory of the Host engine is aligned
	// to: what O_DIRECT and a drive's PRP lists ask of a page.
	hostAlign = 4096
)

// Host is the engine without a GPU: device spaces are ordinary memory, whose
// bytes Space.Bytes shows, and the CPU copies. It is what the tests of other
// engines and of whatever uses an Engine are measured against; it is therefore
// simple, and the race detector sees its copies.
//
// A failed batch (HostOptions.Fault) changes nothing, and those after it in the
// queue run. Its error comes back from the next Wait or Close of its queue, once.
type Host struct {
	fault    func(*Batch) error
	limit    uint64
	patience time.Duration // bounds the waits without a context
	helpers  chan struct{} // a token for each helper that runs
	counter  counter

	mu     sync.Mutex // protects what follows; never held while a queue's lock is taken
	closed bool
	queues map[*hostQueue]bool
	spaces map[*Space]bool
	used   [2]uint64 // bytes allocated, by Kind
}

var _ Engine = (*Host)(nil)

// OpenHost gives a Host engine. It needs nothing of the machine.
func OpenHost(opts HostOptions) *Host {
	workers := opts.Workers
	if workers == 0 {
		workers = min(runtime.GOMAXPROCS(0), 8) - 1
	}
	return &Host{
		fault:    opts.Fault,
		limit:    opts.DeviceBytes,
		patience: closeWait,
		helpers:  make(chan struct{}, min(max(workers, 0), maxWorkers)),
		queues:   map[*hostQueue]bool{},
		spaces:   map[*Space]bool{},
	}
}

// Name is "host".
func (h *Host) Name() string { return "host" }

// Allocate gives ordinary memory as device memory, aligned to 4 KiB. More than
// HostOptions.DeviceBytes is an *AllocationError.
func (h *Host) Allocate(size uint64) (*Space, error) { return h.allocate(DeviceMemory, size) }

// AllocateHost gives zeroed memory, aligned to 4 KiB.
func (h *Host) AllocateHost(size uint64) (*Space, error) { return h.allocate(HostMemory, size) }

// LendHost makes memory of the caller a host space; it need not be pinned. As
// for a GPU it must begin at a multiple of MinPage, so that what works with one
// engine works with the other: a *LendError otherwise, and for no memory.
func (h *Host) LendHost(mem []byte) (*Space, error) {
	if err := checkLoan(mem); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.enter(HostMemory, mem, 0)
}

// AllocationError says why the Host engine gave no memory.
type AllocationError struct {
	Kind  Kind
	Size  uint64 // bytes asked for
	Used  uint64 // bytes of that kind allocated at the time
	Limit uint64 // bytes that may be; 0 when the machine's memory is the bound
}

// Error gives one line.
func (e *AllocationError) Error() string {
	what := "more than this machine's memory; ask for less"
	switch {
	case e.Size == 0:
		what = "ask for at least one"
	case e.Limit != 0:
		what = fmt.Sprintf("%d of %d are in use; close spaces, or raise HostOptions.DeviceBytes", e.Used, e.Limit)
	}
	return fmt.Sprintf("copy engine host: %d bytes of %s memory: %s", e.Size, e.Kind, what)
}

func (h *Host) allocate(k Kind, size uint64) (*Space, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k == DeviceMemory && h.limit != 0 && size > h.limit-h.used[k] {
		return nil, &AllocationError{Kind: k, Size: size, Used: h.used[k], Limit: h.limit}
	}
	// Go ends the process when the kernel refuses memory, which it does for a
	// single piece that is larger than the machine's.
	if size == 0 || size > physicalMemory() {
		return nil, &AllocationError{Kind: k, Size: size, Used: h.used[k]}
	}
	return h.enter(k, alignedMemory(size), size)
}

// enter makes mem a space and counts it. h.mu is held.
func (h *Host) enter(k Kind, mem []byte, count uint64) (*Space, error) {
	if h.closed {
		return nil, fmt.Errorf("copy engine host: %w", ErrClosed)
	}
	s := &Space{owner: h, kind: k, bytes: mem, size: uint64(len(mem))}
	// The memory itself is the garbage collector's: a batch still in flight
	// when its space is closed, against the rules, writes to nobody's memory.
	s.free = func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.spaces, s)
		h.used[k] -= count
		return nil
	}
	h.spaces[s] = true
	h.used[k] += count
	return s, nil
}

// Allocated is the memory that Allocate and AllocateHost gave and that has not
// been closed, in bytes.
func (h *Host) Allocated() (device, host uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.used[DeviceMemory], h.used[HostMemory]
}

// NewQueue gives an empty queue, with a goroutine that ends when it is closed.
func (h *Host) NewQueue() (Queue, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, fmt.Errorf("copy engine host: %w", ErrClosed)
	}
	q := newHostQueue(h)
	h.queues[q] = true
	return q, nil
}

// Choose gives PathMemory for all that can be copied, else PathNone.
func (h *Host) Choose(dir Direction, pageSize, n int) Choice {
	if c, none := noChoice(dir, pageSize, n, directions-1); none {
		return c
	}
	return Choice{Path: PathMemory, Dir: dir, Page: pageSize, Pages: n, Source: "no GPU: copied by the CPU in ordinary memory"}
}

// Stats is what has been started so far.
func (h *Host) Stats() Stats { return h.counter.stats() }

// Close closes the queues that are still open, with their errors, and the
// spaces. Closing twice does nothing.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	var queues []*hostQueue
	for q := range h.queues {
		queues = append(queues, q)
	}
	h.mu.Unlock() // Queue.Close and Space.Close take it
	errs := closeAll(queues)
	h.mu.Lock()
	var spaces []*Space
	for s := range h.spaces {
		spaces = append(spaces, s)
	}
	h.mu.Unlock()
	for _, s := range spaces {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// closeAll closes queues at once, so that their waits do not add up.
func closeAll(queues []*hostQueue) []error {
	errs := make([]error, len(queues))
	var wg sync.WaitGroup
	for i, q := range queues {
		wg.Go(func() { errs[i] = q.Close() })
	}
	wg.Wait()
	return errs
}
