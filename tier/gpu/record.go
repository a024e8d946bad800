package gpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/layout"
)

// Access is an access to a page, as Options.Observe is told.
type Access struct {
	Page uint64 // of the engine
	Op   tier.Op
}

// Recording is how far Options.Observe has been told.
type Recording struct {
	Told uint64 // accesses
	Lost uint64 // accesses that it was too slow for
}

// ErrObserver says that Options.Observe or Options.Events does not keep up with kernels
// that have ended.
var ErrObserver = errors.New("who is told of accesses or events has not taken them in time")

// recordCount is the length of the ring of records, and recordRoom how many of them can
// wait to be taken: the rest is for threads that have seen room at the same time, of
// which no GPU has so many. Tests make them small.
var recordCount, recordRoom uint64 = 1 << 20, 1 << 19

// recordSeed keeps the choice of recorded pages apart from other draws.
const recordSeed = 0x7265636f7264

// recorder takes the records that kernels send and tells the observer.
type recorder struct {
	ring    ring
	memory  *cuda.HostMemory
	observe func([]Access)
	list    []Access // the goroutine's
	told    atomic.Uint64
	*listening
}

func newRecorder(ctx *cuda.Context, observe func([]Access)) (*recorder, error) {
	m, err := ctx.AllocHost(recordsAt+8*recordCount, 0)
	if err != nil {
		return nil, fmt.Errorf("the ring of records: %w", err)
	}
	clear(m.Bytes())
	return &recorder{ring: ring{m.Bytes(), recordCount}, memory: m, observe: observe, list: make([]Access, 0, recordRoom/4+1), listening: newListening()}, nil
}

// describe tells kernels where the ring is, and how long they may wait for room.
func (r *recorder) describe(dev *layout.Engine) {
	at := r.memory.DevicePtr()
	dev.RecordBox, dev.Records = uint64(at), uint64(at.Add(recordsAt))
	dev.RecordCount, dev.RecordRoom, dev.RecordWaitNS = uint32(recordCount), uint32(recordRoom), dev.PinDeadlineNS/2
}

func (r *recorder) start() { r.begin(r.run) }

func (r *recorder) close(within time.Duration) error {
	return errors.Join(r.end(within), r.memory.Close())
}

// run takes what comes, and at the end what is there.
func (r *recorder) run() {
	var taken uint64
	for idle := 0; ; {
		over := false
		select {
		case <-r.done:
			over = true
		default:
		}
		r.list = r.list[:0]
		r.look(func() {
			for len(r.list) < cap(r.list) {
				a, ok := r.ring.record(taken)
				if !ok {
					break
				}
				r.list = append(r.list, a)
				taken++
			}
			if len(r.list) > 0 {
				r.ring.took(taken)
			}
		})
		if len(r.list) > 0 {
			r.observe(r.list)
			r.told.Store(taken)
			idle = 0
			continue
		}
		if over {
			return
		}
		look := busyLook
		if idle++; idle > 100 {
			look = idleLook
		}
		time.Sleep(look)
	}
}

// observed waits until the observer was told of all accesses of kernels that have ended.
func (e *Engine) observed(ctx context.Context) error {
	if e.record == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.o.Deadline)
	defer cancel()
	var hot layout.Hot
	if err := e.get(bounded, e.dev.Hot, &hot); err != nil {
		return err
	}
	for wait := busyLook; e.record.told.Load() < hot.RecordTail; wait = min(2*wait, idleLook) {
		select {
		case <-bounded.Done():
			return fmt.Errorf("%w: %d of %d within %v", ErrObserver, e.record.told.Load(), hot.RecordTail, e.o.Deadline)
		case <-time.After(wait):
		}
	}
	return nil
}

// Recorded waits until Options.Observe was told of the accesses of all kernels that have
// ended, and says how many those were. Batch calls wait by themselves. The error is
// ErrObserver when that takes longer than Options.Deadline.
func (e *Engine) Recorded(ctx context.Context) (r Recording, err error) {
	if err := e.mu.enter(ctx); err != nil {
		return r, err
	}
	defer e.mu.leave()
	if e.closed {
		return r, ErrClosed
	}
	if e.record == nil {
		return r, nil
	}
	var c layout.Counts
	err = errors.Join(e.observed(ctx), e.get(ctx, e.dev.Counts, &c))
	return Recording{e.record.told.Load(), c.LostRecords}, err
}

// markPages makes the entries of absent pages, those marked whose accesses concern the
// placer or the recorder, and says which of them concern whom. The last entry is that of
// no page: where kernels look for indices that are none (layout.ArrayRef.Nowhere).
func (e *Engine) markPages(d decision) error {
	o := &e.o
	every := uint64(max(o.ObserveEvery, 1))
	recorded := func(p uint64) bool {
		return o.Observe != nil && placement.Hash(recordSeed, 0, placement.Page(p))%every == 0
	}
	marks, both := make([]byte, 8*(o.Pages+1)), d.reuse != nil && o.Observe != nil
	var rec, obs []uint32
	if both {
		rec, obs = make([]uint32, o.Pages/32+1), make([]uint32, o.Pages/32+1)
	}
	for p := range o.Pages {
		r, s := recorded(p), d.reuse != nil && sampled(d.reuse, p)
		if r || s {
			binary.LittleEndian.PutUint64(marks[8*p:], layout.Sampled)
		}
		if both && r {
			rec[p/32] |= 1 << (p % 32)
		}
		if both && s {
			obs[p/32] |= 1 << (p % 32)
		}
	}
	put := func(to *uint64, b []byte) error { return e.table(to, uint64(len(b)), b) }
	err := put(&e.dev.Entries, marks)
	if both {
		err = errors.Join(err, put(&e.dev.Recorded, encode(rec)), put(&e.dev.Observed, encode(obs)))
	}
	if e.record != nil {
		e.record.describe(&e.dev)
	}
	return err
}
