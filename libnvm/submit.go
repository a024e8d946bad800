package libnvm

import (
	"time"
	"unsafe"
)

// Request is one operation on a namespace, of any size: what is larger than
// the controller takes in one command is split, and still completes once, with
// the first error.
type Request struct {
	Op     Opcode // OpRead, OpWrite, OpCompare, OpFlush, OpWriteZeroes, or OpDataset, which deallocates
	NS     *Namespace
	LBA    uint64 // first block
	Blocks uint64 // number of blocks, at least 1; ignored for OpFlush
	// Mem from Offset holds the data of reads, writes and compares. Offset is a multiple of 4.
	Mem    *Memory
	Offset int
	FUA    bool   // for writes: durable when it completes
	Tag    uint64 // the caller's own, handed back in the Completion
	// Timeout is the deadline, from Submit on: 0 means Config.IOTimeout, one of
	// centuries never, and a negative one is a *RequestError.
	Timeout time.Duration
}

// moves reports whether the operation transfers data.
func (o Opcode) moves() bool { return o == OpRead || o == OpWrite || o == OpCompare }

// check refuses what would be wrong to send.
func (q *QueuePair) check(r *Request) error {
	reason := ""
	switch ns := r.NS; {
	case ns == nil || ns.ctrl != q.ctrl:
		reason = "the namespace is nil or belongs to another controller"
	case r.Timeout < 0:
		reason = "the time-out is negative"
	case r.Op == OpFlush:
	case r.Blocks == 0:
		reason = "no blocks"
	case r.LBA >= ns.Blocks || r.Blocks > ns.Blocks-r.LBA:
		reason = "outside the namespace"
	case !q.ctrl.can(r.Op):
		return &UnsupportedError{r.Op.Name(false), "the controller does not offer the command (Identify Controller, ONCS)"}
	case !r.Op.moves():
	case r.Mem == nil || r.Offset < 0 || r.Offset > len(r.Mem.buf) || r.Blocks > uint64(len(r.Mem.buf)-r.Offset)>>ns.shift:
		reason = "the data does not fit into the memory from its offset"
	case r.Offset%4 != 0:
		reason = "the offset in memory is not a multiple of 4"
	}
	if reason != "" {
		return &RequestError{r.Op, r.LBA, r.Blocks, reason}
	}
	return nil
}

// Submit writes the commands of r to the queue and rings the doorbell once. It
// returns ErrQueueFull when nothing of r could be sent, or ErrQuarantineFull or
// ErrHeadStalled when no polling will change that. What of a split request
// does not fit now is sent by Poll as entries become free.
func (q *QueuePair) Submit(r *Request) (Ticket, error) {
	t, err := q.push(r, now())
	if err == nil {
		q.ring()
	}
	return t, err
}

// SubmitBatch submits requests in order with one doorbell. It returns the first
// ticket, the others follow it by one each, and how many requests it took. When
// it did not take all, err says why it refused the next.
func (q *QueuePair) SubmitBatch(rs []Request) (first Ticket, n int, err error) {
	first = q.nextTicket
	t := now()
	for n < len(rs) {
		if _, err = q.push(&rs[n], t); err != nil {
			break
		}
		n++
	}
	q.ring()
	return first, n, err
}

// SubmitCommand sends a command as it is, PRPs included; only CID is filled
// in. mem, which may be nil, is what the command's addresses lie in: it stays
// quarantined when the command times out. The timeout is as in Request.
func (q *QueuePair) SubmitCommand(c *Command, mem *Memory, tag uint64, timeout time.Duration) (Ticket, error) {
	if timeout < 0 {
		return 0, &RequestError{Op: c.Opcode, Reason: "the time-out is negative"}
	}
	t := now()
	i, err := q.takeRequest(tag, timeout, t)
	if err != nil {
		return 0, err
	}
	r := &q.requests[i]
	r.isRaw, r.raw, r.mem, r.op, r.left = true, *c, mem, c.Opcode, 1
	q.send(i, t)
	q.ring()
	return r.ticket, nil
}

// push accepts a request and sends as many of its commands as fit.
func (q *QueuePair) push(r *Request, t int64) (Ticket, error) {
	if err := q.check(r); err != nil {
		return 0, err
	}
	i, err := q.takeRequest(r.Tag, r.Timeout, t)
	if err != nil {
		return 0, err
	}
	x := &q.requests[i]
	x.isRaw, x.op, x.ns, x.lba, x.left, x.fua = false, r.Op, r.NS, r.LBA, r.Blocks, r.FUA
	x.mem, x.off = nil, 0
	if r.Op.moves() {
		x.mem, x.off = r.Mem, r.Offset
	} else if r.Op == OpFlush {
		x.lba, x.left = 0, 1
	}
	q.send(i, t)
	return x.ticket, nil
}

// whyFull tells a queue that polling will empty from one that only a reset will.
func (q *QueuePair) whyFull() error {
	switch {
	case q.outstanding > 0 || len(q.freeRequests) == 0:
		return ErrQueueFull
	case q.quarantined == uint32(len(q.slots)):
		return ErrQuarantineFull
	default:
		return ErrHeadStalled
	}
}

// takeRequest gives out an entry of the request table, if a command can be sent.
func (q *QueuePair) takeRequest(tag uint64, timeout time.Duration, t int64) (int32, error) {
	if q.broken != nil {
		return 0, q.broken
	}
	if len(q.freeRequests) == 0 || q.unsent != noRequest || !q.room() {
		q.stats.Full++
		return 0, q.whyFull()
	}
	i := q.freeRequests[len(q.freeRequests)-1]
	q.freeRequests = q.freeRequests[:len(q.freeRequests)-1]
	r := &q.requests[i]
	r.ticket, r.tag, r.state, r.err, r.inflight, r.dw0, r.begun = q.nextTicket, tag, requestActive, nil, 0, 0, t
	q.nextTicket++
	if timeout == 0 {
		timeout = q.ctrl.cfg.IOTimeout
	}
	r.deadline = after(t, timeout)
	q.nextDeadline = min(q.nextDeadline, r.deadline)
	q.stats.Submitted++
	return i, nil
}

// send writes commands for what is left of a request while there is room.
func (q *QueuePair) send(i int32, t int64) {
	r := &q.requests[i]
	for r.left > 0 && q.room() {
		s, n := q.takeSlot()
		s.mem, s.at, s.req, s.state, s.op = r.mem, t, i, slotOutstanding, r.op
		if r.isRaw {
			s.nsid, s.lba, s.blocks = r.raw.NSID, 0, 0
			q.write(&r.raw, s.cid)
			r.left = 0
		} else {
			var c Command
			q.part(r, s, n, &c)
			q.write(&c, s.cid)
		}
		r.inflight++
		q.outstanding++
	}
	q.unsent = noRequest
	if r.left > 0 {
		q.unsent = i
	}
}

// part fills the next command of a request and moves the request past it.
func (q *QueuePair) part(r *request, s *slot, n int, c *Command) {
	blocks := min(r.left, r.ns.maxBlocks(r.op))
	c.Opcode, c.NSID = r.op, r.ns.ID
	c.CDW10, c.CDW11 = uint32(r.lba), uint32(r.lba>>32)
	switch r.op {
	case OpFlush:
		blocks, c.CDW10, c.CDW11 = 1, 0, 0
	case OpDataset:
		// One range: attributes, length, first block. The list area is free
		// for it, since the command has no PRP list.
		at := n * q.listStride
		b := q.lists.buf[at : at+16]
		le.PutUint32(b, 0)
		le.PutUint32(b[4:], uint32(blocks))
		le.PutUint64(b[8:], r.lba)
		c.PRP1, c.CDW10, c.CDW11 = q.lists.iova(at), 0, 1<<2 // one range, AD: deallocate
	default:
		c.CDW12 = uint32(blocks - 1)
		if r.fua && r.op != OpCompare {
			c.CDW12 |= 1 << 30
		}
		if r.mem != nil {
			bytes := int(blocks) << r.ns.shift
			setPRP(c, r.mem, r.off, bytes, q.lists, n*q.listStride)
			r.off += bytes
		}
	}
	s.nsid, s.lba, s.blocks = r.ns.ID, r.lba, uint32(blocks)
	if r.op == OpFlush {
		s.blocks = 0
	}
	r.lba += blocks
	r.left -= blocks
}

// write puts one entry at the tail. The doorbell comes later, with ring.
func (q *QueuePair) write(c *Command, cid uint16) {
	c.put(unsafe.Add(q.sq, uintptr(q.tail.slot)*sqeSize), cid)
	q.tail.advance(q.depth)
	q.stats.Commands++
}

// ring tells the controller about all new entries with one store. Doorbell.Ring
// orders the entries before it. The completion head is passed on first when the
// completion queue could otherwise fill up: between consumed entries that the
// controller does not know of and commands that will complete, it must keep one
// entry free.
func (q *QueuePair) ring() {
	if q.tail.count == q.sqRung {
		return
	}
	if q.head.count-q.cqRung+uint64(q.outstanding)+uint64(q.quarantined) > uint64(q.depth-1) {
		q.ringHead()
	}
	q.sqDB.Ring(q.tail.slot)
	q.sqRung = q.tail.count
	q.stats.SQDoorbells++
}

// ringHead tells the controller how far completions were consumed.
func (q *QueuePair) ringHead() {
	if q.head.count == q.cqRung {
		return
	}
	q.cqDB.Ring(q.head.slot)
	q.cqRung, q.stray = q.head.count, false
	q.stats.CQDoorbells++
}
