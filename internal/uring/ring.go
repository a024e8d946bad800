package uring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// MaxEntries bounds the size of a ring.
const MaxEntries = 32768

// MaxVectors is the kernel's bound on the buffers of one operation (IOV_MAX).
const MaxVectors = 1024

// Options are the choices at New.
type Options struct {
	// Entries is the number of operations in flight at most: 1 to MaxEntries,
	// rounded up to a power of two.
	Entries int
	// OneThread promises that the goroutine is locked to its thread
	// (runtime.LockOSThread) before New and that it alone uses the ring. The
	// kernel then completes operations only while that thread waits, which is
	// cheaper. Without it, or where the kernel lacks it, nothing is assumed.
	OneThread bool
}

// Completion is the result of one operation.
type Completion struct {
	Token uint64 // what the caller gave
	N     int    // bytes moved; fewer than asked at the end of a file
	Err   error  // a syscall.Errno, or nil
}

// Ring is one io_uring. See the package comment for who may call what.
type Ring struct {
	q        *queues
	slots    []slot
	freeList []uint32
	tail     uint32 // our copy of the SQ tail, published by Submit
	queued   uint32 // prepared and not yet taken by the kernel
	closed   bool
}

// slot keeps what an operation in flight needs to stay alive.
type slot struct {
	token   uint64
	buf     []byte
	vectors []unix.Iovec
	busy    bool
}

// New makes a ring. It returns an *UnsupportedError where io_uring cannot be used.
func New(o Options) (*Ring, error) {
	if o.Entries < 1 || o.Entries > MaxEntries {
		return nil, fmt.Errorf("uring: %d entries asked for, 1 to %d are possible", o.Entries, MaxEntries)
	}
	q, err := setupBest(uint32(o.Entries), o.OneThread)
	if err != nil {
		return nil, err
	}
	if err := q.probeOpcodes(); err != nil {
		return nil, fmt.Errorf("%w%s", err, closeNote(q.close()))
	}
	n := len(q.sqes)
	r := &Ring{q: q, slots: make([]slot, n), freeList: make([]uint32, n), tail: atomic.LoadUint32(q.sqTail)}
	for i := range r.freeList {
		r.freeList[i] = uint32(n - 1 - i)
	}
	return r, nil
}

// setupBest asks for the one-thread mode first and does without it where the
// kernel (before 6.1) does not know it.
func setupBest(entries uint32, oneThread bool) (*queues, error) {
	if oneThread {
		q, err := setup(entries, setupClamp|setupSingleIssuer|setupDeferTaskrun|setupTaskrunFlag)
		if !errors.Is(err, unix.EINVAL) {
			return q, err
		}
	}
	return setup(entries, setupClamp)
}

// Probe says whether io_uring works here: nil, or why not.
func Probe() error {
	r, err := New(Options{Entries: 1})
	if err != nil {
		return err
	}
	return r.Close()
}

// Capacity is how many operations can be in flight.
func (r *Ring) Capacity() int { return len(r.slots) }

// InFlight is how many operations are prepared or submitted and not yet reaped.
func (r *Ring) InFlight() int { return len(r.slots) - len(r.freeList) }

// Read prepares a read into p from offset off of fd. It is not submitted yet.
func (r *Ring) Read(fd int, p []byte, off int64, token uint64) error {
	return r.single(opRead, fd, p, off, token)
}

// Write prepares a write of p to offset off of fd.
func (r *Ring) Write(fd int, p []byte, off int64, token uint64) error {
	return r.single(opWrite, fd, p, off, token)
}

// ReadVec prepares a read into several buffers, 1 to MaxVectors. The ring keeps
// v itself, which must not change before the completion.
func (r *Ring) ReadVec(fd int, v []unix.Iovec, off int64, token uint64) error {
	return r.vector(opReadv, fd, v, off, token)
}

// WriteVec prepares a write of several buffers, as ReadVec.
func (r *Ring) WriteVec(fd int, v []unix.Iovec, off int64, token uint64) error {
	return r.vector(opWritev, fd, v, off, token)
}

// Datasync prepares fdatasync(2). It covers the writes that were reaped before
// it was prepared, not those still in flight.
func (r *Ring) Datasync(fd int, token uint64) error {
	_, err := r.prepare(sqe{opcode: opFsync, fd: int32(fd), opFlags: fsyncDatasync}, token)
	return err
}

// Fallocate prepares fallocate(2) with the given mode.
func (r *Ring) Fallocate(fd int, mode uint32, off, length int64, token uint64) error {
	_, err := r.prepare(sqe{opcode: opFallocate, fd: int32(fd), off: uint64(off), addr: uint64(length), len: mode}, token)
	return err
}

func (r *Ring) single(op uint8, fd int, p []byte, off int64, token uint64) error {
	if len(p) > 1<<30 {
		return fmt.Errorf("uring: %d bytes are too many for one operation", len(p))
	}
	s, err := r.prepare(sqe{opcode: op, fd: int32(fd), off: uint64(off), addr: address(p), len: uint32(len(p))}, token)
	if err == nil {
		s.buf = p
	}
	return err
}

func (r *Ring) vector(op uint8, fd int, v []unix.Iovec, off int64, token uint64) error {
	if len(v) == 0 || len(v) > MaxVectors {
		return fmt.Errorf("uring: %d buffers in one operation, 1 to %d are possible", len(v), MaxVectors)
	}
	s, err := r.prepare(sqe{opcode: op, fd: int32(fd), off: uint64(off), addr: vectorAddress(v), len: uint32(len(v))}, token)
	if err == nil {
		s.vectors = v
	}
	return err
}

// prepare takes a slot and writes e, with the slot as user data, at the tail,
// which Submit publishes.
func (r *Ring) prepare(e sqe, token uint64) (*slot, error) {
	if r.closed {
		return nil, ErrClosed
	}
	if len(r.freeList) == 0 || r.q.free(r.tail) == 0 {
		return nil, ErrFull
	}
	id := r.freeList[len(r.freeList)-1]
	r.freeList = r.freeList[:len(r.freeList)-1]
	s := &r.slots[id]
	s.token, s.busy = token, true
	e.userData = uint64(id)
	r.q.sqes[r.tail&r.q.sqMask] = e
	r.tail++
	r.queued++
	return s, nil
}

// Submit hands all prepared operations to the kernel and returns without
// waiting for them.
func (r *Ring) Submit() error {
	if r.closed {
		return ErrClosed
	}
	return r.enter(0, 0)
}

// maxRetries bounds the attempts in a row that get nowhere, when the kernel is
// short of memory or a signal interrupts.
const maxRetries = 1000

// submitChunk is how many entries the kernel gets at a time. It prepares all of
// them before it tells the drive of any, so with few the drive works on the
// first while the rest is prepared; that is worth more than the system calls.
const submitChunk = 4

// enter publishes the tail and calls the kernel until it has taken every
// prepared entry; with min above zero it then waits for that many completions,
// up to timeout.
func (r *Ring) enter(min uint32, timeout time.Duration) error {
	atomic.StoreUint32(r.q.sqTail, r.tail) // release: the entries are written
	var deadline time.Time
	if min > 0 {
		deadline = time.Now().Add(timeout)
	}
	for tries := 0; tries < maxRetries; tries++ {
		chunk, need := r.queued, min
		if chunk > submitChunk {
			chunk, need = submitChunk, 0
		}
		n, errno := r.q.enter(chunk, need, timeout)
		r.queued -= uint32(n)
		if n > 0 {
			tries = 0
		}
		switch errno {
		case 0, unix.EINTR, unix.EAGAIN: // EAGAIN: no memory for requests at the moment
		case unix.ETIME:
			return nil
		case unix.EBUSY: // the kernel holds back completions until some are reaped
			return nil
		default:
			return fmt.Errorf("uring: io_uring_enter: %w", errno)
		}
		if r.queued == 0 && (min == 0 || r.ready() > 0) {
			return nil
		}
		if min > 0 { // a signal must not stretch the wait
			if timeout = time.Until(deadline); timeout <= 0 {
				min = 0
			}
		}
	}
	return fmt.Errorf("uring: io_uring_enter made no progress in %d attempts with %d entries prepared: %w", maxRetries, r.queued, unix.EAGAIN)
}

// ready is how many completions can be reaped without a system call.
func (r *Ring) ready() uint32 {
	return atomic.LoadUint32(r.q.cqTail) - *r.q.cqHead // the head is written by us alone
}

// Pending reports whether Wait would find completions at once. It looks at
// memory only, so a caller that polls with it makes no system call in vain. The
// kernel raises a flag for completions that it has still to finish in our
// context, and for those that the ring had no room for.
func (r *Ring) Pending() bool {
	return !r.closed && (r.ready() > 0 || atomic.LoadUint32(r.q.sqFlags)&(sqTaskrun|sqOverflow) != 0)
}

// Reap takes completions that are there already, at most len(out) of them, and
// returns their number. It makes a system call only when the kernel holds
// completions back.
func (r *Ring) Reap(out []Completion) (int, error) {
	if r.closed {
		return 0, ErrClosed
	}
	n := 0
	head := *r.q.cqHead
	tail := atomic.LoadUint32(r.q.cqTail) // acquire: the entries before it are written
	for ; head != tail && n < len(out); head++ {
		e := r.q.cqes[head&r.q.cqMask]
		c, err := r.take(e)
		if err != nil {
			atomic.StoreUint32(r.q.cqHead, head+1)
			return n, err
		}
		out[n] = c
		n++
	}
	atomic.StoreUint32(r.q.cqHead, head) // release: the entries may be overwritten
	return n, nil
}

// take turns a CQE into a Completion and frees its slot.
func (r *Ring) take(e cqe) (Completion, error) {
	if e.userData >= uint64(len(r.slots)) || !r.slots[e.userData].busy {
		return Completion{}, fmt.Errorf("uring: the kernel completed operation %#x, which is not in flight", e.userData)
	}
	s := &r.slots[e.userData]
	c := Completion{Token: s.token, N: int(e.res)}
	if e.res < 0 {
		c.N, c.Err = 0, syscall.Errno(-e.res)
	}
	s.buf, s.vectors, s.busy = nil, nil, false
	r.freeList = append(r.freeList, uint32(e.userData))
	return c, nil
}

// Wait submits what is prepared and takes completions like Reap, waiting up to
// timeout for the first one. It returns 0 and nil when the time is over or
// nothing is in flight.
func (r *Ring) Wait(out []Completion, timeout time.Duration) (int, error) {
	if r.closed {
		return 0, ErrClosed
	}
	min := uint32(1)
	if timeout <= 0 || r.ready() > 0 || r.InFlight() == 0 {
		min = 0
	}
	if min > 0 || r.queued > 0 || r.ready() == 0 {
		if err := r.enter(min, timeout); err != nil {
			return 0, err
		}
	}
	return r.Reap(out)
}

// Close gives the ring back. With operations in flight it returns ErrBusy and
// changes nothing: their buffers are still the kernel's.
func (r *Ring) Close() error {
	if r.closed {
		return nil
	}
	if r.InFlight() > 0 {
		return ErrBusy
	}
	r.closed = true
	return r.q.close()
}
