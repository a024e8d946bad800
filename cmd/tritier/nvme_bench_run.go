package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/libnvm"
)

// runResult is one run of a cell, all workers together.
type runResult struct {
	ios, bytes, verified uint64
	elapsed              time.Duration
	latency              *latencies
	doorbells            uint64
	sqDoorbells          uint64 // those of them that submit
	driverCPU, otherCPU  time.Duration
	errors               map[string]uint64
	mismatch             *mismatchError
	resets               int
}

// runCell makes the queues of a cell, runs it once, and takes them away.
func (b *bench) runCell(ctx context.Context, c cell, number int) (r *runResult, err error) {
	var ws []*worker
	defer func() {
		for _, w := range ws {
			err = errors.Join(err, w.close())
		}
	}()
	// Workers and service threads hold a processor each while they poll: with
	// fewer the Go scheduler would let each wait 10 ms for the other.
	procs := c.queues*len(b.drives) + b.f.threads*len(b.drives) + 2
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(procs, runtime.NumCPU())))
	for di := range b.drives {
		for qi := range c.queues {
			w, err := b.newWorker(c, di, qi, number)
			if err != nil {
				return nil, err
			}
			ws = append(ws, w)
		}
	}
	return b.drive(ctx, ws)
}

// newWorker makes a queue pair and its buffers, and shares the area out.
func (b *bench) newWorker(c cell, di, qi, number int) (*worker, error) {
	d := b.drives[di]
	ns, err := firstNamespace(d)
	if err != nil {
		return nil, err
	}
	id := uint64(di)<<32 | uint64(qi)<<16 | uint64(number)
	w := &worker{
		cell: c, d: d, ns: ns, rng: rand.New(rand.NewPCG(b.f.seed, id)), key: patternKey(b.f.seed, di), verify: b.f.verify,
		tolerate: b.faults != nil, reads: b.f.reads, batch: b.f.batch, perIO: uint64(c.size / ns.BlockSize),
		requests: make([]libnvm.Request, 0, c.depth), done: make([]libnvm.Completion, c.depth), slots: make([]inFlight, c.depth),
	}
	w.result.errors = map[string]uint64{}
	if w.batch == 0 {
		w.batch = c.depth / 4
	}
	w.batch = max(1, min(w.batch, c.depth))
	w.span = b.span(c) / uint64(ns.BlockSize)
	if !c.work.random {
		w.first = uint64(qi) * w.span
	}
	return w, w.allocate()
}

// span is how many bytes of a drive one queue uses: all of the area at random,
// and in sequence a part of its own.
func (b *bench) span(c cell) uint64 {
	if c.work.random {
		return b.area
	}
	return b.area / uint64(c.queues) / uint64(c.size) * uint64(c.size)
}

// checkCells refuses combinations that a drive cannot do, before any is measured.
func (b *bench) checkCells() error {
	for _, d := range b.drives {
		ns, err := firstNamespace(d)
		if err != nil {
			return err
		}
		depth, queues := d.Controller.MaxDepth(), d.Controller.QueueLimit()
		for _, c := range b.cells {
			switch {
			case c.size%ns.BlockSize != 0:
				return fmt.Errorf("%s: an I/O of %s is no multiple of the block size, %s", d.URI, shortBytes(c.size), shortBytes(ns.BlockSize))
			case depth <= c.depth:
				return fmt.Errorf("%s: depth %d is more than its queues hold, %d", d.URI, c.depth, depth-1)
			case c.queues > queues:
				return fmt.Errorf("%s: %d queues are more than it grants, %d", d.URI, c.queues, queues)
			case b.span(c) < uint64(c.size):
				return fmt.Errorf("%s: the area of %s is too small for %d queues with I/Os of %s", d.URI, units.FormatBytes(b.area), c.queues, shortBytes(c.size))
			}
		}
	}
	return nil
}

func (w *worker) allocate() (err error) {
	c := w.d.Controller
	entries := min(w.cell.entries(c.MaxTransfer()), c.MaxDepth())
	if w.q, err = c.CreateQueuePair(libnvm.QueueConfig{Depth: entries}); err != nil {
		return fmt.Errorf("%s: %w", w.d.URI, err)
	}
	if w.mem, err = w.d.Transport.Alloc(w.cell.depth * w.cell.size); err != nil {
		return errors.Join(fmt.Errorf("%s: I/O buffers: %w", w.d.URI, err), w.q.Close())
	}
	for i := range w.slots {
		w.free = append(w.free, i)
		if !w.cell.work.read {
			stamp(w.buffer(i), w.key, uint64(i*w.cell.size))
		}
	}
	return nil
}

// close frees the queue pair first: then nothing uses the buffers any more.
func (w *worker) close() error {
	err := w.q.Close()
	if w.mem.Held() > 0 {
		err = errors.Join(err, w.d.Controller.Reset())
	}
	return errors.Join(err, w.mem.Free())
}

// drive runs the workers to their end. The first error stops the others.
func (b *bench) drive(ctx context.Context, ws []*worker) (*runResult, error) {
	clock := time.Now()
	s := &schedule{warm: int64(b.warmup), length: int64(b.length)}
	if b.ios > 0 {
		s.ios = (b.ios + uint64(len(ws)) - 1) / uint64(len(ws))
	}
	defer context.AfterFunc(ctx, func() { s.stop.Store(true) })()
	errs := make([]error, len(ws))
	var group sync.WaitGroup
	for i, w := range ws {
		w.clock = clock
		group.Go(func() {
			if errs[i] = w.run(s); errs[i] != nil {
				s.stop.Store(true)
			}
		})
	}
	group.Wait() // bounded: by the schedule, and the deadline of each I/O
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, b.dumpHung(ws, errs))
	}
	return merge(ws), nil
}

// dumpHung shows the queues of workers whose I/O ran into its deadline: what
// the controller was last seen to do is the only trace of a hang.
func (b *bench) dumpHung(ws []*worker, errs []error) error {
	for i, w := range ws {
		var late *libnvm.TimeoutError
		if errors.As(errs[i], &late) {
			if err := w.q.Dump(b.stderr); err != nil {
				return err
			}
		}
	}
	return nil
}

func merge(ws []*worker) *runResult {
	r := &runResult{latency: &latencies{}, errors: map[string]uint64{}}
	var total time.Duration
	for _, w := range ws {
		x := &w.result
		r.latency.merge(&x.latency)
		r.ios += x.ios
		r.bytes += x.ios * uint64(w.cell.size)
		r.verified += x.verified
		r.doorbells += x.doorbells
		r.sqDoorbells += x.submission
		r.driverCPU += x.cpu
		r.resets += x.resets
		r.elapsed, total = max(r.elapsed, x.elapsed), max(total, x.total)
		for k, n := range x.errors {
			r.errors[k] += n
		}
		if r.mismatch == nil {
			r.mismatch = x.mismatch
		}
	}
	r.otherCPU = max(total-r.driverCPU, 0)
	return r
}
