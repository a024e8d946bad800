package gpu

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/tier/layout"
)

// attendant is the CPU's part of moves by the copy engine: it takes requests of warps in
// batches, starts a copy for each direction, waits for both and answers. It decides
// nothing. It runs only when a direction is moved so.
//
// The kernel that asks may hold every SM until it has its answer. So the copies are those
// that need no launch (copyeng's NoLaunch), on streams that were made before, and nothing
// is allocated.
//
// What it answers is certain, or else the warp puts the destination aside: OK is a copy
// that has ended, RequestFailed one of which nothing is in flight, and any other status
// one that may still be.
type attendant struct {
	copy   *copyeng.GPU
	spaces [2]*copyeng.Space // T2's slots, T1's frames
	queues [2]copyeng.Queue  // to device and to host, which do not wait for each other
	page   int
	frames uint64
	slots  uint64
	limit  time.Duration // of a batch
	over   func(uint64)  // tells kernels below which number all copies have ended

	// turn is held by whoever uses the queues: one batch, or what waits for copies that
	// were late, or the end. A batch that does not get it is refused.
	turn    chan struct{}
	stopped bool // stop has it, for good
	lists   [2]moveList
	end     context.CancelFunc // of Serve
	ended   sync.WaitGroup

	mu   sync.Mutex // guards last
	last error
}

// moveList is one direction of a batch.
type moveList struct {
	pairs []copyeng.Pair
	calls []*bamio.Call
}

// Errors of moves, in MoverStats.Last.
var (
	errLateCopies = errors.New("copies that were late are still in flight, or the engine is being closed")
	errNoMove     = errors.New("a request that is no move: memory of the tables was overwritten, or tritier is at fault")
)

// start lends the copy engine both memories and serves. On an error nothing runs.
func (a *attendant) start(e *Engine) (err error) {
	a.frames, a.slots = uint64(e.dev.Frames), uint64(e.dev.Slots)
	a.over = e.tellOver
	if a.spaces[0], err = a.copy.LendHost(e.io.Payload()); err != nil {
		return err
	}
	if a.spaces[1], err = a.copy.LendDevice(e.frames); err != nil {
		return err
	}
	for d := range a.queues {
		if a.queues[d], err = a.copy.NewQueue(); err != nil {
			return err
		}
		if err := a.warmUp(copyeng.Direction(d)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.end = cancel
	a.ended.Go(func() {
		if err := e.io.Serve(ctx, a.serve); err != nil && !errors.Is(err, bamio.ErrClosed) {
			a.note(err)
		}
	})
	return nil
}

// warmUp copies a few pages that nobody uses yet, one alone and several: what the driver
// makes when a copy is first asked for, it may not be able to make beside a kernel.
func (a *attendant) warmUp(d copyeng.Direction) error {
	ctx, cancel := context.WithTimeout(context.Background(), a.limit)
	defer cancel()
	q := a.queues[d]
	for _, n := range []uint64{1, min(4, a.frames, a.slots)} {
		if err := q.Wait(ctx); err != nil {
			return err
		}
		pairs := make([]copyeng.Pair, n)
		for i := range pairs {
			pairs[i] = copyeng.Pair{Host: uint32(i), Device: uint32(i)}
		}
		if _, err := q.Copy(&copyeng.Batch{Dir: d, Host: a.spaces[0], Device: a.spaces[1], PageSize: a.page, Pairs: pairs}); err != nil {
			return err
		}
	}
	return q.Wait(ctx)
}

// serve does a batch: bamio.Handler.
func (a *attendant) serve(_ context.Context, calls []bamio.Call) error {
	select {
	case a.turn <- struct{}{}:
	default:
		a.note(errLateCopies)
		setStatus(pointers(calls), bamio.RequestFailed)
		return nil
	}
	a.sort(calls)
	var begun [2]error
	for d := range a.lists {
		if l := &a.lists[d]; len(l.pairs) > 0 {
			_, begun[d] = a.queues[d].Copy(&copyeng.Batch{Dir: copyeng.Direction(d), Host: a.spaces[0], Device: a.spaces[1], PageSize: a.page, Pairs: l.pairs})
		}
	}
	// The end of Serve does not end copies: they are waited for all the same.
	ctx, cancel := context.WithTimeout(context.Background(), a.limit)
	defer cancel()
	late := false
	for d := range a.lists {
		st := a.outcome(ctx, a.queues[d], begun[d])
		setStatus(a.lists[d].calls, st)
		late = late || st == bamio.Timeout
	}
	next := calls[len(calls)-1].Number + 1
	if late {
		a.ended.Go(func() { a.drain(next) })
		return nil
	}
	a.over(next)
	<-a.turn
	return nil
}

// sort deals calls out by direction, and refuses what is no move.
func (a *attendant) sort(calls []bamio.Call) {
	for d := range a.lists {
		a.lists[d].pairs, a.lists[d].calls = a.lists[d].pairs[:0], a.lists[d].calls[:0]
	}
	for i := range calls {
		c := &calls[i]
		d, frame, slot := c.Kind-layout.MoveRequest, c.Argument[0], c.Argument[1]
		if d > layout.ToHost || frame >= a.frames || slot >= a.slots || c.Argument[2] != uint64(a.page) {
			c.Status = bamio.RequestFailed
			a.note(errNoMove)
			continue
		}
		l := &a.lists[d]
		l.pairs = append(l.pairs, copyeng.Pair{Host: uint32(slot), Device: uint32(frame)})
		l.calls = append(l.calls, c)
	}
}

// outcome waits for a direction's copies. An error of theirs says that one has failed, and
// not that the others have ended: that is what a wait without an error says.
func (a *attendant) outcome(ctx context.Context, q copyeng.Queue, begun error) bamio.Status {
	err := q.Wait(ctx)
	a.note(errors.Join(begun, err))
	switch {
	case begun == nil && err == nil:
		return bamio.OK
	case err != nil && q.Wait(ctx) != nil:
		return bamio.Timeout
	}
	return bamio.RequestFailed
}

// drain has the turn until the copies of a late batch have ended, or can no more.
func (a *attendant) drain(next uint64) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), a.limit)
		err := errors.Join(a.queues[0].Wait(ctx), a.queues[1].Wait(ctx))
		cancel()
		if err == nil {
			break
		}
		if errors.Is(err, cuda.ErrSticky) {
			break // the context is lost, and its copies with it
		}
		a.note(err)
		time.Sleep(time.Millisecond)
	}
	a.over(next)
	<-a.turn
}

// stop refuses all further requests, whose warps then copy themselves, and waits until no
// copy is in flight. An error means that one is: nothing may be freed.
func (a *attendant) stop() error {
	if a.stopped || a.queues[1] == nil {
		return nil
	}
	select {
	case a.turn <- struct{}{}:
		a.stopped = true
		return nil
	case <-time.After(2 * a.limit):
		return fmt.Errorf("close the GPU engine: copies between its tiers have not ended within %v; close it again once they have", 2*a.limit)
	}
}

// close gives everything back, after the engine of queues was closed.
func (a *attendant) close() error {
	if a.end != nil {
		a.end()
	}
	a.ended.Wait()
	errs := []error{a.copy.Close()}
	for _, s := range a.spaces {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

func (a *attendant) note(err error) {
	if err == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = err
}

func (a *attendant) lastError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

func pointers(calls []bamio.Call) []*bamio.Call {
	list := make([]*bamio.Call, len(calls))
	for i := range calls {
		list[i] = &calls[i]
	}
	return list
}

func setStatus(calls []*bamio.Call, st bamio.Status) {
	for _, c := range calls {
		c.Status = st
	}
}
