package sim

import (
	"context"
	"errors"
	"io"
)

// ErrNeedsWholeTrace means that a policy looks into the future (belady), so
// that it cannot run over a stream.
var ErrNeedsWholeTrace = errors.New("sim: belady needs the whole trace in memory: leave it out, or do not stream")

// streamBlock is how many accesses every job runs before the stream moves on:
// large enough that a job's tables stay in the cache over most of it, small
// enough that reading and running overlap on short traces too.
const streamBlock = 1 << 16

// ReplayStream runs jobs over a trace of any length in one pass. Memory
// depends on the distinct pages and frames, not on the trace's length. While
// the jobs run over one block the next one is read. When ctx ends it returns
// the results so far and ctx's error, as Replay does; likewise when the trace
// turns out to be faulty.
func ReplayStream(ctx context.Context, s *Stream, jobs []Job, o Options) ([]Result, error) {
	for _, j := range jobs {
		if j.Policy.NeedsFuture() {
			return nil, ErrNeedsWholeTrace
		}
	}
	if err := tryJobs(jobs); err != nil {
		return nil, err
	}
	p := &pass{stream: s, bounds: newBounds(jobs, o.Bound), o: o}
	for _, j := range jobs {
		r, err := newRun(j, 0, nil)
		if err != nil {
			return nil, err
		}
		p.runs = append(p.runs, r)
	}
	err := p.all(ctx)
	results := make([]Result, len(jobs))
	for i, r := range p.runs {
		results[i] = r.result()
		results[i].finish(jobs[i], p.info, p.bounds, o, p.length(err))
	}
	return results, err
}

// pass is one ReplayStream in progress.
type pass struct {
	stream *Stream
	runs   []*run
	bounds bounds
	info   TraceInfo // of the blocks run
	o      Options
}

// length is what every run must have reached to be complete.
func (p *pass) length(err error) uint64 {
	if err != nil {
		return 1<<64 - 1
	}
	return p.info.Accesses + p.info.Prefetches
}

// filled is a block, the trace's description at its end, and the error that
// came instead.
type filled struct {
	block *Block
	info  TraceInfo
	err   error
}

// all reads and runs the blocks, with two of them in flight.
func (p *pass) all(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	free, full := make(chan *Block, 2), make(chan filled, 2)
	free <- new(Block)
	free <- new(Block)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.read(ctx, free, full)
	}()
	err := p.consume(ctx, free, full)
	cancel()
	<-done // the reader is not used any more when ReplayStream returns
	if err == io.EOF {
		if p.info.Accesses == 0 {
			return errNoAccess
		}
		return nil
	}
	return err
}

// read fills free blocks until the trace or ctx ends. Both channels have room
// for every block, so that sends do not wait.
func (p *pass) read(ctx context.Context, free <-chan *Block, full chan<- filled) {
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-free:
			err := p.stream.Next(b, streamBlock)
			full <- filled{block: b, info: p.stream.Info(), err: err}
			if err != nil {
				return
			}
		}
	}
}

func (p *pass) consume(ctx context.Context, free chan<- *Block, full <-chan filled) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f := <-full:
			if f.err != nil {
				return f.err
			}
			if err := p.runBlock(f.block); err != nil {
				return err
			}
			p.info = f.info
			if p.o.Progress != nil {
				p.o.Progress(p.info.Accesses, 0)
			}
			free <- f.block
		}
	}
}

// runBlock runs every job and bound over b.
func (p *pass) runBlock(b *Block) error {
	g := newGroup(p.o.Workers)
	for _, r := range p.runs {
		g.Go(func() error { return r.runBlock(b) })
	}
	for _, bound := range p.bounds.list {
		g.Go(func() error {
			bound.Run(b.Accesses, b.Pages)
			return nil
		})
	}
	return g.Wait()
}

func (r *run) runBlock(b *Block) error {
	if err := r.machine.Grow(b.Pages); err != nil {
		return err
	}
	if len(b.Requests) > 0 {
		if r.prefix == nil {
			r.prefix = newPrefixCounter(nil)
		}
		r.prefix.add(b.Requests)
		r.machine.OnMiss(r.prefix.watch(), r.prefix.miss)
	}
	r.machine.Run(b.Accesses)
	return nil
}
