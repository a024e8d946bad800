package libnvm

import (
	"math"
	"unsafe"

	"github.com/tritier/tritier/libnvm/internal/mmio"
)

// Completion is the end of one request.
type Completion struct {
	Ticket Ticket
	Tag    uint64
	DW0    uint32 // command specific result of the last command
	Err    error  // nil, *StatusError, *TimeoutError, ErrReset, *DeviceGoneError, *ControllerFatalError or *NotReadyError
}

// completionRecord remembers a consumed entry for Dump.
type completionRecord struct {
	e      cqe
	number uint64
}

// Poll delivers at most len(out) completions and returns how many. It never
// waits. It also sends what is left of a split request, ends requests whose
// deadline has passed, and tells the controller how far it has read, so a
// caller with requests outstanding must go on calling it. A request past its
// deadline ends with the first poll that finds no completion, or the eighth that
// does.
func (q *QueuePair) Poll(out []Completion) int {
	if q.done.n < len(out) {
		q.reap(len(out) - q.done.n)
	}
	n := 0
	for n < len(out) && q.done.n > 0 {
		q.deliver(q.done.pop(), &out[n])
		n++
	}
	return n
}

// deliver hands out a finished request and frees its entry.
func (q *QueuePair) deliver(i int32, c *Completion) {
	r := &q.requests[i]
	c.Ticket, c.Tag, c.DW0, c.Err = r.ticket, r.tag, r.dw0, r.err
	r.state, r.mem, r.ns, r.err = requestFree, nil, nil, nil
	q.freeRequests = append(q.freeRequests, i)
}

// busyPolls is how many polls that find something pass between looks at the
// clock. A poll that finds nothing looks each time: some 20 ns that nobody waits
// for, while a count of polls is no bound in time for an owner that polls rarely.
const busyPolls = 8

// reap consumes completion entries until want requests are done, the queue is
// empty, or it has gone round once, which bounds it against any controller. It
// returns the number of entries consumed.
func (q *QueuePair) reap(want int) int {
	if q.broken != nil {
		return 0
	}
	n, goal := 0, q.done.n+want
	for n < int(q.depth) && q.done.n < goal {
		p := (*cqe)(unsafe.Add(q.cq, uintptr(q.head.slot)*cqeSize))
		// The phase first, with acquire: only then is the rest valid.
		dw3 := mmio.Load32(&p.dw3)
		if dw3>>16&1 != q.head.phase {
			break
		}
		e := cqe{p.dw0, p.dw1, p.sqhd, p.sqid, dw3}
		rec := &q.recent[q.head.count%uint64(len(q.recent))]
		rec.e, rec.number = e, q.head.count
		q.head.advance(q.depth)
		q.consume(&e)
		n++
	}
	q.stats.CQEs += uint64(n)
	if q.unsent != noRequest && q.room() {
		q.send(q.unsent, now())
		q.ring()
	}
	// Submit sees to it that what was consumed and what is outstanding fit into the
	// queue together. Stray entries take room besides: without a word of them here the
	// controller might have none for the last completions.
	if q.outstanding == 0 || q.stray {
		q.ringHead()
	}
	q.polls++
	if q.nextDeadline != math.MaxInt64 && (n == 0 || q.polls%busyPolls == 0) {
		q.expire(now())
	}
	return n
}

// consume accounts for one completion entry.
func (q *QueuePair) consume(e *cqe) {
	cid := uint16(e.dw3)
	i := int(cid & q.idMask())
	if i >= len(q.slots) {
		q.stats.UnknownCID++
		q.stray = true
		return
	}
	s := &q.slots[i]
	if s.cid != cid || s.state == slotFree || s.state == slotLate {
		// An id that is free, of an earlier generation, or that has had its
		// late completion: nobody waits for it. It says nothing about SQHD either.
		q.stats.Duplicate++
		q.stray = true
		return
	}
	q.moveHead(e.sqhd)
	if s.state == slotQuarantined {
		s.state = slotLate
		q.stats.Late++
		return
	}
	q.finish(s, e)
	s.mem, s.state = nil, slotFree
	q.freeSlots = append(q.freeSlots, uint16(i))
	q.outstanding--
}

// moveHead takes over how far the controller has fetched. Completions do not
// free slots of the submission queue, this does.
func (q *QueuePair) moveHead(sqhd uint16) {
	if uint32(sqhd) >= q.depth {
		q.stats.BadSQHD++
		return
	}
	step := (uint64(sqhd) + uint64(q.depth) - q.sqHead%uint64(q.depth)) % uint64(q.depth)
	if step > q.sqRung-q.sqHead {
		q.stats.BadSQHD++ // behind what it has reported, or ahead of what it was told
		return
	}
	q.sqHead += step
}

// finish takes a command's result over into its request.
func (q *QueuePair) finish(s *slot, e *cqe) {
	r := &q.requests[s.req]
	r.inflight--
	r.dw0 = e.dw0
	field := e.dw3 >> 17
	if st := Status(field & statusMask); st != 0 {
		q.stats.Errors++
		if r.err == nil {
			r.err = &StatusError{
				Status: st, CRD: uint8(field >> 11 & 3), More: field>>13&1 == 1, DNR: field>>14&1 == 1,
				Opcode: s.op, Admin: q.id == 0, NSID: s.nsid, LBA: s.lba, Blocks: s.blocks,
				Queue: q.id, CID: s.cid, DW0: e.dw0,
			}
		}
		q.drop(s.req) // the rest would only hide the first error
	}
	if r.inflight == 0 && r.left == 0 {
		q.end(s.req)
	}
}

// drop forgets the commands of a request that were not sent.
func (q *QueuePair) drop(i int32) {
	q.requests[i].left = 0
	if q.unsent == i {
		q.unsent = noRequest
	}
}

// end puts a request among those to be delivered.
func (q *QueuePair) end(i int32) {
	q.requests[i].state = requestDone
	q.done.push(i)
	q.stats.Completed++
}
