// Package copyengtest is the conformance suite of copyeng's engines: what
// copyeng promises must hold for each of them. All memory holds fresh random
// data; what a batch should have written and what it should have left alone
// are both compared, byte by byte, over the whole of both spaces.
//
// Device memory is written and read beside the engine (Options.WriteDevice,
// ReadDevice): through the engine alone, one that ignored page numbers both
// ways would seem right.
package copyengtest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tritier/tritier/copyeng"
)

// T is what the suite needs of a *testing.T. The tests of the suite itself
// give it another one, to see that wrong engines fail.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
}

// Options says what the engine under test is like. The zero value suits the
// Host engine.
type Options struct {
	// Seed of all random choices and data; 0 draws one. Every failure has it.
	Seed uint64
	// MaxBytes bounds the host and device memory of one case together; batches
	// that do not fit are left out. 0 is 64 MiB, or 16 MiB if Short. At least
	// 16 MiB has pages of every size.
	MaxBytes int64
	// Short makes fewer rounds and tries fewer numbers of pages.
	Short bool
	// Far tries offsets beyond 4 GiB, with a little more than that of host
	// and of device memory, which is not all touched.
	Far bool
	// ReadDevice and WriteDevice access device memory without the engine, and
	// are done when they return. Nil uses Space.Bytes.
	ReadDevice  func(s *copyeng.Space, offset uint64, into []byte) error
	WriteDevice func(s *copyeng.Space, offset uint64, data []byte) error
	// Paths, if set, is told of each choice. It must be safe for concurrent use.
	Paths func(copyeng.Choice)
	// Faulty opens an engine in which arm lets the next batch to be started
	// fail with the error that it returns, without losing the engine. Nil
	// leaves out the case Faults.
	Faulty func() (e copyeng.Engine, arm func() error, err error)
	// Timeout bounds each wait. 0 is a minute.
	Timeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 20
		if o.Short {
			o.MaxBytes = 16 << 20
		}
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	if o.ReadDevice == nil {
		o.ReadDevice = readBytes
	}
	if o.WriteDevice == nil {
		o.WriteDevice = writeBytes
	}
	return o
}

// Case is one part of the suite.
type Case struct {
	Name string
	run  func(*env) error
}

var cases = []Case{
	{"Spaces", testSpaces},
	{"Scatter", testScatter},
	{"RoundTrip", testRoundTrip},
	{"Order", testOrder},
	{"OrderRandom", testOrderRandom},
	{"Overlap", testOverlap},
	{"BothWays", testBothWays},
	{"Exchange", testExchange},
	{"Refusals", testRefusals},
	{"Choices", testChoices},
	{"Context", testContext},
	{"Close", testClose},
	{"OneQueue", testOneQueue},
	{"ManyQueues", testManyQueues},
	{"Faults", testFaults},
	{"Far", testFar},
}

// Cases are the parts of the suite, for a caller that is not a *testing.T.
func Cases() []Case { return slices.Clone(cases) }

// Run runs the suite as subtests. Each opens engines of its own, and closes them.
func Run(t *testing.T, open func(t *testing.T) copyeng.Engine, opts Options) {
	t.Helper()
	opts = opts.withDefaults()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { c.Check(t, func() copyeng.Engine { return open(t) }, opts) })
	}
}

// Check runs one part.
func (c Case) Check(t T, open func() copyeng.Engine, opts Options) {
	t.Helper()
	opts = opts.withDefaults()
	e := &env{T: t, o: opts, open: open, engine: open(), rng: random(opts.Seed, c.Name)}
	err := c.run(e)
	if err == nil {
		err = e.checkStats() // the counts of a failed case are the suite's to blame
	}
	if err = errors.Join(err, e.close()); err != nil {
		t.Errorf("%s on engine %s, seed %d: %v", c.Name, e.engine.Name(), opts.Seed, err)
	}
}

// random gives a source for one purpose, so that cases do not depend on which
// others run.
func random(seed uint64, purpose string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(purpose)) // a hash never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// env is one case in progress.
type env struct {
	T
	o      Options
	open   func() copyeng.Engine
	engine copyeng.Engine
	rng    *rand.Rand
	worlds []*world // open
	made   int      // worlds ever

	mu     sync.Mutex // protects counts
	counts [2]copyeng.PathStats
}

// close ends the case: an engine must close without error.
func (e *env) close() error {
	var errs []error
	for _, w := range e.worlds {
		errs = append(errs, w.close())
	}
	if err := e.engine.Close(); err != nil {
		errs = append(errs, fmt.Errorf("closing the engine: %w", err))
	}
	return errors.Join(errs...)
}

// wait waits for a queue with the bound of the options.
func (e *env) wait(q copyeng.Queue) error {
	ctx, cancel := context.WithTimeout(context.Background(), e.o.Timeout)
	defer cancel()
	if err := q.Wait(ctx); err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	return nil
}

// count notes a batch that was started.
func (e *env) count(b *copyeng.Batch) {
	if len(b.Pairs) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c := &e.counts[b.Dir]
	c.Batches++
	c.Pages += int64(len(b.Pairs))
	c.Bytes += b.Bytes()
}

// checkStats compares the engine's statistics with what the suite started.
func (e *env) checkStats() error {
	s := e.engine.Stats()
	for d, paths := range []map[copyeng.Path]copyeng.PathStats{s.ToDevice, s.ToHost} {
		var sum copyeng.PathStats
		for path, c := range paths {
			if path == copyeng.PathNone {
				continue // whether empty batches count is the engine's business
			}
			sum.Batches += c.Batches
			sum.Pages += c.Pages
			sum.Bytes += c.Bytes
		}
		if sum != e.counts[d] {
			return fmt.Errorf("statistics %s: the engine has %+v, it was given %+v", copyeng.Direction(d), sum, e.counts[d])
		}
	}
	return nil
}
