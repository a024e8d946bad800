package copyeng

import (
	"context"
	"errors"

	"github.com/tritier/tritier/cuda"
)

// ringPairs is the capacity of a ring: the two lists of the largest launch,
// and as much again, so that the next one need not wait.
const ringPairs = 4 * maxStart

// listRing is pinned memory for the lists that kernels read. Lists are taken
// in turn, and one is free again when the event recorded after its kernel is
// reached. A full ring waits for the oldest.
type listRing struct {
	mem   *cuda.HostMemory
	pairs []Pair
	next  int     // where the next list goes
	open  bool    // lists are taken whose kernel has not been started
	first int     // where the first of them begins
	live  []taken // read by kernels in flight, oldest first
	spare []*cuda.Event
}

// taken is what the lists of one launch occupy: from begin to the next
// launch's begin. read is reached when the kernel is done.
type taken struct {
	begin int
	read  *cuda.Event
}

// put copies a list into the ring and gives its address. inUse must follow,
// after the launch.
func (r *listRing) put(ctx *cuda.Context, pairs []Pair) (cuda.Ptr, error) {
	if r.mem == nil {
		m, err := ctx.AllocHost(ringPairs*8, 0)
		if err != nil {
			return 0, err
		}
		r.mem, r.pairs = m, pairsOf(m.Bytes())
	}
	at, ok := r.room(len(pairs))
	for !ok {
		if err := r.retire(); err != nil {
			return 0, err
		}
		at, ok = r.room(len(pairs))
	}
	copy(r.pairs[at:], pairs)
	r.next = at + len(pairs)
	if !r.open {
		r.open, r.first = true, at
	}
	return r.mem.DevicePtr().Add(uint64(at) * 8), nil
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
		return 0, n <= len(r.pairs)
	case r.next < oldest:
		return r.next, r.next+n < oldest
	case r.next+n <= len(r.pairs):
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
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	if err := r.live[0].read.Wait(ctx); err != nil {
		return err
	}
	r.free()
	return nil
}

// inUse marks the lists put since as read by what was just started on s.
func (r *listRing) inUse(ctx *cuda.Context, s *cuda.Stream) error {
	var e *cuda.Event
	if k := len(r.spare); k > 0 {
		e, r.spare = r.spare[k-1], r.spare[:k-1]
	} else {
		var err error
		if e, err = ctx.NewEvent(false); err != nil {
			return err
		}
	}
	// Even if the record fails the spans count as read by it: an event that
	// was never recorded is complete, and the error ends the queue's use.
	err := e.Record(s)
	r.live = append(r.live, taken{r.first, e})
	r.open = false
	r.reap()
	return err
}

// drop gives back the lists put since, whose launch has failed.
func (r *listRing) drop() {
	if r.open {
		r.open, r.next = false, r.first
	}
}

// free gives the oldest launch's lists and event back.
func (r *listRing) free() {
	r.spare = append(r.spare, r.live[0].read)
	r.live = r.live[:copy(r.live, r.live[1:])] // few: as many as launches in flight
}

// reap frees what is done already, so that events are reused and their number
// stays that of the launches in flight.
func (r *listRing) reap() {
	for len(r.live) > 1 {
		if done, err := r.live[0].read.Query(); !done || err != nil {
			return
		}
		r.free()
	}
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
