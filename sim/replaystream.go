package sim

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
)

// ErrNeedsWholeTrace means that a policy looks into the future (belady), so
// that it cannot run over a stream.
var ErrNeedsWholeTrace = errors.New("sim: belady needs the whole trace in memory: leave it out, or do not stream")

// streamBlock is how many accesses every job runs before the stream moves on:
// large enough that a job's tables stay in the cache over most of it, small
// enough that reading and running overlap on short traces too.
const streamBlock = 1 << 16

// streamBlocks is how far the fastest job may run ahead of the slowest.
const streamBlocks = 4

// ReplayStream runs jobs over a trace of any length in one pass. Memory
// depends on the distinct pages and frames, not on the trace's length. Jobs
// run side by side, each at its own pace, while further blocks are being read.
// When ctx ends it returns the results so far and ctx's error, as Replay does;
// likewise when the trace turns out to be faulty.
func ReplayStream(ctx context.Context, s *Stream, jobs []Job, o Options) ([]Result, error) {
	for _, j := range jobs {
		if j.Policy.NeedsFuture() {
			return nil, ErrNeedsWholeTrace
		}
	}
	if err := errors.Join(tryJobs(jobs), o.tryTimed(s.Info().PageSize)); err != nil {
		return nil, err
	}
	pages := s.expectPages()
	bounds := newBounds(jobs, pages, o.Bound)
	var runs []*run
	var work []func(*Block) error
	for _, j := range jobs {
		r, err := newRun(j, pages, nil)
		if err != nil {
			return nil, err
		}
		if err := r.time(o, s.Info().PageSize); err != nil {
			return nil, err
		}
		runs, work = append(runs, r), append(work, r.runBlock)
	}
	for _, b := range bounds.list {
		work = append(work, func(blk *Block) error {
			b.Run(blk.Accesses, blk.Pages)
			return nil
		})
	}
	info, err := newPass(work, o).all(ctx, s)
	length := info.Accesses + info.Prefetches
	if err != nil {
		length = 1<<64 - 1 // nobody has reached the end
	}
	results, passErr := make([]Result, len(jobs)), err
	for i, r := range runs {
		res, resErr := r.resultTimed(passErr)
		if err == nil {
			err = resErr
		}
		results[i] = res
		results[i].finish(jobs[i], info, bounds, o, length)
	}
	return results, err
}

// shared is a block that several workers run; the last one hands it back.
type shared struct {
	Block
	pending atomic.Int32
}

// pass is one ReplayStream in progress: the reader fills free blocks and gives
// each to every worker.
type pass struct {
	o       Options
	work    []func(*Block) error
	queues  []chan *shared // one a worker; each has room for all blocks
	free    chan *shared
	running chan struct{} // bounds the workers that run at the same time
	wait    sync.WaitGroup
	failed  chan error // the first failure of each worker
}

func newPass(work []func(*Block) error, o Options) *pass {
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	p := &pass{o: o, work: work, free: make(chan *shared, streamBlocks),
		running: make(chan struct{}, workers), failed: make(chan error, len(work))}
	for range streamBlocks {
		p.free <- new(shared)
	}
	return p
}

// all reads and runs the whole trace and describes what was read.
func (p *pass) all(ctx context.Context, s *Stream) (TraceInfo, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, w := range p.work {
		q := make(chan *shared, streamBlocks)
		p.queues = append(p.queues, q)
		p.wait.Go(func() { p.consume(ctx, cancel, q, w) })
	}
	info, err := p.read(ctx, s)
	for _, q := range p.queues {
		close(q)
	}
	p.wait.Wait()
	select {
	case failure := <-p.failed:
		return info, failure // the reader saw only that ctx ended
	default:
		return info, err
	}
}

// read fills free blocks until the trace or ctx ends.
func (p *pass) read(ctx context.Context, s *Stream) (info TraceInfo, err error) {
	for {
		if err := ctx.Err(); err != nil { // a free block may be there as well
			return info, err
		}
		select {
		case <-ctx.Done():
			return info, ctx.Err()
		case b := <-p.free:
			err := s.Next(&b.Block, streamBlock)
			if err == io.EOF && s.Info().Accesses == 0 {
				return info, errNoAccess
			}
			if err == io.EOF {
				return info, nil
			}
			if err != nil {
				return info, err
			}
			info = s.Info()
			p.give(b)
			if p.o.Progress != nil {
				p.o.Progress(info.Accesses, 0)
			}
		}
	}
}

// give queues b for every worker; the queues have room for all blocks.
func (p *pass) give(b *shared) {
	b.pending.Store(int32(len(p.queues)))
	for _, q := range p.queues {
		q <- b
	}
}

// consume runs one worker's blocks. When ctx ends it hands the rest back
// unseen.
func (p *pass) consume(ctx context.Context, cancel context.CancelFunc, q <-chan *shared, work func(*Block) error) {
	for b := range q {
		p.running <- struct{}{}
		if ctx.Err() == nil {
			if err := work(&b.Block); err != nil {
				p.failed <- err // at most one: the context ends with it
				cancel()
			}
		}
		<-p.running
		if b.pending.Add(-1) == 0 {
			p.free <- b
		}
	}
}

// runBlock runs b after making room for its pages.
func (r *run) runBlock(b *Block) error {
	if err := r.machine.Grow(b.Pages); err != nil {
		return err
	}
	if len(b.Requests) > 0 {
		if r.prefix == nil {
			r.prefix = newPrefixCounter(nil)
		}
		r.prefix.add(b.Requests, r.machine.Position())
		r.machine.OnMiss(r.prefix.watch(), r.prefix.miss)
	}
	r.accesses(b.Pages)(b.Accesses)
	return nil
}
