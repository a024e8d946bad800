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

// How a worker waits when a poll finds nothing: it polls on for longer than
// memory takes to answer, then sleeps a few microseconds at a time, which is
// short beside what a drive takes, and leaves the processor to whoever serves it.
const (
	holdPolls  = 256  // what is free is submitted then, however little it is
	spinPolls  = 1000 // about 10 us
	shortSleep = 5 * time.Microsecond
)

// schedule is what the workers of one run have in common.
type schedule struct {
	warm   int64       // on the workers' clock: measuring begins
	length int64       // ns; each worker measures so long, from when it really begins
	ios    uint64      // of each worker, 0 for no bound
	stop   atomic.Bool // Ctrl-C, or another worker failed
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
	ended     uint64 // I/Os of the measurement, failed ones too: --ios bounds these
	from      snapshot
	result    workerResult
}

// snapshot is where the counters stood when measuring began.
type snapshot struct {
	at         int64
	doorbells  uint64
	submission uint64        // those of them that submit
	cpu, total time.Duration // this thread's, the process's
}

// workerResult is what one worker measured.
type workerResult struct {
	latency    latencies
	ios        uint64
	elapsed    time.Duration
	doorbells  uint64
	submission uint64        // doorbells that submit
	cpu        time.Duration // of this thread
	total      time.Duration // of the process
	verified   uint64        // bytes
	errors     map[string]uint64
	mismatch   *mismatchError
	resets     int
}

// run works until the schedule ends, and then until nothing is in flight.
func (w *worker) run(s *schedule) error {
	runtime.LockOSThread() // its CPU time is the thread's; the thread ends with the goroutine
	// Without this the kernel lengthens short sleeps by 50 us. Where it cannot be set they are long.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	w.now = int64(time.Since(w.clock))
	idle := 0
	for !w.finished {
		n := w.q.Poll(w.done)
		if n > 0 || idle&63 == 0 {
			w.now = int64(time.Since(w.clock))
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
		// After the completions: those of the warm-up must not count.
		w.advance(s)
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
	if idle < spinPolls {
		return
	}
	ts := unix.NsecToTimespec(int64(shortSleep))
	_ = unix.Nanosleep(&ts, nil) // an early end by a signal does no harm
}

// advance moves through warm-up, measurement and end.
func (w *worker) advance(s *schedule) {
	stop := s.stop.Load()
	if !w.measuring && w.now >= s.warm && !stop {
		w.measuring = true
		w.from = w.snapshot()
		return
	}
	if !stop && (!w.measuring || w.now-w.from.at < s.length && (s.ios == 0 || w.ended < s.ios)) {
		return
	}
	w.finished = true
	if !w.measuring {
		return
	}
	w.measuring = false
	x, r := w.snapshot(), &w.result
	r.elapsed = time.Duration(x.at - w.from.at)
	r.submission = x.submission - w.from.submission
	r.doorbells, r.cpu, r.total = x.doorbells-w.from.doorbells, x.cpu-w.from.cpu, x.total-w.from.total
}

func (w *worker) snapshot() snapshot {
	st := w.q.Stats()
	return snapshot{w.now, st.SQDoorbells + st.CQDoorbells, st.SQDoorbells, cpuTime(unix.RUSAGE_THREAD), cpuTime(unix.RUSAGE_SELF)}
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
