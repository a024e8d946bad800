package tritier

import (
	"context"
	"fmt"
	"sync"
	"time"

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
	mu      sync.RWMutex // guards arrays
	arrays  map[int]namedArray
}

type namedArray struct {
	name string
	*volume.Array
}

// queueDepth is the number of commands in flight on each drive.
const queueDepth = 128

func newTier3(v *volume.Volume, slots []byte, timeout time.Duration) (*tier3, error) {
	q, err := v.OpenQueue(queueDepth)
	if err != nil {
		return nil, err
	}
	m, err := v.Map(slots)
	if err != nil {
		return nil, joinClose(fmt.Errorf("t2: the drives cannot reach it: %w", err), q.Close)
	}
	return &tier3{v: v, q: q, slots: m, page: v.PageSize(), timeout: timeout, arrays: map[int]namedArray{}}, nil
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

// Wait polls until the batch is done: host.Pending.
func (p *pending) Wait(ctx context.Context) error {
	// Errors of pages are in the requests; one of Wait's own says that their memory
	// is still in use.
	if err := p.t.q.Wait(ctx, p.b); err != nil && !p.b.Done() {
		return err
	}
	for i := range p.reqs {
		p.list[i].Err = p.reqs[i].Err
	}
	return nil
}

// Flush makes writes durable: host.Tier3.
func (t *tier3) Flush(context.Context) error { return t.v.Flush() }

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

func (t *tier3) close() error {
	err := t.q.Close()
	for _, a := range t.arrays {
		err = joinClose(err, a.Close)
	}
	return joinClose(err, t.slots.Free)
}
