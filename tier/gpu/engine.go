package gpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/tier/layout"
)

// Engine is three tiers that kernels run.
type Engine struct {
	o      Options
	ctx    *cuda.Context
	io     *bamio.Engine
	k      *kernels
	stream *cuda.Stream
	look   look
	frames *cuda.DeviceMemory
	memory []*cuda.DeviceMemory // every table
	block  *cuda.DeviceMemory   // layout.Engine, for kernels of others
	batch  *cuda.DeviceMemory   // the same for batch calls, which can be asked to end alone
	shared *cuda.HostMemory     // see shared_unsafe.go
	stage  *cuda.HostMemory     // values of batch calls from ordinary memory
	index  *cuda.HostMemory     // their indices
	dev    layout.Engine
	reuse  *refresher // nil without gmt-reuse
	record *recorder  // nil when nobody observes
	tell   *teller    // nil when nobody listens to events
	moves  [2]MoveChoice
	mover  layout.Mover // as kernels have it at first
	attend *attendant   // nil when kernels move pages both ways

	mu      gate // guards stream, look, stage, index, the report, and the rest
	closed  bool
	retired bool           // by a Salvage, or the last flush: batch calls are refused
	retried uint64         // accesses of batch calls that were made again
	late    []late         // kernels that did not end when they were asked to
	stopped bool           // kernels were asked to end, and not yet resumed
	held    map[uint64]int // pins of pages by Pin
}

// ErrClosed is what a closed Engine answers.
var ErrClosed = errors.New("the GPU engine is closed")

// stageBytes is the size of each half of the stage of engines to come: a multiple of
// every page's.
var stageBytes = 8 << 20

const (
	indexLength = 1 << 16
	openWithin  = time.Minute // for what kernels find at first, of gigabytes, beside kernels of others
)

// Open allocates the tiers and sets the tables up, every page in T3. ctx bounds the
// opening. A *PolicyError says that kernels cannot run the policy.
func Open(ctx context.Context, o Options) (*Engine, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("gpu engine: %w", err)
	}
	d, err := o.decide()
	if err != nil {
		return nil, err
	}
	e := &Engine{held: map[uint64]int{}, o: o, ctx: o.GPU, mu: newGate()}
	if err := e.open(ctx, d); err != nil {
		return nil, errors.Join(err, e.release())
	}
	return e, nil
}

func (e *Engine) open(ctx context.Context, d decision) (err error) {
	o := &e.o
	if err := e.chooseMoves(); err != nil {
		return err
	}
	requests := -1
	if e.attend != nil {
		requests = moveRing
	}
	if e.io, err = bamio.Open(ctx, bamio.Options{GPU: o.GPU, Drives: o.Drives, Queues: o.Queues, Buffers: o.T2 + o.Spares,
		BufferBytes: o.PageSize, HostPayload: true, Requests: requests, Deadline: o.Deadline}); err != nil {
		return err
	}
	if e.k, err = loadKernels(e.ctx); err != nil {
		return err
	}
	if e.stream, err = e.ctx.NewStream(); err != nil {
		return err
	}
	if err = e.look.open(e.ctx); err != nil {
		return err
	}
	for _, m := range []struct {
		to    **cuda.HostMemory
		bytes uint64
	}{{&e.shared, sharedBytes}, {&e.stage, uint64(2 * stageBytes)}, {&e.index, 8 * indexLength}} {
		if *m.to, err = e.ctx.AllocHost(m.bytes, 0); err != nil {
			return err
		}
	}
	clear(e.shared.Bytes())
	if o.Observe != nil {
		if e.record, err = newRecorder(e.ctx, o.Observe); err != nil {
			return err
		}
	}
	if o.Events != nil {
		if e.tell, err = newTeller(e.ctx, o); err != nil {
			return err
		}
	}
	if e.frames, err = e.ctx.Alloc(uint64(o.Frames) * uint64(o.PageSize)); err != nil {
		return fmt.Errorf("t1 of %d frames of %d bytes: %w", o.Frames, o.PageSize, err)
	}
	if err := e.fill(d); err != nil {
		return err
	}
	if err := e.putBlocks(); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, max(o.Deadline, openWithin))
	defer cancel()
	if err := e.stream.Wait(bounded); err != nil {
		return err
	}
	if d.reuse != nil {
		e.reuse = startRefresher(e.shared, d.reuse, o.Parity)
	}
	if e.record != nil {
		e.record.start()
	}
	if e.tell != nil {
		return e.tell.start(bounded, e.k, e.ctx)
	}
	return nil
}

// fill sets the tables up and describes them in e.dev.
func (e *Engine) fill(d decision) error {
	o := &e.o
	slots := o.T2 + o.Spares
	e.dev = layout.Engine{
		Version: layout.TierVersion, PageShift: uint32(bits.TrailingZeros(uint(o.PageSize))), T1Policy: d.t1, Placer: d.placer,
		Pages: o.Pages, Frames: uint32(o.Frames), T2Frames: uint32(o.T2), Slots: uint32(slots), LogSize: logSize(o.T2+o.Spares) + moveSlack,
		FrameMemory: uint64(e.frames.Ptr()), SlotMemory: uint64(e.io.PayloadPtr()),
		Seed: o.Seed, RandomBelow: d.below, DeadlineNS: uint64(o.Deadline), PinDeadlineNS: uint64(o.PinDeadline),
		Stop: uint64(e.io.StopPtr()),
	}
	hot := layout.Hot{FreeFrames: layout.ChainEnd, LostFrames: layout.ChainEnd, LostSlots: layout.ChainEnd}
	for i := range hot.FreeSlots {
		hot.FreeSlots[i].Head = uint64(chain(i, slots))
	}
	if d.reuse != nil {
		p := d.reuse.Report().Params
		hot.SampleGate = ^uint64(0)
		if o.Parity {
			e.dev.Parity, hot.SampleGate = 1, fitEvery(d.reuse)
		}
		e.dev.Samples, e.dev.Mailbox, e.dev.SampleCount = e.sharedPtr(samplesAt), e.sharedPtr(mailboxAt), sampleCount
		e.startMailbox(hot.SampleGate, p)
	}
	put := func(to *uint64, data []byte) error { return e.table(to, uint64(len(data)), data) }
	err := errors.Join(
		e.describeMoves(),
		e.markPages(d),
		put(&e.dev.FrameOwner, words(o.Frames, func(int) uint32 { return layout.None })),
		put(&e.dev.SlotOwner, words(slots, func(i int) uint32 { return layout.FreeMark | chain(i+layout.Stripes, slots) })),
		e.table(&e.dev.SlotOrder, 4*uint64(slots), nil),
		e.table(&e.dev.Fenced, 4*fencedWords(o.Pages), nil),
		e.table(&e.dev.Fences, 8*uint64(slots), nil),
		e.table(&e.dev.Log, 4*uint64(e.dev.LogSize), nil),
		e.stripes(),
		put(&e.dev.Moves, encode(make([]layout.Moves, layout.MoveStripes))),
		put(&e.dev.Counts, encode(layout.Counts{})),
		put(&e.dev.Hot, encode(hot)),
		put(&e.dev.Store, encode(layout.DriveLayout{BamIO: uint64(e.io.Ptr()), BaseLBA: o.Offset / uint64(e.blockSize()),
			Drives: uint32(len(o.Drives)), Blocks: uint32(o.PageSize / e.blockSize())})),
	)
	if e.tell != nil {
		err = errors.Join(err, put(&e.dev.Events, encode(e.tell.log())))
	}
	if d.keep {
		err = errors.Join(err, put(&e.dev.Copies, words(o.Frames, func(int) uint32 { return layout.None })))
	}
	if err != nil || d.reuse == nil {
		return err
	}
	p := params(d.reuse.Report().Params)
	return errors.Join(e.table(&e.dev.Reuse, 16*o.Pages, nil), put(&e.dev.ReuseState, encode([2]layout.ReuseParams{p, p})),
		e.table(&e.dev.StarveBits, 4*uint64(p.Window/32+1), nil))
}

func chain(next, n int) uint32 {
	if next < n {
		return uint32(next)
	}
	return layout.ChainEnd
}

// logSize holds T2's order twice.
func logSize(t2 int) uint32 { return uint32(max(2*t2, 2)) }

func words(n int, f func(int) uint32) []byte {
	b := make([]byte, 0, 4*n)
	for i := range n {
		b = binary.LittleEndian.AppendUint32(b, f(i))
	}
	return b
}

// encode is a struct of package layout as the device sees it: its fields have no
// padding between them that is not declared.
func encode(v any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		return nil // a type of fixed size always encodes
	}
	return b
}

// table allocates a table, zeroed or filled with data.
func (e *Engine) table(to *uint64, bytes uint64, data []byte) error {
	m, err := e.ctx.Alloc(max(bytes, 16))
	if err != nil {
		return fmt.Errorf("a table of %d bytes: %w", bytes, err)
	}
	e.memory = append(e.memory, m)
	*to = uint64(m.Ptr())
	if data == nil {
		return e.stream.Memset8(m.Ptr(), 0, max(bytes, 16))
	}
	return e.stream.CopyToDevice(m.Ptr(), data)
}

// stripes makes those of the virtual time, aligned to their size: a hit finds one by bits
// of its element's address (hit.cuh).
func (e *Engine) stripes() error {
	const size = layout.Stripes * layout.StripeBytes
	err := e.table(&e.dev.Stripes, 2*size, nil)
	e.dev.Stripes = (e.dev.Stripes + size - 1) &^ (size - 1)
	return err
}

func (e *Engine) putBlocks() error {
	batch := e.dev
	batch.Stop, batch.GiveUp = e.sharedPtr(reportAt+reportStopAt), 1
	for _, x := range []struct {
		to  **cuda.DeviceMemory
		dev layout.Engine
	}{{&e.block, e.dev}, {&e.batch, batch}} {
		b := encode(x.dev)
		var at uint64
		if err := e.table(&at, uint64(len(b)), b); err != nil {
			return err
		}
		*x.to = e.memory[len(e.memory)-1]
	}
	return nil
}

func (e *Engine) blockSize() int { return e.io.Drives()[0].BlockSize }

// Ref is an array for kernels: length elements of 1<<shift bytes from page first on.
func (e *Engine) Ref(first, length uint64, shift uint8, name string) (layout.ArrayRef, error) {
	page := uint64(e.o.PageSize)
	switch {
	case shift > 4:
		return layout.ArrayRef{}, fmt.Errorf("elements of %d bytes: kernels take 1, 2, 4, 8 and 16", 1<<shift)
	case length == 0 || length > (1<<63)>>shift || first >= e.o.Pages || (length<<shift+page-1)/page > e.o.Pages-first:
		return layout.ArrayRef{}, fmt.Errorf("%d elements of %d bytes from page %d on leave the %d pages", length, 1<<shift, first, e.o.Pages)
	}
	ref := layout.ArrayRef{Version: layout.TierVersion, ElementShift: shift, PageShift: uint8(e.dev.PageShift), Engine: uint64(e.block.Ptr()),
		Entries: e.dev.Entries, FrameMemory: e.dev.FrameMemory, FirstPage: uint32(first), Nowhere: uint32(e.o.Pages), Length: length, Name: xxhash.Sum64String(name), Stripes: e.dev.Stripes}
	if e.dev.T1Policy == layout.T1Clock {
		ref.Flags = layout.Touches
	}
	return ref, nil
}

// IO is the engine of queues and drives, for its path, statistics and dump.
func (e *Engine) IO() *bamio.Engine { return e.io }

// Close ends the engine; dirty pages are lost unless Flush came before. When kernels
// still run nothing is freed, and Close can be called again. Of who is told of accesses or
// events it waits for Options.Deadline at most: after an ErrObserver the Engine is closed.
func (e *Engine) Close() error {
	_ = e.mu.enter(context.Background()) // cannot fail
	defer e.mu.leave()
	if e.closed {
		return nil
	}
	return e.release()
}

// Closed says whether Close has ended the engine, which it can have done with an error.
func (e *Engine) Closed() bool {
	_ = e.mu.enter(context.Background()) // cannot fail
	defer e.mu.leave()
	return e.closed
}

// release gives everything back, first what kernels might still use. Once they cannot,
// the engine is closed, whatever the rest says.
func (e *Engine) release() error {
	if e.attend != nil {
		if err := e.attend.stop(); err != nil {
			return err
		}
	}
	var errs []error
	if e.io != nil {
		err := e.io.Close()
		var busy *bamio.BusyError
		var held *bamio.HeldError
		if errors.As(err, &busy) || errors.As(err, &held) {
			return err
		}
		errs = append(errs, err) // of a single step: the rest was done
	}
	e.closed = true
	if e.reuse != nil {
		e.reuse.stop()
	}
	if e.attend != nil {
		errs = append(errs, e.attend.close())
	}
	if e.record != nil {
		errs = append(errs, e.record.close(e.o.Deadline))
	}
	if e.tell != nil {
		errs = append(errs, e.tell.close())
	}
	e.late = nil // the GPU is idle by now
	for _, m := range append(e.memory, e.frames) {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	for _, m := range []*cuda.HostMemory{e.shared, e.stage, e.index} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	errs = append(errs, e.look.close())
	if e.stream != nil {
		errs = append(errs, e.stream.Close())
	}
	if e.k != nil {
		errs = append(errs, e.k.Close())
	}
	return errors.Join(errs...)
}
