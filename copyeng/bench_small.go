package copyeng

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tritier/tritier/cuda"
)

// smallCounts are the numbers of pages that count as a small batch.
var smallCounts = []int{1, 2, 4, 8}

// Small is the latency of a small batch through a queue, beside that of the
// driver's own calls for the same pages: from before the call until the host
// sees the copies done.
type Small struct {
	Dir   Direction
	Page  int // bytes
	Pages int
	Queue Sample // Queue.Copy and Wait, by the path in it
	// Raw is what package cuda alone needs on a stream: a call for each page
	// (PathMemcpy) and, from two pages on and where the driver has it, one
	// call for all (PathBatch), with its arguments made before.
	Raw []Sample
}

// Best is the faster of the raw ways, an empty sample when there is none.
func (s *Small) Best() *Sample {
	if len(s.Raw) == 0 {
		return &Sample{}
	}
	best := &s.Raw[0]
	for i := range s.Raw {
		if s.Raw[i].Median() < best.Median() {
			best = &s.Raw[i]
		}
	}
	return best
}

// Excess is what the queue takes longer than the best raw way; negative when
// its path is faster than both.
func (s *Small) Excess() time.Duration { return s.Queue.Median() - s.Best().Median() }

// Small measures batches of 1, 2, 4 and 8 pages of one size, one way. Runs of
// the queue and of the raw calls alternate, on pages drawn anew each time.
func (b *Bench) Small(ctx context.Context, dir Direction, page, runs int) (list []Small, err error) {
	if dir > ToHost {
		return nil, fmt.Errorf("bench of small copies: direction %d is neither ToDevice nor ToHost", dir)
	}
	if err := errors.Join(b.checkShape(page, smallCounts[len(smallCounts)-1], 1), checkRuns(runs)); err != nil {
		return nil, fmt.Errorf("bench of small copies: %w", err)
	}
	stream, err := b.gpu.ctx.NewStream()
	if err != nil {
		return nil, fmt.Errorf("bench of small copies: %w", err)
	}
	raw := &rawCopies{bench: b, stream: stream}
	defer func() { err = errors.Join(err, raw.close()) }()
	for _, n := range smallCounts {
		s, err := b.small(ctx, raw, dir, page, n, runs)
		if err != nil {
			return nil, fmt.Errorf("bench of small copies: %d pages of %d bytes %s: %w", n, page, dir, err)
		}
		list = append(list, s)
	}
	return list, nil
}

// way is one thing to time: prepare, off the clock, then start and wait.
type way struct {
	sample  *Sample
	prepare func(*Batch)
	start   func(*Batch) error
	wait    func(context.Context) error
}

func (b *Bench) small(ctx context.Context, raw *rawCopies, d Direction, page, n, runs int) (Small, error) {
	s := Small{Dir: d, Page: page, Pages: n, Queue: Sample{Chosen: true}, Raw: make([]Sample, 1, 2)}
	s.Raw[0].Path = PathMemcpy
	ways := []way{
		{&s.Queue, func(*Batch) {}, func(x *Batch) error {
			c, err := b.queue.Copy(x)
			s.Queue.Path = c.Path
			return err
		}, b.queue.Wait},
		{&s.Raw[0], func(*Batch) {}, raw.each, raw.stream.Wait},
	}
	if n > 1 && b.gpu.usable(PathBatch) {
		s.Raw = append(s.Raw, Sample{Path: PathBatch})
		ways = append(ways, way{&s.Raw[1], raw.list, raw.all, raw.stream.Wait})
	}
	batch := Batch{Dir: d, Host: b.host, Device: b.device, PageSize: page}
	for run := range runs + 1 { // the first warms up
		for _, w := range ways {
			batch.Pairs = b.draw(page, n)
			w.prepare(&batch)
			took, err := w.time(ctx, &batch)
			if err != nil {
				return s, err
			}
			if run > 0 {
				w.sample.Runs = append(w.sample.Runs, took)
			}
		}
	}
	return s, nil
}

// time has its deadline made before the clock starts: a timer costs a tenth of
// what is measured.
func (w *way) time(ctx context.Context, b *Batch) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, closeWait)
	defer cancel()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	start := time.Now()
	if err := w.start(b); err != nil {
		return 0, err
	}
	err := w.wait(ctx)
	return time.Since(start), err
}

// rawCopies does what a program does that calls the driver itself.
type rawCopies struct {
	bench  *Bench
	stream *cuda.Stream
	calls  cuda.CopyBatch
}

// each makes one call a page.
func (r *rawCopies) each(b *Batch) error {
	if len(b.Pairs) == 1 {
		return r.one(b, b.Pairs[0])
	}
	return r.bench.gpu.ctx.Do(func() error {
		for _, p := range b.Pairs {
			if err := r.one(b, p); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *rawCopies) one(b *Batch, p Pair) error {
	shift, size := shiftOf(b), uint64(b.PageSize)
	at := cuda.Ptr(b.Device.addr).Add(uint64(p.Device) << shift)
	if b.Dir == ToDevice {
		return r.stream.CopyHtoD(at, b.Host.hostPage(p.Host, shift), size)
	}
	return r.stream.CopyDtoH(b.Host.hostPage(p.Host, shift), at, size)
}

// list makes the arguments of all.
func (r *rawCopies) list(b *Batch) {
	shift, size := shiftOf(b), uint64(b.PageSize)
	r.calls.Reset()
	for _, p := range b.Pairs {
		from, to := b.Host.addr+uint64(p.Host)<<shift, b.Device.addr+uint64(p.Device)<<shift
		if b.Dir == ToHost {
			from, to = to, from
		}
		r.calls.Add(to, from, size)
	}
}

// all makes one call for all pages.
func (r *rawCopies) all(*Batch) error { return r.stream.CopyBatch(&r.calls) }

// close waits for what an interrupted run left in the stream: it uses memory
// that the bench frees next.
func (r *rawCopies) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	return errors.Join(r.stream.Wait(ctx), r.stream.Close())
}
