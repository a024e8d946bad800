package libnvm

import (
	"fmt"
	"io"
	"time"
	"unsafe"

	"github.com/tritier/tritier/libnvm/internal/mmio"
	"github.com/tritier/tritier/libnvm/internal/spec"
)

// Dump writes the state of the queue pair in words: positions, the command ids
// that the controller has with their age, and the last completions. It is for
// the owner, or for anybody when the owner hangs: it changes nothing.
func (q *QueuePair) Dump(w io.Writer) error {
	p := &printer{w: w}
	t := now()
	p.f("queue pair %d, depth %d\n", q.id, q.depth)
	p.f("  SQ: tail %d (count %d, rung %d), controller fetched up to %d (count %d)\n",
		q.tail.slot, q.tail.count, q.sqRung, q.sqHead%uint64(q.depth), q.sqHead)
	p.f("  CQ: head %d (count %d, rung %d), phase %d", q.head.slot, q.head.count, q.cqRung, q.head.phase)
	if q.cq != nil {
		e := (*cqe)(unsafe.Add(q.cq, uintptr(q.head.slot)*cqeSize))
		dw3 := mmio.Load32(&e.dw3)
		p.f(", next entry: dw3 %#08x, phase %d", dw3, dw3>>16&1)
	}
	p.f("\n  %d outstanding, %d quarantined, %d done but not delivered\n", q.outstanding, q.quarantined, q.done.n)
	if q.broken != nil {
		p.f("  takes no requests: %v\n", q.broken)
	}
	for i := range q.slots {
		s := &q.slots[i]
		if s.state == slotFree {
			continue
		}
		state := [...]string{slotOutstanding: "outstanding", slotQuarantined: "quarantined", slotLate: "quarantined, completed late"}[s.state]
		p.f("  cid %#04x: %s, %s, namespace %d, LBA %d, %d blocks, age %v\n",
			s.cid, state, s.op.Name(q.id == 0), s.nsid, s.lba, s.blocks, time.Duration(t-s.at).Round(time.Microsecond))
	}
	q.dumpRecent(p)
	st := &q.stats
	p.f("  requests %d submitted, %d completed, %d timed out; commands %d, completions %d, errors %d\n",
		st.Submitted, st.Completed, st.TimedOut, st.Commands, st.CQEs, st.Errors)
	p.f("  doorbell writes: SQ %d, CQ %d; completions late %d, duplicate %d, unknown id %d, bad SQHD %d\n",
		st.SQDoorbells, st.CQDoorbells, st.Late, st.Duplicate, st.UnknownCID, st.BadSQHD)
	return p.err
}

func (q *QueuePair) dumpRecent(p *printer) {
	n := uint64(len(q.recent))
	for i := max(q.head.count, n) - n; i < q.head.count; i++ {
		r := &q.recent[i%n]
		field := r.e.dw3 >> 17
		p.f("  completion %d: cid %#04x, SQHD %d, dw0 %#x, %s\n", r.number, uint16(r.e.dw3), r.e.sqhd, r.e.dw0, Status(field&statusMask))
	}
}

// Dump writes the controller's registers and the state of every queue pair. After
// Close there are none, and it writes that the controller is closed.
func (c *Controller) Dump(w io.Writer) error {
	p := &printer{w: w}
	p.f("controller over %s, %s, serial %q\n", c.tr.Name(), c.State(), c.info.Serial)
	p.f("  %s\n", c.registerLine())
	if c.adminMu.TryLock() {
		if p.err == nil && c.admin != nil {
			p.err = c.admin.Dump(w)
		}
		c.adminMu.Unlock()
	} else {
		p.f("admin queue: a command is in progress\n")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.sortedQueues() {
		if p.err == nil {
			p.err = q.Dump(w)
		}
	}
	return p.err
}

// registerLine is the registers in words. It holds mu, behind which Close ends,
// so that they stay mapped, but not while the text is written.
func (c *Controller) registerLine() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.State() == StateClosed {
		return "closed: the registers are not mapped any more"
	}
	return fmt.Sprintf("CAP %#x, VS %#x, CC %#x, CSTS %#x", c.regs.Read64(spec.RegCAP), c.regs.Read32(spec.RegVS),
		c.regs.Read32(spec.RegCC), c.regs.Read32(spec.RegCSTS))
}

// printer keeps the first error of many writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) f(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
