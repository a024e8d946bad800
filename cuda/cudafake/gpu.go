package cudafake

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tritier/tritier/cuda"
)

const (
	// hostSpace is the address space of pinned memory.
	hostSpace = 64 << 30
	// closeLimit bounds how long the ends of the GPU and of a context wait
	// for kernels to return.
	closeLimit = 10 * time.Second
	// noteLimit bounds the list of violations.
	noteLimit = 1000
)

// GPU is a driver with its devices, in software; it implements cuda.Backend.
// All methods may be called from any goroutine. Close ends it.
type GPU struct {
	config     config
	closeLimit time.Duration
	wake       chan struct{} // has room for one: the scheduler has something new to look at
	goroutines sync.WaitGroup

	// mu protects all that follows, and the state of every object; it is the
	// package's only lock. Bulk copies and kernels run without it, on
	// allocations that are pinned for as long (block.pins).
	mu          sync.Mutex
	idle        *sync.Cond // on mu: an operation ended or a block was unpinned
	rng         *rand.Rand
	initialised bool
	closed      bool
	closeErr    error
	devices     []*device
	current     map[int]uintptr // the current context's handle, by thread id
	objects     map[uintptr]any // streams, events, modules, functions and contexts, by handle
	lastHandle  uintptr
	lastID      uint64
	streams     []*stream // those with an op queue, in order of making; the scheduler's
	deviceArena *arena
	hostArena   *arena
	registered  table
	pinned      uint64 // bytes charged to the pinned limit
	kernels     map[string]KernelFunc
	faults      faults
	pageable    int
	lost        []string // what was live when its context ended
	notes       []string
}

var _ cuda.Backend = (*GPU)(nil)

// New makes a GPU. An error that the host gives, which has no room for the
// address space, comes from cuInit as OutOfMemory and is in Violations.
func New(opts ...Option) *GPU {
	g := &GPU{
		config:     newConfig(opts),
		closeLimit: closeLimit,
		wake:       make(chan struct{}, 1),
		current:    make(map[int]uintptr),
		objects:    make(map[uintptr]any),
		kernels:    make(map[string]KernelFunc),
		faults:     faults{calls: make(map[cuda.Symbol]int), next: make(map[cuda.Symbol][]planned)},
		// Handles look like nothing that a test would invent.
		lastHandle: 0x5eed_0000_0000,
	}
	g.idle = sync.NewCond(&g.mu)
	g.rng = rand.New(rand.NewPCG(g.config.seed, 0x6a09e667f3bcc908))
	for i, spec := range g.config.devices {
		g.devices = append(g.devices, &device{DeviceSpec: spec, ordinal: i})
	}
	g.goroutines.Add(1)
	go g.schedule()
	return g
}

// Seed is the seed of the random choices, for a test to print.
func (g *GPU) Seed() uint64 { return g.config.seed }

// initialise reserves the address space, at cuInit.
func (g *GPU) initialise() error {
	if g.initialised {
		return nil
	}
	var space uintptr
	for _, d := range g.devices {
		// Twice the memory and more, so that freed addresses rest a while.
		space += 2*uintptr(d.Memory) + 1<<30
	}
	var err error
	if g.deviceArena, err = newArena(max(space, 1<<20)); err != nil {
		return err
	}
	if g.hostArena, err = newArena(hostSpace); err != nil {
		return errors.Join(err, unreserve(g.deviceArena.base, g.deviceArena.size))
	}
	g.initialised = true
	return nil
}

// Has says whether the fake driver exports the function. Every call asks it, and a wait
// makes many: hence no scanning by format, which took half of the time of a poll.
func (g *GPU) Has(s cuda.Symbol) bool {
	since, release, _ := strings.Cut(s.Since(), ".")
	major, err := strconv.Atoi(since)
	minor, err2 := strconv.Atoi(release)
	return err == nil && err2 == nil && major*1000+minor*10 <= g.config.version && !g.config.without[s]
}

// Close ends all work, and the goroutines and memory of the GPU; calls answer
// Deinitialized from then on, and a hanging one returns. It fails if a kernel
// does not return within ten seconds of Launch.Done being closed: the
// memory then stays. Closing again gives the first error.
func (g *GPU) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return g.closeErr
	}
	g.lost = g.leaks()
	g.closed = true
	for _, s := range g.streams {
		s.ctx.end()
		s.drop(cuda.Deinitialized)
	}
	g.poke()
	g.closeErr = g.finish()
	return g.closeErr
}

// finish waits for the goroutines and gives the memory back.
func (g *GPU) finish() error {
	done := make(chan struct{})
	go func() { g.goroutines.Wait(); close(done) }()
	limit := time.NewTimer(g.closeLimit)
	defer limit.Stop()
	g.mu.Unlock()
	select {
	case <-done:
		g.mu.Lock()
	case <-limit.C:
		g.mu.Lock()
		return fmt.Errorf("cudafake: after %v a kernel still runs: %s (kernels must end when Launch.Done is closed)",
			g.closeLimit, strings.Join(g.running(), ", "))
	}
	if !g.initialised {
		return nil
	}
	for _, a := range []*arena{g.deviceArena, g.hostArena} {
		for _, b := range a.blocks {
			b.closeFile()
		}
	}
	g.registered.blocks = nil
	return errors.Join(unreserve(g.deviceArena.base, g.deviceArena.size), unreserve(g.hostArena.base, g.hostArena.size))
}

// running names the operations that run now.
func (g *GPU) running() []string {
	var names []string
	for _, s := range g.streams {
		if len(s.queue) > 0 && s.queue[0].state == opRunning {
			names = append(names, s.queue[0].name)
		}
	}
	return names
}

// handle lists an object and gives its handle.
func (g *GPU) handle(object any) uintptr {
	g.lastHandle += 16
	g.objects[g.lastHandle] = object
	return g.lastHandle
}

// object is what a handle stands for.
func object[T any](g *GPU, handle uintptr) (T, bool) {
	o, ok := g.objects[handle].(T)
	return o, ok
}

// note lists a violation. g.mu is held.
func (g *GPU) note(format string, args ...any) {
	if len(g.notes) < noteLimit {
		g.notes = append(g.notes, fmt.Sprintf(format, args...))
	}
}

// poke makes the scheduler look again.
func (g *GPU) poke() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}
