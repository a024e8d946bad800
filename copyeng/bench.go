package copyeng

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Sample is what repeated runs of one copy took: the time from before the call
// that starts it until the host sees it done.
type Sample struct {
	Path   Path
	Chosen bool // by the chooser, not forced
	Runs   []time.Duration
}

// Median is the middle run; 0 without runs.
func (s *Sample) Median() time.Duration { return s.quantile(0.5) }

// Spread is the run at one tenth and at nine tenths of all, sorted by time.
func (s *Sample) Spread() (low, high time.Duration) { return s.quantile(0.1), s.quantile(0.9) }

func (s *Sample) quantile(f float64) time.Duration {
	if len(s.Runs) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.Runs))
	return sorted[int(f*float64(len(sorted)-1)+0.5)]
}

// Bench measures copies of a GPU engine: scattered pages over two spaces of its
// own, page numbers drawn anew for each run. One goroutine at a time.
type Bench struct {
	gpu    *GPU
	queue  *gpuQueue
	host   *Space
	device *Space
	check  *Space // host memory that device pages are read back to
	rng    *rand.Rand
	seed   uint64
	order  []uint32 // scratch: the page numbers of a draw
	closed bool
}

// NewBench allocates size bytes of pinned host memory and of device memory, a
// multiple of 4 MiB up to 64 GiB, and up to 64 MiB of host memory more for
// verification. ctx can end that, as memory takes a while to be pinned.
func NewBench(ctx context.Context, g *GPU, size uint64, seed uint64) (*Bench, error) {
	if g == nil {
		return nil, errors.New("bench of copies: no GPU engine to measure")
	}
	if err := checkBenchSize(size); err != nil {
		return nil, fmt.Errorf("bench of copies: %w", err)
	}
	b := &Bench{gpu: g, rng: rand.New(rand.NewPCG(seed, 0x7472697469657200)), seed: seed}
	err := b.open(ctx, size)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bench of copies: %w", err), b.Close())
	}
	return b, nil
}

func (b *Bench) open(ctx context.Context, size uint64) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	s, err := b.gpu.ctx.NewStream()
	if err != nil {
		return err
	}
	if b.queue, err = b.gpu.queue(s, true); err != nil {
		return errors.Join(err, s.Close())
	}
	if b.host, err = b.gpu.AllocateHostProgress(ctx, size, nil); err != nil {
		return err
	}
	if b.device, err = b.gpu.Allocate(size); err != nil {
		return err
	}
	if b.check, err = b.gpu.AllocateHost(min(size, verifyBytes)); err != nil {
		return err
	}
	for at := uint64(0); at < size; at += benchUnit {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b.scramble(b.host.bytes[at:][:benchUnit])
	}
	return b.fillDevice(ctx)
}

// Close waits for copies in flight, for at most 30 seconds, and frees what the
// bench allocated. After an error of that wait the memory stays, and Close can
// be called again. Closing twice does nothing.
func (b *Bench) Close() error {
	if b.queue != nil {
		if err := b.queue.Close(); err != nil {
			return err // copies may be in flight: the memory stays theirs
		}
	}
	b.closed = true
	var errs []error
	for _, s := range []*Space{b.host, b.device, b.check} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// scramble fills memory with data that no two pages share.
func (b *Bench) scramble(mem []byte) { scramble(mem, b.rng.Uint64()) }

// fillDevice gives the device the host's contents, by plain copies.
func (b *Bench) fillDevice(ctx context.Context) error {
	if err := b.queue.memcpy(&Batch{Dir: ToDevice, Host: b.host, Device: b.device, PageSize: MaxPage, Pairs: straight(b.host.size / MaxPage)}); err != nil {
		return err
	}
	return b.wait(ctx)
}

// straight pairs page i with page i.
func straight(n uint64) []Pair {
	p := make([]Pair, n)
	for i := range p {
		p[i] = Pair{uint32(i), uint32(i)}
	}
	return p
}

// wait polls without a pause: the naps of Queue.Wait, up to a thirtieth of a
// long wait, are not the path's.
func (b *Bench) wait(ctx context.Context) error {
	start := time.Now()
	for {
		done, err := b.queue.stream.Query()
		switch {
		case done || err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Since(start) > closeWait:
			return fmt.Errorf("bench of copies: nothing came of the last copy for %v", closeWait)
		}
	}
}

// fits says whether n pages of a size have room, at most half of the spaces so
// that they lie scattered.
func (b *Bench) fits(page, n int) bool { return uint64(n) <= b.host.size/2/uint64(page) }

// draw picks n distinct pages of each space.
func (b *Bench) draw(page, n int) []Pair {
	pairs := make([]Pair, n)
	total := int(b.host.size / uint64(page))
	for i, v := range b.distinct(total, n) {
		pairs[i].Host = v
	}
	for i, v := range b.distinct(total, n) {
		pairs[i].Device = v
	}
	return pairs
}

// distinct is a partial Fisher-Yates shuffle of 0..total-1.
func (b *Bench) distinct(total, n int) []uint32 {
	if len(b.order) != total {
		b.order = make([]uint32, total)
		for i := range b.order {
			b.order[i] = uint32(i)
		}
	}
	for i := range n {
		j := i + b.rng.IntN(total-i)
		b.order[i], b.order[j] = b.order[j], b.order[i]
	}
	return b.order[:n]
}

// Cell measures one direction, page size and number of pages by several paths;
// the empty path asks the chooser. Runs of the paths alternate, so that a
// disturbance hits all alike. Each path is verified once, on fresh pages. A shape
// that does not fit twice into the bench's memory, and a path that does not go
// that way on this GPU, is an error before anything is copied.
func (b *Bench) Cell(ctx context.Context, dir Direction, page, n int, paths []Path, runs int) ([]Sample, error) {
	if dir > ToHost {
		return nil, fmt.Errorf("bench of copies: direction %d is neither ToDevice nor ToHost", dir)
	}
	if err := b.checkShape(page, n, 1); err != nil {
		return nil, err
	}
	if err := errors.Join(checkRuns(runs), b.checkPaths(dir, paths)); err != nil {
		return nil, err
	}
	batch := Batch{Dir: dir, Host: b.host, Device: b.device, PageSize: page}
	out := make([]Sample, len(paths))
	for i, p := range paths {
		out[i] = Sample{Path: p, Chosen: p == ""}
		if p == "" {
			out[i].Path = b.gpu.choose(dir, page, n).Path
		}
		if err := b.verify(ctx, batch, out[i].Path, n); err != nil {
			return nil, err
		}
	}
	for range runs {
		for i := range out {
			batch.Pairs = b.draw(page, n)
			took, err := b.time(ctx, func() error { return b.run(&batch, &out[i]) })
			if err != nil {
				return nil, err
			}
			out[i].Runs = append(out[i].Runs, took)
		}
	}
	return out, nil
}

// run starts a batch the way a caller would: through the chooser, or forced.
func (b *Bench) run(batch *Batch, s *Sample) error {
	if s.Chosen {
		_, err := b.queue.Copy(batch)
		return err
	}
	return b.queue.force(s.Path, batch)
}

func (b *Bench) time(ctx context.Context, f func() error) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, context.Cause(ctx)
	}
	start := time.Now()
	if err := f(); err != nil {
		return 0, err
	}
	err := b.wait(ctx)
	took := time.Since(start)
	if err == nil {
		err = b.queue.Wait(ctx) // tells the errors of side streams
	}
	return took, err
}

// Exchange measures n pages each way at once, by several paths of exchanges;
// the empty path asks the chooser. It refuses what Cell does.
func (b *Bench) Exchange(ctx context.Context, page, n int, paths []Path, runs int) ([]Sample, error) {
	if err := b.checkShape(page, n, 2); err != nil {
		return nil, err
	}
	if err := errors.Join(checkRuns(runs), b.checkPaths(bothWays, paths)); err != nil {
		return nil, err
	}
	out := make([]Sample, len(paths))
	for i, p := range paths {
		out[i] = Sample{Path: p, Chosen: p == ""}
	}
	for range runs + 1 { // the first warms up
		for i := range out {
			pairs := b.draw(page, 2*n)
			in := Batch{Dir: ToDevice, Host: b.host, Device: b.device, PageSize: page, Pairs: pairs[:n]}
			back := Batch{Dir: ToHost, Host: b.host, Device: b.device, PageSize: page, Pairs: pairs[n:]}
			took, err := b.time(ctx, func() error { return b.runExchange(&in, &back, &out[i]) })
			if err != nil {
				return nil, err
			}
			out[i].Runs = append(out[i].Runs, took)
		}
	}
	for i := range out {
		out[i].Runs = out[i].Runs[1:]
	}
	return out, nil
}

func (b *Bench) runExchange(in, out *Batch, s *Sample) error {
	if s.Chosen {
		c, err := b.queue.Exchange(in, out)
		s.Path = c.Path
		return err
	}
	if s.Path == PathSequential {
		_, err := b.queue.Copy(out)
		if err == nil {
			_, err = b.queue.Copy(in)
		}
		return err
	}
	return b.queue.exchange(s.Path, in, out)
}
