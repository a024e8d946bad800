package gpu

import (
	"context"
	"fmt"
	"time"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/tier/layout"
)

// HangError is a call that was given up, since for Options.Deadline, and the time that
// kernels have to give up by themselves, no kernel has made an access and no I/O was in
// flight. Only calls whose context has no deadline end so. Kernels of the program were
// not asked to end, and nothing is lost.
type HangError struct {
	After  time.Duration // for which nothing has happened
	Begun  bool          // the call's kernel has begun
	Stream bool          // what the caller's stream held before the call has not ended
}

// Error says what did not end, and what to do.
func (e *HangError) Error() string {
	what := "the call's kernel has not begun: kernels of the program leave it no room, or the GPU hangs"
	switch {
	case e.Begun:
		what = "the call's kernel has begun and does not end: it hangs"
	case e.Stream:
		what = "the stream of the call's buffer holds work from before the call that does not end"
	}
	return fmt.Sprintf("gpu engine: %s; for %v no kernel has made an access and no I/O was in flight. Nothing is lost: end what runs and call again, or give the call a context whose deadline leaves it the time", what, e.After)
}

// Timeout makes the error recognisable as a time-out, as package net does.
func (e *HangError) Timeout() bool { return true }

// hangGrace is what kernels get beyond Deadline, after which device code gives up by
// itself: bamio's watchdog, which is for what has I/O in flight, gives them the same.
const hangGrace = 2 * time.Second

const looksEach = 20 // how often patience looks within its limit

// patience is the wait for a batch: bamio.Work that ends with a *HangError. The caller
// of its methods has mu.
type patience struct {
	e     *Engine
	front *cuda.Event // behind what the caller's stream held before; nil without one
	limit time.Duration
	next  time.Time // the next look; zero: the context bounds the wait
	since time.Time // when something has happened last
	last  signs
	err   error // of the batch itself
}

// signs change while kernels get on.
type signs struct {
	begun, passed         uint32
	accesses              uint64
	counts                layout.Counts
	moved                 [2][layout.Ways]uint64
	commands, completions uint64
}

func (e *Engine) newPatience(ctx context.Context, front *cuda.Event) *patience {
	p := &patience{e: e, front: front, limit: e.o.Deadline + hangGrace, since: time.Now()}
	if _, bounded := ctx.Deadline(); !bounded {
		p.next = p.since.Add(p.every())
	}
	return p
}

func (p *patience) every() time.Duration { return p.limit / looksEach }

// Query says whether the batch is done. The stream's own query, unlike that of an event,
// has errors that do not last.
func (p *patience) Query() (done bool, err error) {
	if done, p.err = p.e.stream.Query(); done || p.err != nil || p.next.IsZero() || time.Now().Before(p.next) {
		return done, p.err
	}
	s, busy := p.look()
	now := time.Now()
	p.next = now.Add(p.every())
	if busy || s != p.last {
		p.last, p.since = s, now
	}
	if now.Sub(p.since) > p.limit {
		p.err = p.hang()
	}
	return false, p.err
}

// look looks beside the running kernels. What cannot be read has not changed; busy says
// that commands are in flight, which bamio's watchdog has an eye on.
func (p *patience) look() (s signs, busy bool) {
	ctx, cancel := context.WithTimeout(context.Background(), p.every())
	defer cancel()
	e := p.e
	s = p.last
	s.begun, s.passed = e.reportWord(reportBegunAt), e.reportWord(reportPassedAt)
	if io, err := e.io.Stats(ctx); err == nil {
		busy, s.commands, s.completions = io.InFlight > 0, io.Commands, io.Completions
	}
	var stripes [layout.Stripes]layout.Stripe
	if e.get(ctx, e.dev.Stripes, &stripes) == nil {
		s.accesses = 0
		for _, x := range stripes {
			s.accesses += x.Hits + x.Slow
		}
	}
	var mover layout.Mover
	var counts layout.Counts
	if e.get(ctx, e.dev.Counts, &counts) == nil && e.get(ctx, e.dev.Mover, &mover) == nil {
		s.counts, s.moved = counts, mover.Pages
	}
	return s, busy
}

func (p *patience) hang() error {
	h := &HangError{After: p.limit, Begun: p.e.reportWord(reportBegunAt) != 0}
	if p.front != nil {
		done, err := p.front.Query()
		h.Stream = !done && err == nil
	}
	return h
}

// giveUp asks a batch that hangs to end, and leaves one that has begun a moment to do so.
func (p *patience) giveUp() {
	p.e.askBatch()
	if p.e.reportWord(reportBegunAt) == 0 {
		return
	}
	for end := time.Now().Add(hangGrace); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if done, err := p.e.stream.Query(); done || err != nil {
			return
		}
	}
}
