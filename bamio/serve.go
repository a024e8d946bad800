package bamio

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tritier/tritier/bamio/layout"
)

// Call is a request of a GPU thread for work that only the CPU can do.
type Call struct {
	Number   uint64 // counts all requests
	Kind     uint32
	Argument [5]uint64
	Status   Status // set by the handler; OK at first
}

// Handler does what a batch of calls asks for and sets each call's Status. An
// error is the status of every call that is still OK: that of a *StatusError,
// Timeout for the end of ctx, otherwise RequestFailed. The calls are the
// handler's only until it returns.
type Handler func(ctx context.Context, calls []Call) error

// batchLimit bounds the calls that a handler gets at once, so that the first of
// them do not wait for a whole ring.
const batchLimit = 32

var (
	errNoRequests = errors.New("bamio: the engine has no request ring: set Options.Requests")
	errServing    = errors.New("bamio: requests are served already")

	errLateHandler = errors.New("bamio: a request was refused, since the handler of earlier ones has not returned")
)

// served is the state of the request ring's only consumer.
type served struct {
	busy atomic.Bool
	next uint64 // request to take next; of whoever has set busy

	requests, failed, batches, abandoned atomic.Uint64
	cpu                                  atomic.Int64 // ns of Serve and handlers

	mu   sync.Mutex
	last error // of a handler
}

func (s *served) failure(err error) {
	s.mu.Lock()
	s.last = err
	s.mu.Unlock()
}

// Serve answers requests of kernels until ctx ends, which is no error, or the
// engine is closed: ErrClosed. It polls the ring, backs off while there is
// nothing, and runs one handler at a time for up to 32 requests at once.
//
// A request that its sender has withdrawn (settle_request of request.cuh) reaches no
// handler; one that a handler was given is begun, whatever becomes of it.
//
// A handler that does not return within Options.Deadline has its context ended
// and its calls answered with Timeout, or Stopped at the end: they may still be done.
// Calls that find it so after another Deadline reach no handler and get RequestFailed:
// nothing of them is begun. If it has not returned Options.Grace after the end, the error
// is a *BusyError.
func (e *Engine) Serve(ctx context.Context, h Handler) error {
	if e.opts.Requests == 0 {
		return errNoRequests
	}
	if err := e.life.begin(); err != nil {
		return err
	}
	defer e.life.end()
	if !e.served.busy.CompareAndSwap(false, true) {
		return errServing
	}
	defer e.served.busy.Store(false)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &worker{e: e, h: h, ctx: ctx, back: make(chan error, 1)}
	var idle pause
	w.time.begin()
	defer w.poll()
	for {
		select {
		case <-ctx.Done():
			return w.end(cancel, nil)
		case <-e.life.ending:
			return w.end(cancel, ErrClosed)
		default:
		}
		if calls := e.take(); len(calls) > 0 {
			w.run(calls)
			idle = pause{}
			continue
		}
		if idle.spins() {
			idle.wait()
			continue
		}
		w.poll()
		idle.wait()
		w.time.begin()
	}
}

// take reads the requests that are whole, in order.
func (e *Engine) take() []Call {
	slots := recordsIn[layout.Request](e.control.Bytes(), slotsAt, e.opts.Requests)
	var calls []Call
	for len(calls) < batchLimit {
		n := e.served.next + uint64(len(calls))
		s := &slots[n%uint64(len(slots))]
		// The rest of the request was written before its sequence.
		if atomic.LoadUint32(&s.Sequence) != uint32(n)+1 {
			break
		}
		calls = append(calls, Call{Number: n, Kind: s.Kind, Argument: s.Argument})
	}
	e.served.next += uint64(len(calls))
	return calls
}

// answer writes the results. The producer, or whoever cleans up after one that
// gave up, may use the slot again once it sees Done.
func (e *Engine) answer(calls []Call) {
	slots := recordsIn[layout.Request](e.control.Bytes(), slotsAt, e.opts.Requests)
	for _, c := range calls {
		s := &slots[c.Number%uint64(len(slots))]
		if c.Status != OK {
			e.served.failed.Add(1)
		}
		atomic.StoreUint32(&s.Result, uint32(c.Status))
		atomic.StoreUint32(&s.Done, uint32(c.Number)+1)
	}
	e.served.requests.Add(uint64(len(calls)))
	e.served.batches.Add(1)
}

// begin says that a request is begun from now on. False: nobody waits for it any more,
// or its producer has withdrawn it, and it must be left alone. The read of Withdrawn must
// not pass the write of Done: see settle_request of request.cuh. A Swap and no Store, since
// the race detector makes a plain move of a Store to memory that is not Go's.
func (e *Engine) begin(c Call) bool {
	slots := recordsIn[layout.Request](e.control.Bytes(), slotsAt, e.opts.Requests)
	s, mark := &slots[c.Number%uint64(len(slots))], uint32(c.Number)+1
	atomic.SwapUint32(&s.Done, mark^layout.Begun)
	return atomic.LoadUint32(&s.Withdrawn) != mark && atomic.LoadUint32(&s.Abandoned) != mark
}

// live begins requests and answers at once those that must be left alone.
func (e *Engine) live(calls []Call) []Call {
	live := calls[:0:0]
	for _, c := range calls {
		if e.begin(c) {
			live = append(live, c)
		} else {
			e.served.abandoned.Add(1)
			e.answer([]Call{{Number: c.Number, Status: NotBegun}})
		}
	}
	return live
}

// worker runs the handler on a goroutine of its own, so that one that does not
// return holds up neither the ring nor Close.
type worker struct {
	e    *Engine
	h    Handler
	ctx  context.Context
	back chan error // a handler has returned
	late bool       // one has not
	time threadTime // of the goroutine that polls, while it runs
}

// poll counts the processor time up to a wait.
func (w *worker) poll() { w.e.served.cpu.Add(w.time.end()) }

// run has the handler do a batch and answers it, in bounded time.
func (w *worker) run(calls []Call) {
	ctx, cancel := bounded(w.ctx, w.e.opts.Deadline)
	defer cancel()
	if w.late && !w.wait(ctx) {
		w.refuse(calls, RequestFailed, errLateHandler)
		return
	}
	live := w.e.live(calls)
	if len(live) == 0 {
		return
	}
	mine := append([]Call(nil), live...) // the handler's own, also when it is late
	go func() {
		var t threadTime
		t.begin()
		err := w.h(ctx, mine)
		w.e.served.cpu.Add(t.end())
		w.back <- err
	}()
	w.poll()
	defer w.time.begin()
	select {
	case err := <-w.back:
		w.settle(mine, err)
	case <-ctx.Done():
		// One that heeds ctx returns now.
		select {
		case err := <-w.back:
			w.settle(mine, err)
		case <-time.After(handlerSlack):
			w.late = true
			w.refuse(live, statusOf(ctx.Err()), ctx.Err())
		}
	}
}

// handlerSlack is how long after the end of its context a handler's own results
// still count.
const handlerSlack = 10 * time.Millisecond

// wait waits for a handler that was late.
func (w *worker) wait(ctx context.Context) bool {
	w.poll()
	defer w.time.begin()
	select {
	case <-w.back:
		w.late = false
		return true
	case <-ctx.Done():
		return false
	}
}

// settle answers what a handler has done.
func (w *worker) settle(calls []Call, err error) {
	if err != nil {
		w.e.served.failure(err)
		st := statusOf(err)
		for i := range calls {
			if calls[i].Status == OK {
				calls[i].Status = st
			}
		}
	}
	w.e.answer(calls)
}

// refuse answers calls that no handler has done, and notes why. RequestFailed promises
// their senders that none will be.
func (w *worker) refuse(calls []Call, st Status, why error) {
	w.e.served.failure(why)
	for i := range calls {
		calls[i].Status = st
	}
	w.e.answer(calls)
}

// end waits for a handler that is still at it.
func (w *worker) end(cancel context.CancelFunc, err error) error {
	cancel()
	if !w.late {
		return err
	}
	ctx, done := bounded(context.Background(), w.e.opts.Grace)
	defer done()
	if !w.wait(ctx) {
		return &BusyError{"serve", "a request handler is", w.e.opts.Grace, err}
	}
	return err
}

// statusOf is the status that an error of a handler stands for.
func statusOf(err error) Status {
	var s *StatusError
	switch {
	case errors.As(err, &s) && s.Status != OK:
		return s.Status
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, context.Canceled):
		return Stopped
	}
	return RequestFailed
}

// pause is the back-off of a poller that finds nothing: it spins for the first
// microseconds, lets others run, then sleeps, longer each time.
type pause struct {
	polls int
	sleep time.Duration
}

const (
	pauseSpins   = 500
	pauseYields  = 600
	firstPause   = 10 * time.Microsecond
	longestPause = 200 * time.Microsecond
)

// spins says whether the next wait is none.
func (p *pause) spins() bool { return p.polls+1 < pauseSpins }

func (p *pause) wait() {
	p.polls++
	switch {
	case p.polls < pauseSpins:
	case p.polls < pauseYields:
		runtime.Gosched()
	default:
		p.sleep = min(max(firstPause, 2*p.sleep), longestPause)
		time.Sleep(p.sleep)
	}
}
