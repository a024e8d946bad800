package libnvm

import (
	"fmt"
	"math"
	"math/bits"
	"time"
	"unsafe"
)

// Ticket names a request of one queue pair. Tickets count up by one from 1 and
// are never used again.
type Ticket uint64

// MaxQueueDepth is the most entries that a queue can have (MQES is 16 bits, zero-based).
const MaxQueueDepth = 1 << 16

const noRequest = -1

// Stats counts what a queue pair did since it was created.
type Stats struct {
	Submitted   uint64 // requests accepted
	Completed   uint64 // requests finished, in whatever way
	Commands    uint64 // entries written to the submission queue
	CQEs        uint64 // completion entries consumed
	SQDoorbells uint64 // MMIO writes to the submission doorbell
	CQDoorbells uint64 // MMIO writes to the completion doorbell
	Errors      uint64 // commands completed with an error status
	TimedOut    uint64 // requests that ran into their deadline
	Late        uint64 // completions of commands that had timed out
	Duplicate   uint64 // completions of commands that had completed
	UnknownCID  uint64 // completions with an id that was never given out
	BadSQHD     uint64 // completions whose SQ head was outside what is in the queue
	Full        uint64 // requests refused with ErrQueueFull
}

// ring is a position in a queue: a count that never wraps, and its slot. The
// phase tag follows from the count alone: it is 1 on even laps, 0 on odd ones.
type ring struct {
	count uint64
	slot  uint32
	phase uint32
}

func (r *ring) advance(depth uint32) {
	r.count++
	if r.slot++; r.slot == depth {
		r.slot = 0
		r.phase = phaseOf(r.count, depth)
	}
}

// phaseOf is the phase tag of the entry number count.
func phaseOf(count uint64, depth uint32) uint32 {
	return uint32(count/uint64(depth))&1 ^ 1
}

// States of a command id.
const (
	slotFree        = iota
	slotOutstanding // the controller has it
	slotQuarantined // timed out; the controller may still use its memory
	slotLate        // timed out, and its completion came since
)

// slot is one command id's entry in the owner table.
type slot struct {
	mem    *Memory
	at     int64 // when it was submitted, ns on the driver's clock
	lba    uint64
	blocks uint32
	nsid   uint32
	req    int32
	cid    uint16 // index in the low bits, generation above
	state  uint8
	op     Opcode
}

// States of a request.
const (
	requestFree = iota
	requestActive
	requestDone // waits to be delivered
)

// request is one Request between Submit and the delivery of its Completion.
type request struct {
	ticket   Ticket
	tag      uint64
	ns       *Namespace
	mem      *Memory
	lba      uint64
	left     uint64 // blocks that no command was sent for; 1 for commands without blocks
	off      int
	deadline int64
	begun    int64
	inflight uint32
	dw0      uint32
	op       Opcode
	state    uint8
	fua      bool
	isRaw    bool
	raw      Command
	err      error
}

// QueuePair is a submission queue and its completion queue. It belongs to one
// goroutine at a time.
type QueuePair struct {
	ctrl  *Controller
	id    uint16
	depth uint32

	sq, cq       unsafe.Pointer
	sqDB, cqDB   Doorbell
	tail         ring
	sqHead       uint64 // entries that the controller has fetched, by SQHD
	sqRung       uint64 // tail that the controller was told
	head         ring
	cqRung       uint64 // head that the controller was told
	stray        bool   // entries were consumed since that nobody waited for
	outstanding  uint32 // command ids that the controller has, without quarantined ones
	idBits       uint
	slots        []slot
	freeSlots    []uint16
	requests     []request
	freeRequests []int32
	done         fifo
	unsent       int32 // the request of which commands are still to be sent
	nextTicket   Ticket
	nextDeadline int64 // no outstanding request has an earlier one
	polls        uint32
	quarantined  uint32
	broken       error // why nothing can be submitted any more
	stats        Stats
	recent       [16]completionRecord

	sqMem, cqMem, lists *Memory
	ownSQ, ownCQ        bool
	sqOff               int // where in sqMem the queue starts (controller memory buffer)
	listStride          int
}

// fifo holds requests that are done, in order. It has room for all.
type fifo struct {
	buf     []int32
	head, n int
}

func (f *fifo) push(r int32) {
	f.buf[(f.head+f.n)%len(f.buf)] = r
	f.n++
}

func (f *fifo) pop() int32 {
	r := f.buf[f.head]
	if f.head++; f.head == len(f.buf) {
		f.head = 0
	}
	f.n--
	return r
}

// remove takes r out, wherever it is.
func (f *fifo) remove(r int32) {
	for range f.n {
		if x := f.pop(); x != r {
			f.push(x)
		}
	}
}

var epoch = time.Now()

// now is the driver's clock: monotonic nanoseconds.
func now() int64 { return int64(time.Since(epoch)) }

// after is the time d after t on the driver's clock. One that the clock never
// reaches (292 years) is its end, which is "never".
func after(t int64, d time.Duration) int64 {
	if int64(d) > math.MaxInt64-t {
		return math.MaxInt64
	}
	return t + int64(d)
}

// newQueuePair makes the host's side of a queue pair over its memory.
func newQueuePair(c *Controller, id uint16, depth int) *QueuePair {
	n := depth - 1 // a ring of depth entries holds one less
	q := &QueuePair{
		ctrl: c, id: id, depth: uint32(depth), idBits: uint(bits.Len(uint(n - 1))),
		slots: make([]slot, n), freeSlots: make([]uint16, 0, n),
		requests: make([]request, n), freeRequests: make([]int32, 0, n),
		done: fifo{buf: make([]int32, n)}, nextTicket: 1,
	}
	q.rewind()
	return q
}

// rewind puts both rings and the owner table back to the start. The memory of
// the rings must be zero and the controller must have no command of the queue.
func (q *QueuePair) rewind() {
	q.tail, q.head = ring{phase: 1}, ring{phase: 1}
	q.sqHead, q.sqRung, q.cqRung = 0, 0, 0
	q.outstanding, q.quarantined, q.unsent = 0, 0, noRequest
	q.nextDeadline = math.MaxInt64
	q.freeSlots = q.freeSlots[:0]
	for i := len(q.slots) - 1; i >= 0; i-- {
		s := &q.slots[i]
		s.mem, s.state = nil, slotFree
		s.cid = uint16(i) | s.cid&^q.idMask()
		q.freeSlots = append(q.freeSlots, uint16(i))
	}
	q.freeRequests = q.freeRequests[:0]
	for i := len(q.requests) - 1; i >= 0; i-- {
		if q.requests[i].state == requestFree {
			q.freeRequests = append(q.freeRequests, int32(i))
		}
	}
}

func (q *QueuePair) idMask() uint16 { return uint16(1<<q.idBits - 1) }

// takeSlot gives out a command id, with a generation in the bits that the
// index leaves free, so that a stray completion of an earlier use is seen.
func (q *QueuePair) takeSlot() (*slot, int) {
	i := q.freeSlots[len(q.freeSlots)-1]
	q.freeSlots = q.freeSlots[:len(q.freeSlots)-1]
	s := &q.slots[i]
	s.cid = (s.cid&^q.idMask() + 1<<q.idBits) | i
	if s.cid == math.MaxUint16 && q.idBits < 16 { // reserved: the error log uses it for "no command"
		s.cid = i
	}
	return s, int(i)
}

// room reports whether one more entry fits: there must be a free command id,
// and a slot of the ring that the controller says it has fetched.
func (q *QueuePair) room() bool {
	return len(q.freeSlots) > 0 && q.tail.count-q.sqHead < uint64(q.depth-1)
}

// ID is the queue identifier.
func (q *QueuePair) ID() uint16 { return q.id }

// Depth is the number of entries; one less can be outstanding.
func (q *QueuePair) Depth() int { return int(q.depth) }

// Outstanding is the number of commands that the controller has, without those
// that timed out.
func (q *QueuePair) Outstanding() int { return int(q.outstanding) }

// Quarantined is the number of command ids of requests that timed out. They
// come back with a reset.
func (q *QueuePair) Quarantined() int { return int(q.quarantined) }

// Stats is a copy of the counters.
func (q *QueuePair) Stats() Stats { return q.stats }

// Err is why the queue pair takes no requests any more, or nil.
func (q *QueuePair) Err() error { return q.broken }

// Layout is what a producer other than the driver (a GPU, a C++ program) needs
// to know to use the queue pair. Such a producer owns it: nobody may then call
// Submit or Poll.
type Layout struct {
	ID         uint16
	Depth      int
	SQ, CQ     unsafe.Pointer // the rings, of Depth entries of 64 and 16 bytes
	SQIOVA     uint64
	CQIOVA     uint64
	SQDoorbell Doorbell
	CQDoorbell Doorbell
	// Offsets of the doorbells in BAR0.
	SQDoorbellOffset, CQDoorbellOffset int
}

// Layout describes the queue pair's memory and doorbells. Of a queue pair that was
// closed only the id and the depth are left.
func (q *QueuePair) Layout() Layout {
	if q.sqMem == nil {
		return Layout{ID: q.id, Depth: int(q.depth)}
	}
	sq, cq := q.ctrl.doorbellOffsets(q.id)
	return Layout{
		ID: q.id, Depth: int(q.depth), SQ: q.sq, CQ: q.cq,
		SQIOVA: q.sqMem.iova(q.sqOff), CQIOVA: q.cqMem.iova(0),
		SQDoorbell: q.sqDB, CQDoorbell: q.cqDB, SQDoorbellOffset: sq, CQDoorbellOffset: cq,
	}
}

func (q *QueuePair) position() string {
	return fmt.Sprintf("queue %d: tail %d, SQ head %d, CQ head %d phase %d, %d outstanding, %d quarantined",
		q.id, q.tail.slot, q.sqHead%uint64(q.depth), q.head.slot, q.head.phase, q.outstanding, q.quarantined)
}
