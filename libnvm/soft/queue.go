package soft

import (
	"unsafe"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/internal/mmio"
)

const (
	sqeSize = 64
	cqeSize = 16
)

// entry is a completion queue entry. Dword 3 is written last.
type entry struct {
	dw0, dw1 uint32
	dw2      uint32 // SQHD, SQ identifier above
	dw3      uint32 // CID, phase tag, status
}

// completion is a completion queue. One service thread owns it and every
// submission queue that reports to it.
type completion struct {
	id       uint16
	depth    uint32
	base     unsafe.Pointer
	db       *uint32 // head doorbell, written by the host
	posted   uint64  // entries written
	tail     uint32
	phase    uint32
	taken    uint64 // entries that the host says it has consumed
	lastHead uint32
	refs     int        // submission queues, known to the control thread only
	backlog  []*command // done, and no room in the queue
	held     []*command // done, and waiting for their turn
	thread   *thread
	_        [8]byte // to whole cache lines, see thread
}

// submission is a submission queue.
type submission struct {
	id       uint16
	depth    uint32
	base     unsafe.Pointer
	db       *uint32 // tail doorbell, written by the host
	head     uint32
	tail     uint32 // the last doorbell value that was accepted
	rawTail  uint32 // the last doorbell value that was seen
	fetched  uint64
	reported uint32 // SQHD of the last completion
	working  int    // commands with a backend
	cq       *completion
	free     []*command
	all      []command
	look     lookup
	_        [24]byte // to whole cache lines, see thread
}

func newSubmission(id uint16, depth uint32, base unsafe.Pointer, db *uint32, cq *completion) *submission {
	s := &submission{id: id, depth: depth, base: base, db: db, cq: cq, all: make([]command, depth)}
	s.free = make([]*command, depth)
	for i := range s.all {
		c := &s.all[i]
		c.sq, c.op.cmd = s, c
		s.free[len(s.free)-1-i] = c
	}
	return s
}

// readTail looks at the tail doorbell and returns what is wrong with a new
// value, if anything: it must be inside the queue, and may only move forward
// over entries that are free.
func (s *submission) readTail() (changed bool, bad violation) {
	v := mmio.Load32(s.db)
	if v == s.rawTail {
		return false, violationNone
	}
	s.rawTail = v
	if v >= s.depth {
		return true, violationRange
	}
	queued := (s.tail + s.depth - s.head) % s.depth
	step := (v + s.depth - s.tail) % s.depth
	if queued+step > s.depth-1 {
		return true, violationBackward
	}
	s.tail = v
	return true, violationNone
}

// fetch copies the entry at the head into a free command.
func (s *submission) fetch() *command {
	c := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	c.sqe = *(*libnvm.Command)(unsafe.Add(s.base, uintptr(s.head)*sqeSize))
	if s.head++; s.head == s.depth {
		s.head = 0
	}
	s.fetched++
	return c
}

// recycle makes a command free.
func (s *submission) recycle(c *command) {
	c.state = cmdFree
	s.free = append(s.free, c)
}

// room reports whether one more entry fits into the queue, and returns a wrong
// value of the head doorbell as a violation.
func (q *completion) room() (bool, violation) {
	if q.posted-q.taken < uint64(q.depth-1) {
		return true, violationNone
	}
	v := mmio.Load32(q.db)
	if v == q.lastHead {
		return false, violationNone
	}
	q.lastHead = v
	if v >= q.depth {
		return false, violationRange
	}
	step := (uint64(v) + uint64(q.depth) - q.taken%uint64(q.depth)) % uint64(q.depth)
	if step > q.posted-q.taken {
		return false, violationBackward
	}
	q.taken += step
	return q.posted-q.taken < uint64(q.depth-1), violationNone
}

// post writes an entry. The phase tag follows from the number of entries
// posted; dword 3, which has it, is stored last, after everything before it.
func (q *completion) post(dw0, dw2 uint32, cid uint16, field uint32, torn bool) {
	e := (*entry)(unsafe.Add(q.base, uintptr(q.tail)*cqeSize))
	dw3 := uint32(cid) | q.phase<<16 | field<<17
	if torn {
		postTorn(e, dw0, dw2, dw3)
	} else {
		e.dw0, e.dw1, e.dw2 = dw0, 0, dw2
		mmio.Store32(&e.dw3, dw3)
	}
	q.posted++
	if q.tail++; q.tail == q.depth {
		q.tail = 0
		q.phase ^= 1
	}
}
