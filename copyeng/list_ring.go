package copyeng

import (
	"context"
	"errors"
	"time"

	"github.com/tritier/tritier/cuda"
)

// ringPairs is the capacity of a ring: the two lists of the largest launch,
// and as much again, so that the next one need not wait.
const ringPairs = 4 * maxStart

// listRing is pinned memory for the lists that kernels of a stream read. Lists
// are taken in turn: put, launch, inUse; or drop, if the launch fails. One is
// free again when the event recorded after its kernel is reached. A full ring
// waits for the oldest. One goroutine at a time.
type listRing struct {
	ctx      *cuda.Context
	stream   *cuda.Stream
	patience time.Duration // bounds a wait for room

	mem   *cuda.HostMemory
	next  int     // where the next list goes
	open  bool    // lists are taken whose kernel has not been started
	first int     // where the first of them begins
	back  int     // what next was before it
	live  []taken // read by kernels in flight, oldest first
	spare []*cuda.Event
}

// taken is what the lists of one launch occupy: from begin to the next
// launch's begin. read is reached when the kernel is done, once it is recorded.
type taken struct {
	begin    int
	read     *cuda.Event
	recorded bool
}

// put copies a list into the ring and gives its address. inUse or drop must
// follow.
func (r *listRing) put(pairs []Pair) (cuda.Ptr, error) {
	if err := r.prepare(); err != nil {
		return 0, err
	}
	at, ok := r.room(len(pairs))
	for !ok {
		if err := r.retire(); err != nil {
			return 0, err
		}
		at, ok = r.room(len(pairs))
	}
	// Use, since the memory is gone if the context was closed before the queue.
	if err := r.mem.Use(func(mem []byte) { copy(pairsOf(mem)[at:], pairs) }); err != nil {
		return 0, err
	}
	if !r.open {
		r.open, r.first, r.back = true, at, r.next
	}
	r.next = at + len(pairs)
	return r.mem.DevicePtr().Add(uint64(at) * 8), nil
}

// prepare makes what a launch needs. The event too: once the kernel is started
// it would be too late for an error.
func (r *listRing) prepare() error {
	if r.mem == nil {
		m, err := r.ctx.AllocHost(ringPairs*8, 0)
		if err != nil {
			return err
		}
		r.mem = m
	}
	if len(r.spare) > 0 {
		return nil
	}
	e, err := r.ctx.NewEvent(false)
	if err != nil {
		return err
	}
	r.spare = append(r.spare, e)
	return nil
}

// room finds n free consecutive places. The taken part is a ring from the
// oldest span to next; it never fills the ring, so that full and empty differ.
func (r *listRing) room(n int) (at int, ok bool) {
	oldest := -1
	switch {
	case len(r.live) > 0:
		oldest = r.live[0].begin
	case r.open:
		oldest = r.first
	}
	switch {
	case oldest < 0:
		return 0, n <= ringPairs
	case r.next < oldest:
		return r.next, r.next+n < oldest
	case r.next+n <= ringPairs:
		return r.next, true
	}
	return 0, n < oldest
}

var errRing = errors.New("the list of pages does not fit in the ring")

// retire waits for the oldest launch and frees its lists.
func (r *listRing) retire() error {
	if len(r.live) == 0 {
		return errRing // a launch takes at most half of the ring: not reached
	}
	if err := r.record(&r.live[0]); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.patience)
	defer cancel()
	if err := r.live[0].read.Wait(ctx); err != nil {
		return err
	}
	r.free()
	return nil
}

// inUse marks the lists put since as read by what was just started. Also after
// an error they are: they are free when the event could be recorded after all,
// and is reached.
func (r *listRing) inUse() error {
	k := len(r.spare) - 1
	r.live = append(r.live, taken{begin: r.first, read: r.spare[k]})
	r.spare = r.spare[:k]
	r.open = false
	return r.record(&r.live[len(r.live)-1])
}

// record puts the event of a launch into the stream. Late is no harm, as the
// kernel is before it anyway; but an event that was not recorded for the kernel
// is reached already.
func (r *listRing) record(l *taken) error {
	if l.recorded {
		return nil
	}
	err := l.read.Record(r.stream)
	l.recorded = err == nil
	return err
}

// drop gives back the lists put since, whose launch has failed.
func (r *listRing) drop() {
	if r.open {
		r.open, r.next = false, r.back
	}
}

// free gives the oldest launch's lists and event back.
func (r *listRing) free() {
	r.spare = append(r.spare, r.live[0].read)
	r.live = r.live[:copy(r.live, r.live[1:])] // few: as many as launches in flight
}

// reap frees what is done already, so that events are reused and their number
// stays that of the launches in flight. The error is one that a kernel had.
func (r *listRing) reap() error {
	for len(r.live) > 1 {
		if err := r.record(&r.live[0]); err != nil {
			return err
		}
		if done, err := r.live[0].read.Query(); !done || err != nil {
			return err
		}
		r.free()
	}
	return nil
}

// settle waits for the last kernel: the others are before it.
func (r *listRing) settle(ctx context.Context) (failed, late error) {
	if len(r.live) == 0 {
		return nil, nil
	}
	last := &r.live[len(r.live)-1]
	if err := r.record(last); err != nil {
		return err, nil
	}
	return settle(ctx, last.read)
}

// close frees the ring; nothing is in flight.
func (r *listRing) close() error {
	var errs []error
	for _, l := range r.live {
		errs = append(errs, l.read.Close())
	}
	for _, e := range r.spare {
		errs = append(errs, e.Close())
	}
	if r.mem != nil {
		errs = append(errs, r.mem.Free())
	}
	*r = listRing{}
	return errors.Join(errs...)
}
