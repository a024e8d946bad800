package host

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// ram is an Engine over ordinary memory.
type ram struct {
	page          int
	frames, slots []byte
	broken        error // of the next copy
}

func newRAM(page, frames, slots int) *ram {
	return &ram{page: page, frames: make([]byte, page*frames), slots: make([]byte, page*slots)}
}

func (r *ram) Name() string         { return "memory" }
func (r *ram) Close() error         { return nil }
func (r *ram) frame(i int32) []byte { return r.frames[int(i)*r.page:][:r.page] }
func (r *ram) slot(i int32) []byte  { return r.slots[int(i)*r.page:][:r.page] }

func (r *ram) Out(list []Copy) error {
	for _, c := range list {
		copy(r.slot(c.Slot), r.frame(c.Frame))
	}
	return r.broken
}

func (r *ram) In(list []Copy) error {
	for _, c := range list {
		copy(r.frame(c.Frame), r.slot(c.Slot))
	}
	return r.broken
}

func (r *ram) Accepts(b Buffer) error {
	if b.Bytes == nil {
		return errors.New("only ordinary memory")
	}
	return nil
}

func (r *ram) Load(dst Buffer, list []Piece) error {
	for _, p := range list {
		copy(dst.Bytes[p.At:p.At+int64(p.Length)], r.frame(p.Frame)[p.Offset:])
	}
	return nil
}

func (r *ram) Store(src Buffer, list []Piece) error {
	for _, p := range list {
		copy(r.frame(p.Frame)[p.Offset:p.Offset+p.Length], src.Bytes[p.At:])
	}
	return nil
}

type pageKey struct {
	array int
	page  uint64
}

var errInjected = errors.New("injected fault")

// disk is a Tier3 whose requests end out of order, late and, by chance, with an
// error. A write that fails leaves anything behind.
type disk struct {
	r       *ram
	mu      sync.Mutex // guards rng, pages
	rng     *rand.Rand
	pages   map[pageKey][]byte
	durable map[pageKey][]byte
	failing float64
	lost    bool // what becomes of requests is unknown
	refuse  error
	noReset error // of Recover
	delay   time.Duration

	fault     func(r *Request) (err error, late bool) // if set, instead of chance
	late      []func()                                // what timed-out requests may still do
	recovered int
	timeouts  float64      // share of failures that are time-outs
	running   atomic.Int32 // sets of requests that have not ended
}

func newDisk(r *ram, seed uint64) *disk {
	return &disk{r: r, rng: rand.New(rand.NewPCG(seed, 77)), pages: map[pageKey][]byte{}, durable: map[pageKey][]byte{}}
}

type diskPending struct {
	d    *disk
	done chan struct{}
}

func (p diskPending) Wait(ctx context.Context) error {
	select {
	case <-p.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.d.lost {
		return errors.New("the drive is gone")
	}
	return nil
}

// Drive makes two drives of the disk.
func (d *disk) Drive(_ int, page uint64) int { return int(page % 2) }

func (d *disk) Start(list []Request) (Pending, error) {
	if d.refuse != nil {
		return nil, d.refuse
	}
	p := diskPending{d, make(chan struct{})}
	d.running.Add(1)
	go func() {
		defer close(p.done)
		defer d.running.Add(-1)
		time.Sleep(d.delay)
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, i := range d.rng.Perm(len(list)) {
			d.serve(&list[i])
		}
	}()
	return p, nil
}

func (d *disk) serve(r *Request) {
	k := pageKey{r.Array, r.Page}
	r.Err = nil
	if d.rng.Float64() < d.failing {
		r.Err = errInjected
		r.Late = d.rng.Float64() < d.timeouts
	}
	if d.fault != nil {
		r.Err, r.Late = d.fault(r)
	}
	if r.Err != nil && r.Late { // nothing is done yet; what lands later would be wrong by then
		slot, write := d.r.slot(r.Slot), r.Write
		d.late = append(d.late, func() {
			if write {
				d.pages[k] = append([]byte(nil), slot...)
			} else {
				copy(slot, garbagePage(d.r.page))
			}
		})
		return
	}
	switch slot := d.r.slot(r.Slot); {
	case r.Write && r.Err != nil:
		d.pages[k] = garbagePage(d.r.page)
	case r.Write:
		d.pages[k] = append([]byte(nil), slot...)
	case r.Err != nil:
		copy(slot, garbagePage(d.r.page))
	case d.pages[k] == nil:
		clear(slot)
	default:
		copy(slot, d.pages[k])
	}
}

// Recover ends late requests: those that timed out are carried out at once, the last
// moment at which they may be.
func (d *disk) Recover(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recovered++
	if d.lost {
		return errors.New("the drive is gone")
	}
	if d.noReset != nil {
		return d.noReset
	}
	for _, land := range d.late {
		land()
	}
	d.late = nil
	return nil
}

func garbagePage(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 0xdb
	}
	return b
}

func (d *disk) Flush(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rng.Float64() < d.failing {
		return errInjected
	}
	for k, b := range d.pages {
		d.durable[k] = append([]byte(nil), b...)
	}
	return nil
}
