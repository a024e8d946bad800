package tritier

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/volume"
	"github.com/tritier/tritier/tier/host"
)

// tier3 is host.Tier3 over a volume. The slots of T2 are memory that the drives
// reach themselves.
type tier3 struct {
	v       *volume.Volume
	q       *volume.Queue
	slots   *volume.Memory
	page    int
	timeout time.Duration
	resets  *atomic.Uint64 // by reset: those that others ask for they count themselves
	mu      sync.RWMutex   // guards arrays
	arrays  map[int]namedArray
}

type namedArray struct {
	name string
	*volume.Array
}

// queueDepth is the number of commands in flight on each drive.
const queueDepth = 128

func newTier3(v *volume.Volume, slots []byte, timeout time.Duration, resets *atomic.Uint64) (*tier3, error) {
	q, err := v.OpenQueue(queueDepth)
	if err != nil {
		return nil, err
	}
	m, err := v.Map(slots)
	if err != nil {
		return nil, joinClose(fmt.Errorf("t2: the drives cannot reach it: %w", err), q.Close)
	}
	return &tier3{v: v, q: q, slots: m, page: v.PageSize(), timeout: timeout, resets: resets, arrays: map[int]namedArray{}}, nil
}

// Drive is the number of the drive that has a page, as the volume stripes: host.Tier3.
func (t *tier3) Drive(array int, page uint64) int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	a := t.arrays[array].Array
	if a == nil {
		return 0
	}
	return int((a.Info().First + page) % uint64(len(t.v.Members())))
}

// Start begins requests: host.Tier3.
func (t *tier3) Start(list []host.Request) (host.Pending, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	reqs := make([]volume.Request, len(list))
	for i := range list {
		r := &list[i]
		a := t.arrays[r.Array].Array
		if a == nil {
			return nil, fmt.Errorf("array %d is not open", r.Array)
		}
		reqs[i] = volume.Request{Array: a, Page: r.Page, Write: r.Write, Mem: t.slots, Offset: int(r.Slot) * t.page}
	}
	b, err := t.q.Start(reqs, t.timeout)
	if err != nil {
		for i := range list {
			list[i].Late = held(err)
		}
		return nil, err
	}
	return &pending{t, b, reqs, list}, nil
}

// pending is a batch on its way.
type pending struct {
	t    *tier3
	b    *volume.Batch
	reqs []volume.Request
	list []host.Request
}

// Wait polls until the batch is done: host.Pending. A drive that does not end its
// requests by their time is reset, which ends them.
func (p *pending) Wait(ctx context.Context) error {
	// Errors of pages are in the requests; one of Wait's own says that their memory
	// is still in use.
	err := p.t.q.Wait(ctx, p.b)
	if err != nil && !p.b.Done() {
		if r := p.t.reset(ctx); r != nil {
			return errors.Join(err, r)
		}
		if err = p.t.q.Wait(ctx, p.b); err != nil && !p.b.Done() {
			return err
		}
	}
	for i := range p.reqs {
		p.list[i].Err, p.list[i].Late = p.reqs[i].Err, late(p.reqs[i].Err)
	}
	return nil
}

// late says whether a request that ended so may still be carried out, or keeps others
// from its page because an earlier one may. A controller that has failed, or is not ready
// any more, answers nothing either, and does so again only after a reset.
func late(err error) bool {
	var timeout *libnvm.TimeoutError
	var fatal *libnvm.ControllerFatalError
	var unready *libnvm.NotReadyError
	var fenced *volume.FencedPageError
	return errors.As(err, &timeout) || errors.As(err, &fatal) || errors.As(err, &unready) || errors.As(err, &fenced)
}

// Recover resets the drives, so that nothing of earlier requests can land any more.
func (t *tier3) Recover(ctx context.Context) error {
	if err := t.v.Recover(ctx); err != nil {
		return fmt.Errorf("the drives could not be reset after a time-out: %w", err)
	}
	return nil
}

// Flush makes writes durable: host.Tier3. A drive that does not answer is reset, and
// asked once more.
func (t *tier3) Flush(ctx context.Context) error {
	err := t.v.FlushContext(ctx)
	if err == nil || ctx.Err() != nil || !held(err) {
		return err
	}
	if r := t.reset(ctx); r != nil {
		return errors.Join(err, r)
	}
	return t.v.FlushContext(ctx)
}

// reset is a Recover of this end's own accord, and counts it, if it succeeds.
func (t *tier3) reset(ctx context.Context) error {
	err := t.Recover(ctx)
	if err == nil {
		t.resets.Add(1)
	}
	return err
}

// held says whether an operation of the store itself timed out, or is not begun
// because an earlier one did and may still land.
func held(err error) bool {
	var unknown *volume.DurabilityError
	return late(err) || errors.Is(err, volume.ErrHeld) || errors.As(err, &unknown)
}

func (t *tier3) add(id int, name string, a *volume.Array) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.arrays[id] = namedArray{name, a}
}

// forget closes the array.
func (t *tier3) forget(id int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.arrays[id]
	delete(t.arrays, id)
	return a.Close()
}

func (t *tier3) name(id int) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.arrays[id].name
}

// close gives everything back, and closes the store in between by closeStore. A drive
// that may still use the slots is reset first; if that fails, the end of its controller
// ends that too. all says that nothing stays open and that no drive uses the slots, whatever
// the store complains of.
func (t *tier3) close(closeStore func() error) (all bool, err error) {
	err = t.freed()
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), t.timeout)
		defer cancel()
		_ = t.reset(ctx) // whether it helped is seen next
		err = t.freed()
	}
	if t.q != nil {
		return false, err // a batch has not ended
	}
	all, err = closed(closeStore)
	if !all || t.slots == nil {
		return all, err
	}
	if failed := t.slots.Free(); failed != nil {
		return false, errors.Join(err, failed)
	}
	t.slots = nil
	return true, err
}

// closed closes a store, and says whether it is closed: one that could not write its own last
// words is, and says nothing of them when it is closed again.
func closed(closeStore func() error) (bool, error) {
	if err := closeStore(); err != nil {
		return closeStore() == nil, err
	}
	return true, nil
}

// freed closes what is still open, as far as it goes.
func (t *tier3) freed() error {
	if t.q != nil {
		t.q.Poll() // takes what a reset has ended
		if err := t.q.Close(); err != nil {
			return err
		}
		t.q = nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, a := range t.arrays {
		if err := a.Close(); err != nil {
			return err
		}
		delete(t.arrays, id)
	}
	if t.slots != nil {
		if err := t.slots.Free(); err != nil {
			return err
		}
		t.slots = nil
	}
	return nil
}
