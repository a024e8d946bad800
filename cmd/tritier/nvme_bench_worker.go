package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/drive"
)

// How a worker waits when a poll finds nothing: it polls on, then lets other
// threads run, then sleeps a few microseconds at a time.
const (
	holdPolls  = 256  // what is free is submitted then, however little it is
	spinPolls  = 300  // about 10 us
	yieldPolls = 1500 // about 1 ms
	shortSleep = 5 * time.Microsecond
)

// schedule is what the workers of one run have in common. Times are those of
// the worker's clock.
type schedule struct {
	warm, end int64
	ios       uint64      // of each worker, 0 for no bound
	stop      atomic.Bool // Ctrl-C, or another worker failed
}

// inFlight is one I/O buffer and the I/O that uses it.
type inFlight struct {
	at    int64
	lba   uint64
	write bool
}

// worker drives one queue pair. It belongs to one goroutine.
type worker struct {
	cell     cell
	d        *drive.Drive
	ns       *libnvm.Namespace
	q        *libnvm.QueuePair
	mem      *libnvm.Memory
	rng      *rand.Rand
	key      uint64 // of the pattern
	verify   bool
	tolerate bool // faults are injected: errors are counted, not fatal
	reads    int  // per cent, of a mixed workload
	batch    int

	first, span, next uint64 // blocks: the worker's area, and the next sequential I/O in it
	perIO             uint64 // blocks

	slots    []inFlight
	free     []int
	requests []libnvm.Request
	done     []libnvm.Completion

	clock     time.Time // origin
	now       int64
	measuring bool
	finished  bool
	from      snapshot
	result    workerResult
}

// snapshot is where the counters stood when measuring began.
type snapshot struct {
	at         int64
	doorbells  uint64
	cpu, total time.Duration // this thread's, the process's
}

// workerResult is what one worker measured.
type workerResult struct {
	latency   latencies
	ios       uint64
	elapsed   time.Duration
	doorbells uint64
	cpu       time.Duration // of this thread
	total     time.Duration // of the process
	verified  uint64        // bytes
	errors    map[string]uint64
	mismatch  *mismatchError
	resets    int
}

// run works until the schedule ends, and then until nothing is in flight.
func (w *worker) run(s *schedule) error {
	runtime.LockOSThread() // its CPU time is the thread's; the thread ends with the goroutine
	w.now = int64(time.Since(w.clock))
	idle := 0
	for !w.finished {
		n := w.q.Poll(w.done)
		if n > 0 || idle&63 == 0 {
			w.now = int64(time.Since(w.clock))
			w.advance(s)
		}
		if n > 0 {
			idle = 0
			if err := w.complete(w.done[:n]); err != nil {
				return err
			}
		} else {
			idle++
			rest(idle)
		}
		if len(w.free) >= w.batch || idle >= holdPolls && len(w.free) > 0 {
			if err := w.submit(); err != nil {
				return err
			}
		}
	}
	return w.drain()
}

// rest waits a little after idle polls that found nothing.
func rest(idle int) {
	switch {
	case idle < spinPolls:
	case idle < yieldPolls:
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // cannot fail
	default:
		ts := unix.NsecToTimespec(int64(shortSleep))
		_ = unix.Nanosleep(&ts, nil) // an early end by a signal does no harm
	}
}

// advance moves through warm-up, measurement and end.
func (w *worker) advance(s *schedule) {
	stop := s.stop.Load()
	if !w.measuring && w.now >= s.warm && !stop {
		w.measuring = true
		w.from = w.snapshot()
		return
	}
	if !stop && w.now < s.end && (s.ios == 0 || w.result.ios < s.ios) {
		return
	}
	w.finished = true
	if !w.measuring {
		return
	}
	w.measuring = false
	x, r := w.snapshot(), &w.result
	r.elapsed = time.Duration(x.at - w.from.at)
	r.doorbells, r.cpu, r.total = x.doorbells-w.from.doorbells, x.cpu-w.from.cpu, x.total-w.from.total
}

func (w *worker) snapshot() snapshot {
	st := w.q.Stats()
	return snapshot{w.now, st.SQDoorbells + st.CQDoorbells, cpuTime(unix.RUSAGE_THREAD), cpuTime(unix.RUSAGE_SELF)}
}

// cpuTime is user and system time of this thread or the whole process.
func cpuTime(who int) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(who, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// submit sends an I/O for every free buffer, with one doorbell write.
func (w *worker) submit() error {
	w.requests = w.requests[:0]
	for len(w.free) > 0 {
		i := w.free[len(w.free)-1]
		w.free = w.free[:len(w.free)-1]
		w.requests = append(w.requests, w.request(i))
	}
	w.now = int64(time.Since(w.clock))
	for i := range w.requests {
		w.slots[w.requests[i].Tag].at = w.now
	}
	_, n, err := w.q.SubmitBatch(w.requests)
	for _, r := range w.requests[n:] {
		w.free = append(w.free, int(r.Tag))
	}
	if err != nil && !errors.Is(err, libnvm.ErrQueueFull) {
		return fmt.Errorf("%s: %w", w.d.URI, err)
	}
	return nil
}

// request makes up the next I/O, in buffer i.
func (w *worker) request(i int) libnvm.Request {
	s := &w.slots[i]
	if w.cell.work.random {
		s.lba = w.first + w.rng.Uint64N(w.span/w.perIO)*w.perIO
	} else {
		s.lba = w.first + w.next
		if w.next += w.perIO; w.next+w.perIO > w.span {
			w.next = 0
		}
	}
	s.write = !w.cell.work.read && (!w.cell.work.mix || w.rng.IntN(100) >= w.reads)
	r := libnvm.Request{Op: libnvm.OpRead, NS: w.ns, LBA: s.lba, Blocks: w.perIO, Mem: w.mem, Offset: i * w.cell.size, Tag: uint64(i)}
	switch {
	case s.write:
		r.Op = libnvm.OpWrite
		if w.verify {
			stamp(w.buffer(i), w.key, s.lba*uint64(w.ns.BlockSize))
		}
	case w.verify:
		spoil(w.buffer(i), w.key, s.lba*uint64(w.ns.BlockSize))
	}
	return r
}

func (w *worker) buffer(i int) []byte { return w.mem.Bytes()[i*w.cell.size:][:w.cell.size] }

// complete takes I/Os over that have ended.
func (w *worker) complete(done []libnvm.Completion) error {
	for _, d := range done {
		i := int(d.Tag)
		s := &w.slots[i]
		if d.Err != nil {
			if err := w.failed(d.Err); err != nil {
				return err
			}
			var late *libnvm.TimeoutError
			if !errors.As(d.Err, &late) { // else the buffer is the controller's until a reset
				w.free = append(w.free, i)
			}
			continue
		}
		if w.measuring {
			w.result.ios++
			w.result.latency.add(w.now - s.at)
		}
		if !s.write && w.verify {
			w.check(i)
		}
		w.free = append(w.free, i)
	}
	if len(w.free)+w.q.Outstanding() == 0 || w.q.Quarantined() > 0 && w.q.Quarantined() >= w.cell.depth/2 {
		return w.reset()
	}
	return nil
}

// check compares what a read brought. The first difference is kept.
func (w *worker) check(i int) {
	w.result.verified += uint64(w.cell.size)
	m := verify(w.buffer(i), w.key, w.slots[i].lba*uint64(w.ns.BlockSize))
	if m != nil && w.result.mismatch == nil {
		m.Drive, m.LBA = w.d.URI.String(), m.Offset/uint64(w.ns.BlockSize)
		w.result.mismatch = m
	}
}

// failed counts an error that an injected fault can explain, and returns any other.
func (w *worker) failed(err error) error {
	kind := ""
	var se *libnvm.StatusError
	var te *libnvm.TimeoutError
	switch {
	case errors.As(err, &se):
		kind = se.Status.String()
	case errors.As(err, &te):
		kind = "timed out"
	case errors.Is(err, libnvm.ErrReset):
		return nil // part of a reset that is counted
	}
	if !w.tolerate || kind == "" {
		return fmt.Errorf("%s: %w", w.d.URI, err)
	}
	w.result.errors[kind]++
	return nil
}

// reset makes the queue anew when buffers are lost to commands that timed out.
func (w *worker) reset() error {
	if err := w.q.Reset(); err != nil {
		return fmt.Errorf("%s: %w", w.d.URI, err)
	}
	for w.q.Poll(w.done) > 0 {
		// What was in flight ended with the reset.
	}
	w.result.resets++
	w.free = w.free[:0]
	for i := range w.slots {
		w.free = append(w.free, i)
	}
	return nil
}

// drain waits for what is in flight, at most until its deadline.
func (w *worker) drain() error {
	for idle := 1; w.q.Outstanding() > 0; idle++ {
		n := w.q.Poll(w.done)
		for _, d := range w.done[:n] {
			if d.Err == nil {
				if s := &w.slots[d.Tag]; !s.write && w.verify {
					w.check(int(d.Tag))
				}
			} else if err := w.failed(d.Err); err != nil {
				return err
			}
		}
		if n > 0 {
			idle = 0
		}
		rest(idle)
	}
	return nil
}
