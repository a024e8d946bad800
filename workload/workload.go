package workload

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/cuda"
)

// Workload is a program over arrays of a Memory, of a size that is decided.
type Workload interface {
	// Name is that of its Kind.
	Name() string
	// Describe says in one line what its parameters have come to.
	Describe() string
	// Size is the number of bytes of all its arrays.
	Size() uint64
	// Arrays names its arrays in the order in which Setup makes and fills them.
	Arrays() []string
	// Setup makes the arrays and fills them. Arrays that exist are filled anew.
	Setup(ctx context.Context, mem *tritier.Memory) error
	// Run runs the program once, after Setup.
	Run(ctx context.Context, mem *tritier.Memory) error
	// RunKernels is Run on the GPU: kernels that use the arrays themselves. The Memory's
	// engine is gpu, and Params.Kernels was set.
	RunKernels(ctx context.Context, d *Device) error
	// Verify compares what Run or RunKernels has computed with a reference result. A
	// *Mismatch says where it differs.
	Verify(ctx context.Context, mem *tritier.Memory) error
	// Progress is how much of Setup or Run is done; total is 0 when nobody knows.
	Progress() (done, total int64)
}

// Params size a workload.
type Params struct {
	// Bytes is the size that all arrays together should have; the workload
	// comes as close from below as its shape lets it. Used when Scale is 0.
	Bytes uint64
	// Scale makes the largest array 2^Scale elements, a graph 2^Scale vertices.
	Scale int
	// Iterations of the program, in its own sense; 0 is the default of its Kind.
	Iterations int
	// Seed of the inputs.
	Seed uint64
	// Batch is how many threads are resident at a time, each with one element:
	// the size of a batch. DefaultBatch when 0.
	Batch int
	// Prefetch has the pages of the next batch brought into T1 before they are
	// accessed, by workloads whose Kind says that they can.
	Prefetch bool
	// Kernels prepares for RunKernels: elements are of types that kernels take.
	Kernels bool
	// Launched, if set, is told of every kernel launch when it has ended, from
	// the goroutine that is in Run.
	Launched func(Launch)

	name string
}

// DefaultBatch is the number of threads that a large GPU keeps resident: 132
// multiprocessors of 2,048 threads, rounded to a power of two.
const DefaultBatch = 1 << 18

// MaxScale bounds Params.Scale.
const MaxScale = 40

// Launch is a kernel launch that has ended, page traffic and arithmetic together.
type Launch struct {
	Name  string
	Start time.Time
	Took  time.Duration
	// Kernel is the time on the GPU by its own events, 0 without kernels.
	Kernel time.Duration
}

// Kind describes a workload that New makes.
type Kind struct {
	Name       string
	Doc        string // a sentence or two for help texts
	Iterations int    // default of Params.Iterations
	Unit       string // what an iteration is
	Prefetches bool   // Params.Prefetch is possible: the next batch is known
	make       func(Params) (Workload, error)
	load       func(*cuda.Context) (io.Closer, error) // its kernels
}

// Kinds lists the workloads, in the order of help texts.
func Kinds() []Kind {
	return []Kind{
		vectorAddKind, pathfinderKind, hotspotKind, backpropKind, sradKind,
		bfsKind, ssspKind, pagerankKind, embeddingKind,
	}
}

// Names lists the names of the workloads.
func Names() []string {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	return names
}

// New makes the workload of this name. Nothing is generated before Setup.
func New(name string, p Params) (Workload, error) {
	k, err := kindOf(name)
	if err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("workload %s: %w", name, err)
	}
	if p.Prefetch && !k.Prefetches {
		return nil, fmt.Errorf("workload %s: it cannot prefetch: which pages come next follows from what it computes", name)
	}
	if p.Iterations == 0 {
		p.Iterations = k.Iterations
	}
	if p.Batch == 0 {
		p.Batch = DefaultBatch
	}
	p.name = name
	w, err := k.make(p)
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", name, err)
	}
	return w, nil
}

// kindOf finds a workload by its name.
func kindOf(name string) (Kind, error) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, nil
		}
	}
	return Kind{}, fmt.Errorf("unknown workload %q; valid are %s", name, strings.Join(Names(), ", "))
}

// leastBytes keeps every shape larger than its smallest form.
const leastBytes = 64 << 10

func (p *Params) check() error {
	switch {
	case p.Scale < 0 || p.Scale > MaxScale:
		return fmt.Errorf("scale %d is not from 1 to %d", p.Scale, MaxScale)
	case p.Scale > 0 && p.Bytes > 0:
		return fmt.Errorf("scale %d and %v both size the arrays: give one of them", p.Scale, tritier.Size(p.Bytes))
	case p.Scale == 0 && p.Bytes < leastBytes:
		return fmt.Errorf("%v over all arrays is less than %v", tritier.Size(p.Bytes), tritier.Size(leastBytes))
	case p.Bytes > 1<<MaxScale*8:
		return fmt.Errorf("%v over all arrays is more than %v", tritier.Size(p.Bytes), tritier.Size(1<<MaxScale*8))
	case p.Iterations < 0 || p.Iterations > 1<<30:
		return fmt.Errorf("%d iterations: want 1 to %d", p.Iterations, 1<<30)
	case p.Batch < 0 || p.Batch > 1<<26:
		return fmt.Errorf("a batch of %d elements: want 1 to %d", p.Batch, 1<<26)
	}
	return nil
}

// elements is 2^Scale, or how many fit when each costs so many bytes in all.
func (p *Params) elements(cost float64) uint64 {
	if p.Scale > 0 {
		return 1 << p.Scale
	}
	return max(uint64(float64(p.Bytes)/cost), 1)
}

// base is what workloads have in common.
type base struct {
	Params
	reference any // a slice: what Verify compares with, once it is known
	done      atomic.Int64
	total     atomic.Int64
}

// Name implements Workload.
func (b *base) Name() string { return b.name }

// Progress implements Workload.
func (b *base) Progress() (done, total int64) { return b.done.Load(), b.total.Load() }

// expect begins a phase of so many steps, 0 when nobody knows.
func (b *base) expect(total int64) {
	b.done.Store(0)
	b.total.Store(total)
}

func (b *base) step(n uint64) { b.done.Add(int64(n)) }

// launch runs a kernel and tells of it.
func (b *base) launch(name string, kernel func() error) error {
	if b.Launched == nil {
		return kernel()
	}
	start := time.Now()
	err := kernel()
	b.Launched(Launch{Name: name, Start: start, Took: time.Since(start)})
	return err
}

// batches calls f for ranges of [0, n) of at most size each.
func batches(n, size uint64, f func(low, high uint64) error) error {
	for low := uint64(0); low < n; low += size {
		if err := f(low, min(low+size, n)); err != nil {
			return err
		}
	}
	return nil
}
