package cudafake

import (
	"runtime/debug"
	"slices"
	"time"

	"github.com/tritier/tritier/cuda"
)

// opState is where an operation stands: queued -> running or hung -> done; a
// hung one goes back to queued.
type opState uint8

const (
	opQueued opState = iota
	opRunning
	opHung // until Release
	opDone
)

// op is an operation of a stream. Its fields are protected by GPU.mu; done is
// closed when it has ended, in whatever way.
type op struct {
	stream    *stream
	name      string
	work      work // nil for a marker
	deps      []*op
	wanted    bool // somebody asks for it, or for one behind it
	due       time.Time
	notBefore time.Time
	state     opState
	spared    bool // it has hung: it does not again
	finished  time.Time
	done      chan struct{}
}

// work is what an operation does. begin and end are called with GPU.mu held,
// step without: it does a piece and says whether that was the last.
type work interface {
	begin(g *GPU, o *op) cuda.Result
	step() (last bool)
	end(g *GPU)
}

// kernelPatience is how long the scheduler waits for a kernel before it turns
// to other streams: most are short, and the order of all work then depends on
// the seed alone.
const kernelPatience = 200 * time.Microsecond

func (o *op) pending() bool { return o != nil && o.state != opDone }

// finish ends the operation; its stream has let go of it.
func (o *op) finish(r cuda.Result) {
	o.state = opDone
	o.finished = time.Now()
	o.work, o.deps = nil, nil
	close(o.done)
}

// want marks o and all before it in its stream as asked for.
func (g *GPU) want(o *op) {
	if o.wanted || !o.pending() {
		return
	}
	for _, p := range o.stream.queue {
		p.wanted = true
		if p == o {
			return
		}
	}
}

// wait asks for the operations and waits until they have ended; g.mu is
// released meanwhile.
func (g *GPU) wait(ops ...*op) {
	for _, o := range ops {
		g.want(o)
	}
	g.poke()
	g.mu.Unlock()
	defer g.mu.Lock()
	for _, o := range ops {
		<-o.done
	}
}

// schedule runs the operations until Close; it is the only goroutine that
// starts them.
func (g *GPU) schedule() {
	defer g.goroutines.Done()
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.closed {
		o, wake := g.next(time.Now())
		if o == nil {
			g.sleep(wake)
			continue
		}
		g.advance(o)
	}
	for _, s := range slices.Clone(g.streams) { // copies that Close has met half done
		if len(s.queue) == 0 || s.queue[0].state != opRunning {
			continue
		}
		if o := s.queue[0]; !o.kernel() {
			o.work.end(g)
			g.complete(o, cuda.Deinitialized)
		}
	}
}

// kernel says whether the operation runs on a goroutine of its own.
func (o *op) kernel() bool { _, ok := o.work.(*kernelRun); return ok }

// sleep waits until there may be something to do, or until wake if that is
// not zero.
func (g *GPU) sleep(wake time.Time) {
	g.mu.Unlock()
	defer g.mu.Lock()
	if wake.IsZero() {
		<-g.wake
		return
	}
	t := time.NewTimer(time.Until(wake))
	defer t.Stop()
	select {
	case <-g.wake:
	case <-t.C:
	}
}

// next draws one of the operations that can run or go on. If there is none,
// wake is when the first will be ready by itself, zero if none will.
func (g *GPU) next(now time.Time) (o *op, wake time.Time) {
	var ready []*op
	for again := true; again; {
		again = false
		ready, wake = ready[:0], time.Time{}
		for _, s := range g.streams {
			if len(s.queue) == 0 {
				continue
			}
			head := s.queue[0]
			ok, asked, at := g.ready(head, now)
			again = again || asked
			if ok {
				ready = append(ready, head)
			} else if !at.IsZero() && (wake.IsZero() || at.Before(wake)) {
				wake = at
			}
		}
	}
	if len(ready) == 0 {
		return nil, wake
	}
	return ready[g.rng.IntN(len(ready))], wake
}

// ready says whether the head of a stream can run now, and if not, when it can
// as far as that is up to the clock; asked says that it has asked for
// operations of other streams.
func (g *GPU) ready(o *op, now time.Time) (ok, asked bool, at time.Time) {
	switch {
	case o.state == opHung:
		return false, false, at
	case o.state == opRunning:
		return !o.kernel(), false, at // a copy goes on; a kernel runs by itself
	}
	o.deps = slices.DeleteFunc(o.deps, func(d *op) bool { return !d.pending() })
	waits := len(o.deps) > 0
	if !o.wanted && (g.config.lazy || now.Before(o.due)) {
		if !g.config.lazy && !waits {
			at = o.due
		}
		return false, false, at
	}
	for _, d := range o.deps {
		if !d.wanted {
			g.want(d)
			asked = true
		}
	}
	if now.Before(o.notBefore) && !waits {
		at = o.notBefore
	}
	return !waits && !now.Before(o.notBefore), asked, at
}

// advance starts an operation, or does its next piece.
func (g *GPU) advance(o *op) {
	if o.state == opQueued {
		if !g.begin(o) {
			return
		}
		if k, ok := o.work.(*kernelRun); ok {
			g.goroutines.Add(1)
			go k.start(g, o)
			g.watch(o)
			return
		}
	}
	g.mu.Unlock()
	last, fault := guardedStep(o.work)
	g.mu.Lock()
	switch {
	case fault != "":
		g.note("%s: %s", o.name, fault)
		o.work.end(g)
		g.complete(o, cuda.IllegalAddress)
	case last:
		o.work.end(g)
		g.complete(o, cuda.Success)
	}
}

// guardedStep does a piece of work, which faults if host memory went away.
func guardedStep(w work) (last bool, fault string) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			fault = describe(p)
		}
	}()
	return w.step(), ""
}

// begin takes an operation from queued to running; false if it has ended at
// once, or hangs.
func (g *GPU) begin(o *op) bool {
	if o.work == nil {
		g.complete(o, cuda.Success)
		return false
	}
	if g.faults.hangs > 0 && !o.spared {
		g.faults.hangs--
		o.state, o.spared = opHung, true
		return false
	}
	if r, ok := g.faults.takeAsync(); ok {
		g.complete(o, r)
		return false
	}
	o.state = opRunning
	if r := o.work.begin(g, o); r != cuda.Success {
		g.complete(o, r)
		return false
	}
	return true
}

// watch gives a kernel that was started a moment to end.
func (g *GPU) watch(o *op) {
	g.mu.Unlock()
	defer g.mu.Lock()
	t := time.NewTimer(kernelPatience)
	defer t.Stop()
	select {
	case <-o.done:
	case <-t.C:
	}
}

// complete ends the first operation of a stream with r.
func (g *GPU) complete(o *op, r cuda.Result) {
	s := o.stream
	s.queue[0] = nil
	if s.queue = s.queue[1:]; len(s.queue) == 0 {
		s.queue = nil
	}
	o.finish(r)
	switch {
	case lasting[r]:
		g.lose(s.ctx, r)
	case r != cuda.Success && s.pending == cuda.Success:
		s.pending = r
	}
	g.tidy()
	g.idle.Broadcast()
	g.poke()
}

// tidy forgets streams that were destroyed and have nothing left to do.
func (g *GPU) tidy() {
	g.streams = slices.DeleteFunc(g.streams, func(s *stream) bool { return s.gone && len(s.queue) == 0 })
}
