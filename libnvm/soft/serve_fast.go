package soft

import (
	"unsafe"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/internal/mmio"
)

// The fast path serves what a busy host sends nearly always: a read or write of
// one or two pages to a namespace in memory. Such a command needs nothing of the
// general path (begin to write): it is done when its data is copied, so that no
// command object, operation or segment list has to outlive it. It makes every
// check that the general path makes, and whatever fails one, or is anything
// else, is left in the queue for the general path, which finds out by itself
// and answers. So the fast path knows no status but success.

// ahead is how many commands in front of the one being served have the start of
// their data brought into the cache. Random blocks of a large store are nowhere
// near the processor: without it most of a small command's time is that wait.
const (
	ahead     = 8
	aheadMost = 512 // bytes of a command; the rest follows at the memory's pace
)

// plain is a read or write that has passed every check: the pieces of host
// memory, and the piece of the store.
type plain struct {
	store   []byte
	p1, p2  unsafe.Pointer
	n1, n2  uint64
	isWrite bool
}

// glance looks at all doorbells before any queue is served, and has the first
// entries of those with new commands brought into the cache. Another processor
// or a GPU wrote both, so each is a miss, and those of all queues then pass at
// the same time, not one after the other.
func (t *thread) glance() {
	for _, q := range t.sqs {
		if mmio.Load32(q.db) != q.rawTail {
			prefetch(unsafe.Pointer(q.entry(0)), ahead*sqeSize) // beyond the queue's end it does no harm
		}
	}
}

// serveFast serves commands from the head of q on, at most limit, and returns
// how many. It stops at one that is for the general path. An injected fault or
// a pacer may change any command, and then no thread comes here.
func (t *thread) serveFast(q *submission, limit int) int {
	queued := int(q.tail) - int(q.head)
	if queued < 0 {
		queued += int(q.depth)
	}
	limit = min(limit, queued)
	for i := range min(ahead, limit) {
		t.peek(q, uint32(i))
	}
	var x plain
	n := 0
	for n < limit {
		if n+ahead < limit {
			t.peek(q, ahead)
		}
		// One copy is checked and served: the host may overwrite the entry meanwhile.
		sqe := *q.entry(0)
		if !t.check(q, &sqe, &x) || !t.hasRoom(q.cq) {
			break
		}
		t.move(&x)
		if q.head++; q.head == q.depth {
			q.head = 0
		}
		q.cq.post(0, q.head|uint32(q.id)<<16, sqe.CID, uint32(libnvm.StatusSuccess), false)
		n++
	}
	if n > 0 {
		q.fetched += uint64(n)
		q.reported = q.head
		t.counts.commands += uint64(n)
		t.counts.fast += uint64(n)
	}
	return n
}

// entry is the entry i places behind the head, in the host's memory.
func (s *submission) entry(i uint32) *libnvm.Command {
	if i += s.head; i >= s.depth {
		i -= s.depth
	}
	return (*libnvm.Command)(unsafe.Add(s.base, uintptr(i)*sqeSize))
}

// peek brings the store's data of a command to come into the cache. What it
// reads of the entry may be anything, and may change until the command is served.
func (t *thread) peek(q *submission, i uint32) {
	s := q.entry(i)
	ns := t.c.namespace(s.NSID)
	if ns == nil || ns.memory == nil {
		return
	}
	lba := uint64(s.CDW10) | uint64(s.CDW11)<<32
	if lba >= ns.blocks {
		return
	}
	n := min((uint64(s.CDW12&0xffff)+1)*uint64(ns.blockSize), aheadMost)
	prefetch(unsafe.Pointer(&ns.memory.data[lba*uint64(ns.blockSize)]), uintptr(n))
}

// check makes the checks of prepare, prepareBlocks and segments. False leaves
// the command to them.
func (t *thread) check(q *submission, s *libnvm.Command, x *plain) bool {
	if s.Opcode != libnvm.OpRead && s.Opcode != libnvm.OpWrite || s.Flags != 0 {
		return false
	}
	ns := t.c.namespace(s.NSID)
	if ns == nil || ns.memory == nil {
		return false
	}
	x.isWrite = s.Opcode == libnvm.OpWrite
	lba, blocks := uint64(s.CDW10)|uint64(s.CDW11)<<32, uint64(s.CDW12&0xffff)+1
	if lba >= ns.blocks || blocks > ns.blocks-lba || ns.readOnly && x.isWrite {
		return false
	}
	off, n := lba*uint64(ns.blockSize), blocks*uint64(ns.blockSize)
	if n > t.fastLimit {
		return false
	}
	x.store = ns.memory.data[off : off+n]
	return t.pieces(q, s, n, x)
}

// pieces resolves the PRPs of n bytes, unless they need a list.
func (t *thread) pieces(q *submission, s *libnvm.Command, n uint64, x *plain) bool {
	a := t.c.arena
	x.n1 = min(n, pageSize-s.PRP1%pageSize)
	x.n2 = n - x.n1
	if s.PRP1%4 != 0 || x.n2 > pageSize {
		return false
	}
	if x.p1 = a.resolve(s.PRP1, x.n1, &q.look); x.p1 == nil {
		return false
	}
	if x.n2 == 0 {
		return true
	}
	if s.PRP2%pageSize != 0 {
		return false
	}
	if x.p2 = a.resolve(s.PRP2, x.n2, &q.look); x.p2 == nil {
		return false
	}
	if unsafe.Add(x.p1, x.n1) == x.p2 { // one piece, as segment makes it
		x.n1, x.n2 = n, 0
	}
	return true
}

// move copies the data and counts it.
func (t *thread) move(x *plain) {
	n := uint64(len(x.store))
	h1, h2 := unsafe.Slice((*byte)(x.p1), x.n1), unsafe.Slice((*byte)(x.p2), x.n2)
	if x.isWrite {
		copy(x.store, h1)
		copy(x.store[x.n1:], h2)
		t.counts.writes++
		t.counts.writeBytes += n
		return
	}
	copy(h1, x.store)
	copy(h2, x.store[x.n1:])
	t.counts.reads++
	t.counts.readBytes += n
}
