package tritier

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm/volume"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/gpu"
	"github.com/tritier/tritier/tier/host"
	"github.com/tritier/tritier/tier/layout"
)

// onDevice is the GPU as orchestrator: tier/gpu over the store's drives. The engine's
// pages are the volume's.
type onDevice struct {
	cfg    *parsed
	ctx    *cuda.Context
	e      *gpu.Engine
	mu     sync.Mutex // guards arrays
	arrays []deviceArray
	known  atomic.Pointer[[]deviceArray] // a copy of arrays, for whoever must not wait for mu
	last   atomic.Pointer[gpu.Stats]     // of the closed engine
	again  atomic.Uint64                 // pages that flushes have tried again
	resets atomic.Uint64                 // of the drives, by a salvage
	saved  atomic.Uint64                 // pages that it has written
	v      *volume.Volume
	owed   error    // of a Close that was to be a salvage, and found kernels running
	rest   *salvage // that a Close has begun
}

type deviceArray struct {
	*openArray
	v     *volume.Array
	pages uint64
}

func openOnDevice(ctx context.Context, p *parsed, v *volume.Volume) (*onDevice, error) {
	l, err := v.Layout()
	if err != nil {
		return nil, fmt.Errorf("engine gpu: %w", err)
	}
	o := &onDevice{cfg: p, v: v}
	if o.ctx, err = openGPU(p.Driver, p.GPU); err != nil {
		return nil, fmt.Errorf("engine gpu: %w", err)
	}
	frames, t2, spares := p.pages()
	opts := gpu.Options{GPU: o.ctx, PageSize: int(p.PageSize), Pages: l.Pages, Offset: l.DataOffset, Frames: frames, T2: t2, Spares: spares,
		Policy: p.policy, Seed: p.Seed, Retries: max(p.Retries, 0), Deadline: p.Timeout, ObserveEvery: p.ObserveEvery, Moves: p.Moves}
	if p.Observe != nil {
		opts.Observe = o.tell
	}
	if p.Events != nil {
		opts.Events, opts.EventsEvery = o.moved, p.EventsEvery
	}
	for _, m := range v.Members() {
		n, ok := m.(volume.NVMeMember)
		if !ok {
			return nil, joinClose(fmt.Errorf("engine gpu: %s has no NVMe queues", m.Name()), o.ctx.Close)
		}
		c, ns := n.NVMe()
		opts.Drives = append(opts.Drives, bamio.Drive{Name: m.Name(), Controller: c, Namespace: ns})
	}
	if o.e, err = gpu.Open(ctx, opts); err != nil {
		return nil, joinClose(err, o.ctx.Close)
	}
	return o, nil
}

func (o *onDevice) adopt(a *openArray, v *volume.Array) error {
	if bits.OnesCount64(a.size) != 1 || a.size > 16 {
		return joinClose(fmt.Errorf("array %q: elements of %d bytes: kernels take 1, 2, 4, 8 and 16; use engine host", a.key.name, a.size), v.Close)
	}
	info := v.Info()
	a.first = info.First
	o.mu.Lock()
	defer o.mu.Unlock()
	o.arrays = append(o.arrays, deviceArray{a, v, info.Pages})
	sort.Slice(o.arrays, func(i, j int) bool { return o.arrays[i].first < o.arrays[j].first })
	o.publish()
	return nil
}

// publish renews the copy of arrays. The caller has mu.
func (o *onDevice) publish() {
	list := slices.Clone(o.arrays)
	o.known.Store(&list)
}

// tell passes accesses on to Config.Observe. It takes no lock: batches wait for it.
func (o *onDevice) tell(list []gpu.Access) {
	for _, a := range list {
		x := o.arrayOf(a.Page)
		if x == nil {
			continue // of an array that was dropped: its pages were prefetched by a kernel that has it no more
		}
		o.cfg.Observe(Access{x.key.name, a.Page - x.first, a.Op})
	}
}

// arrayOf is the array that has the engine's page, or nil. It takes no lock.
func (o *onDevice) arrayOf(page uint64) *deviceArray {
	known := o.known.Load()
	if known == nil {
		return nil
	}
	i := sort.Search(len(*known), func(i int) bool { return (*known)[i].first > page }) - 1
	if i < 0 || page-(*known)[i].first >= (*known)[i].pages {
		return nil
	}
	return &(*known)[i]
}

// eventKinds are tier/gpu's kinds as Config.Events knows them.
var eventKinds = [...]host.EventKind{gpu.EventRead: host.EventRead, gpu.EventWrite: host.EventWrite, gpu.EventDemote: host.EventDemote,
	gpu.EventPromote: host.EventPromote, gpu.EventMiss: host.EventMiss, gpu.EventFlush: host.EventSave}

// moved passes events on to Config.Events. It takes no lock.
func (o *onDevice) moved(list []gpu.Event) {
	for i := range list {
		v := &list[i]
		e := Event{Kind: eventKinds[v.Kind], Start: v.Start, Took: v.Took, Count: 1, Array: "?", Page: v.Page, Op: v.Op, Failed: v.Failed, SM: v.SM, Stripe: v.Stripe}
		if x := o.arrayOf(v.Page); x != nil {
			e.Array, e.Page = x.key.name, v.Page-x.first
		}
		if v.Kind < gpu.EventMiss {
			e.Bytes = uint64(o.cfg.PageSize)
		}
		o.cfg.Events(e)
	}
}

func (o *onDevice) traced(ctx context.Context) (Traced, error) {
	t, err := o.e.Told(ctx)
	if errors.Is(err, gpu.ErrClosed) {
		err = ErrClosed
	}
	return Traced{Told: t.Events, Begun: t.Begun, Sampled: t.Sampled, LeftOut: t.LeftOut, Cut: t.Cut, Clock: t.Clock}, err
}

func (o *onDevice) observed(ctx context.Context) (Observed, error) {
	r, err := o.e.Recorded(ctx)
	if errors.Is(err, gpu.ErrClosed) {
		err = ErrClosed
	}
	return Observed{r.Told, r.Lost}, err
}

func (o *onDevice) drop(ctx context.Context, a *openArray) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, x := range o.arrays {
		if x.openArray == a {
			if err := o.e.Forget(ctx, a.first, x.pages); errors.Is(err, gpu.ErrClosed) {
				return ErrClosed // by a Close that goes on
			} else if err != nil {
				return err
			}
			o.arrays = append(o.arrays[:i], o.arrays[i+1:]...)
			o.publish()
			return x.v.Close()
		}
	}
	return nil
}

// ref is the array as kernels take it.
func (o *onDevice) ref(a *openArray) (layout.ArrayRef, error) {
	return o.e.Ref(a.first, a.key.length, uint8(bits.TrailingZeros64(a.size)), a.key.name)
}

func deviceBuffer(b host.Buffer) gpu.Buffer {
	s, _ := b.Stream.(*cuda.Stream)
	return gpu.Buffer{Bytes: b.Bytes, Device: cuda.Ptr(b.Device), Size: b.Size, Stream: s}
}

func (o *onDevice) elements(ctx context.Context, a *openArray, op tier.Op, indices []uint64, buf host.Buffer) error {
	ref, err := o.ref(a)
	if err != nil {
		return err
	}
	return o.named(o.e.Elements(ctx, ref, op, indices, deviceBuffer(buf)), len(indices))
}

func (o *onDevice) run(ctx context.Context, a *openArray, op tier.Op, first, n uint64, buf host.Buffer) error {
	ref, err := o.ref(a)
	if err != nil {
		return err
	}
	if op != tier.Prefetch {
		return o.named(o.e.Run(ctx, ref, op, first, n, deviceBuffer(buf)), int(n/a.perPage)+1)
	}
	var heads []uint64 // one element of each page
	for done := uint64(0); done < n; done += a.take(first+done, n-done) {
		heads = append(heads, first+done)
	}
	return o.named(o.e.Elements(ctx, ref, op, heads, gpu.Buffer{}), len(heads))
}

func enginePages(a *openArray, pages []uint64) []uint64 {
	list := make([]uint64, len(pages))
	for i, p := range pages {
		list[i] = a.first + p
	}
	return list
}

func (o *onDevice) pin(ctx context.Context, a *openArray, pages []uint64) ([]int32, error) {
	frames, err := o.e.Pin(ctx, enginePages(a, pages))
	return frames, o.named(err, len(pages))
}

func (o *onDevice) unpin(a *openArray, pages []uint64, frames []int32) error {
	ctx, cancel := context.WithTimeout(context.Background(), o.cfg.Timeout)
	defer cancel()
	return o.named(o.e.Unpin(ctx, enginePages(a, pages), frames), len(pages))
}

func (o *onDevice) frames() (uint64, []byte) { return o.e.FrameMemory(), nil }

// flush tries again what failed, as often as the configuration says: what was written is
// clean by then. It does not wait for drives that are lost or owe an answer.
func (o *onDevice) flush(ctx context.Context) error { return o.flushBy(ctx, o.e.Flush) }

// flushBy is flush, by the engine's Flush or FlushLast.
func (o *onDevice) flushBy(ctx context.Context, engine func(context.Context) error) error {
	err := o.flushOnce(ctx, engine)
	for range max(o.cfg.Retries, 0) {
		var failed *FlushError
		var lost *bamio.DriveError
		if !errors.As(err, &failed) || errors.As(err, &lost) || errors.Is(err, gpu.ErrFenced) || ctx.Err() != nil {
			break
		}
		o.again.Add(uint64(failed.Failed))
		err = o.flushOnce(ctx, engine)
	}
	return err
}

// flushAnswered is the last flush, which leaves pages of which an earlier write was not answered in
// time. As long again as that was it waits for the answer, to write them then.
func (o *onDevice) flushAnswered(ctx context.Context) error {
	err := o.flushBy(ctx, o.e.FlushLast)
	for end := time.Now().Add(o.cfg.Timeout); errors.Is(err, gpu.ErrFenced) && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return err
		case <-time.After(o.cfg.Timeout / 20):
		}
		err = o.flushBy(ctx, o.e.FlushLast)
	}
	return err
}

func (o *onDevice) flushOnce(ctx context.Context, engine func(context.Context) error) error {
	err := engine(ctx)
	var failed *gpu.AccessError
	if errors.As(err, &failed) {
		return &FlushError{Failed: failed.Failed, Pages: o.pageErrors(failed, true), Err: failed.Drive}
	}
	var drives *gpu.DriveFlushError
	if errors.As(err, &drives) {
		return &FlushError{Err: explained(drives.Err, o.v.Members()...)}
	}
	if errors.Is(err, gpu.ErrClosed) {
		return ErrClosed
	}
	return err
}

func (o *onDevice) check() error {
	ctx, cancel := context.WithTimeout(context.Background(), o.cfg.Timeout)
	defer cancel()
	if err := o.e.Check(ctx); !errors.Is(err, gpu.ErrClosed) {
		return err
	}
	return ErrClosed
}

// finish flushes. What drives have not answered is written after a reset of them, by the CPU.
// What could not be written is lost only if another try would not write
// it either: not when ctx has ended, or when kernels still run or leave no room.
func (o *onDevice) finish(ctx context.Context) error {
	if o.rest != nil {
		return o.rest.write(ctx)
	}
	err := o.flushAnswered(ctx)
	if errors.Is(err, ErrClosed) && o.owed != nil { // the GPU's I/O has ended
		err = o.owed
	}
	var failed *cuda.Error
	if errors.As(err, &failed) && o.ctx.Err() == nil {
		err = o.flushBy(ctx, o.e.FlushLast) // an error that has not lost the context need not hit twice
	}
	var running *gpu.RunningError
	var hang *gpu.HangError
	if err != nil && (ctx.Err() != nil || errors.As(err, &running) || errors.As(err, &hang)) {
		return errors.Join(ErrNotClosed, err)
	}
	if unanswered(err) {
		return o.salvage(ctx, err)
	}
	return err
}

func (o *onDevice) release(closeStore func() error) (all bool, err error) {
	if s, err := o.count(); err == nil {
		o.last.Store(&s)
	}
	err = o.e.Close()
	var held *bamio.HeldError
	switch {
	case errors.As(err, &held):
		err = nil // for now
	case err != nil && !o.e.Closed():
		return false, err // kernels may still run: nothing may go
	}
	for _, a := range o.arrays {
		err = joinClose(err, a.v.Close)
	}
	o.arrays = nil
	all, failed := closed(closeStore)
	err = joinClose(errors.Join(err, failed), o.rest.free)
	if held != nil { // drives that are closed move no data any more
		again := o.e.Close()
		if err = errors.Join(err, again); !o.e.Closed() {
			return false, err
		}
	}
	return all, joinClose(err, o.ctx.Close)
}

func (o *onDevice) describe(d *Description) {
	d.Engine = "GPU-orchestrated: kernels decide, move pages and write NVMe commands; " + o.e.IO().Path().String()
	d.Moves = &Moves{ToDevice: o.moves(0), ToHost: o.moves(1)}
	d.T1.Where, d.T2.Where = "GPU memory of "+o.ctx.Device().Name(), "pinned host memory"
	for i := range d.Drives {
		d.Drives[i].Path += "; GPU threads submit, the payload passes pinned host memory"
	}
}

// middles is the time of all moves of a histogram, each taken for the middle of its
// bucket: kernels count moves and do not add up times.
func middles(h host.Histogram) (sum time.Duration) {
	for i, n := range h {
		sum += time.Duration(float64(n) * 0.75 * float64(uint64(1)<<i))
	}
	return sum
}

func (o *onDevice) count() (gpu.Stats, error) {
	ctx, cancel := context.WithTimeout(context.Background(), o.cfg.Timeout)
	defer cancel()
	return o.e.Stats(ctx)
}

func (o *onDevice) stats() Stats {
	s, err := o.count()
	if last := o.last.Load(); err != nil && last != nil {
		s = *last
	} else if err != nil {
		return Stats{}
	}
	var h host.Stats
	h.Counters, h.Flushed, h.Retries = s.Counters, s.Device.Flushed+o.saved.Load(), s.Retries+o.again.Load()
	h.Recoveries, h.Reuse = o.resets.Load(), s.Reuse
	page := uint64(o.cfg.PageSize)
	for i, n := range []uint64{s.Device.BytesT3Read, s.Device.BytesT3Write, s.Device.BytesDemoted, s.Device.BytesPromoted} {
		moves := host.Histogram(s.Moves[i])
		h.Edges[i] = host.EdgeStats{Pages: n / page, Bytes: n, Moves: moves, Time: middles(moves)}
	}
	return Stats{Stats: h, Crowded: s.Device.Crowded, Compactions: s.Device.Compactions, Compacting: time.Duration(s.Device.CompactionNS), ReuseSamples: s.Samples,
		ReuseDropped: s.Device.DroppedSamples, ReuseFits: s.Refits, Copies: copies(s.Mover.Pages, page), MovesCPU: s.Mover.CPU, MovesError: s.Mover.Last,
		MovesLost: s.Mover.Pages[layout.ToDevice][layout.Unanswered] + s.Mover.Pages[layout.ToHost][layout.Unanswered]}
}
