package soft

import (
	"slices"
	"time"
	"unsafe"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/internal/mmio"
	"github.com/tritier/tritier/libnvm/internal/spec"
)

// What stops a controller from serving.
const (
	haltNone = iota
	haltFatal
	haltGone
)

// hostState is what the host has set up. It belongs to the control thread.
type hostState struct {
	enabled  bool
	readyAt  time.Duration
	ready    bool
	shown    int32 // halted as the registers show it
	shut     bool
	cmbBase  uint64
	cmbOn    bool
	cqs      map[uint16]*completion
	sqs      map[uint16]*submission
	features map[uint8]uint32
	waiting  []*command // asynchronous event requests
	masked   [8]bool    // event types that were reported and whose log was not read
}

func (h *hostState) init() {
	h.cqs, h.sqs = map[uint16]*completion{}, map[uint16]*submission{}
	h.features = map[uint8]uint32{}
	h.waiting, h.masked = nil, [8]bool{}
}

// halt stops serving, with CSTS.CFS or with all registers reading ones.
func (c *Controller) halt(gone bool) {
	v := int32(haltFatal)
	if gone {
		v = haltGone
	}
	for old := c.halted.Load(); old < v && !c.halted.CompareAndSwap(old, v); old = c.halted.Load() {
	}
}

// Fail makes the controller report a fatal status (CSTS.CFS) until it is reset.
func (c *Controller) Fail() { c.halt(false) }

// Unplug makes the controller vanish: its registers read all ones.
func (c *Controller) Unplug() { c.halt(true) }

// Revive brings a vanished controller back, disabled as after power-on.
func (c *Controller) Revive() { c.revive.Store(true) }

// control looks at the registers and reports whether it had work.
func (c *Controller) control() bool {
	h := &c.host
	if c.revive.CompareAndSwap(true, false) {
		if !c.retireAll() {
			c.revive.Store(true)
			return true
		}
		c.resetRegisters()
		c.halted.Store(haltNone)
		h.shown = haltNone
		return true
	}
	if v := c.halted.Load(); v != h.shown {
		h.shown = v
		c.showHalt(v)
	}
	if h.shown == haltGone {
		return false
	}
	c.controlCMB()
	c.reportEvents(c.threads[0])
	cc := c.regs.Read32(spec.RegCC)
	switch en := cc&spec.CCEnable != 0; {
	case en && !h.enabled:
		h.enabled = true
		h.readyAt = c.now() + c.cfg.ReadyDelay
		return true
	case !en && h.enabled:
		return c.disable()
	case en && !h.ready && h.shown == haltNone:
		if c.now() < h.readyAt {
			return false
		}
		c.enable(cc)
		return true
	case en && h.ready && cc&spec.CCSHNMask != 0 && !h.shut:
		return c.shutDown()
	}
	return false
}

func (c *Controller) showHalt(v int32) {
	switch v {
	case haltFatal:
		c.regs.Write32(spec.RegCSTS, c.regs.Read32(spec.RegCSTS)|spec.CSTSFatal)
	case haltGone:
		for off := 0; off < c.cmbOffset; off += 4 {
			c.regs.Write32(off, 1<<32-1)
		}
	}
}

// resetRegisters puts all registers to what they are after power-on.
func (c *Controller) resetRegisters() {
	for off := 0; off < c.cmbOffset; off += 4 {
		c.regs.Write32(off, 0)
	}
	dstrd := uint64(0)
	for 4<<dstrd < c.cfg.DoorbellStride {
		dstrd++
	}
	units := uint64((c.cfg.ReadyTimeout + 500*time.Millisecond - 1) / (500 * time.Millisecond))
	caps := uint64(c.cfg.MaxDepth-1) | spec.CapCQR | units<<spec.CapTOShift | dstrd<<spec.CapDSTRDShift | spec.CapCSSNVM
	if c.cfg.CMBBytes > 0 {
		caps |= spec.CapCMBS
		c.regs.Write32(spec.RegCMBLOC, uint32(c.cmbOffset/pageSize)<<12) // BIR 0, in units of 4 KiB
		c.regs.Write32(spec.RegCMBSZ, uint32(c.cfg.CMBBytes/pageSize)<<12|spec.CMBSQS|spec.CMBCQS|spec.CMBLIST|spec.CMBRDS|spec.CMBWDS)
	}
	c.regs.Write64(spec.RegCAP, caps)
	c.regs.Write32(spec.RegVS, 1<<16|4<<8) // 1.4
}

// controlCMB makes the controller memory buffer a region where the host wants it.
func (c *Controller) controlCMB() {
	if c.cfg.CMBBytes == 0 {
		return
	}
	h := &c.host
	msc := c.regs.Read64(spec.RegCMBMSC)
	base := msc &^ (pageSize - 1)
	on := msc&spec.CMBCMSE != 0
	if on == h.cmbOn && base == h.cmbBase {
		return
	}
	c.arena.mu.Lock()
	defer c.arena.mu.Unlock()
	if h.cmbOn {
		c.arena.remove(h.cmbBase)
	}
	if on {
		c.arena.insert(region{base, uint64(c.cfg.CMBBytes), unsafe.Pointer(&c.arena.mem[c.cmbOffset])})
	}
	h.cmbOn, h.cmbBase = on, base
}

// enable takes the admin queue into use. What the specification does not allow
// makes the controller fail, as hardware does.
func (c *Controller) enable(cc uint32) {
	aqa := c.regs.Read32(spec.RegAQA)
	sqn, cqn := aqa&0xfff+1, aqa>>16&0xfff+1
	var l lookup
	sq := c.arena.resolve(c.regs.Read64(spec.RegASQ), uint64(sqn)*sqeSize, &l)
	cq := c.arena.resolve(c.regs.Read64(spec.RegACQ), uint64(cqn)*cqeSize, &l)
	sizes := cc>>16&0xf == 6 && cc>>20&0xf == 4
	if sq == nil || cq == nil || sqn < 2 || cqn < 2 || !sizes || cc&spec.CCMPSMask != 0 {
		c.halt(false)
		return
	}
	q := c.addCompletion(0, cqn, cq)
	c.addSubmission(0, sqn, sq, q)
	c.host.ready = true
	c.regs.Write32(spec.RegCSTS, spec.CSTSReady)
}

// disable ends everything that the host has set up. It reports false, and is
// tried again, while a backend still has commands.
func (c *Controller) disable() bool {
	if !c.retireAll() {
		return false
	}
	for off := spec.Doorbells; off < c.cmbOffset; off += 4 {
		c.regs.Write32(off, 0)
	}
	c.halted.CompareAndSwap(haltFatal, haltNone)
	h := &c.host
	h.shown = c.halted.Load()
	h.enabled, h.ready, h.shut = false, false, false
	c.regs.Write32(spec.RegCSTS, 0)
	return true
}

// retireAll takes every queue out of use.
func (c *Controller) retireAll() bool {
	for id, q := range c.host.sqs {
		if c.removeSubmission(q) != nil {
			return false
		}
		delete(c.host.sqs, id)
	}
	for id, q := range c.host.cqs {
		if c.removeCompletion(q) != nil {
			return false
		}
		delete(c.host.cqs, id)
	}
	c.host.enabled, c.host.ready = false, false
	c.host.init()
	c.events.clear()
	return true
}

// shutDown flushes every namespace and reports the shutdown as complete.
func (c *Controller) shutDown() bool {
	t := c.threads[0]
	for i, ch := range t.channels {
		op := &Op{Kind: OpFlush, cmd: &command{sq: &submission{}}}
		op.cmd.ns = c.namespaces[i]
		if ch.Start(op) {
			continue
		}
		ch.Submit()
		c.awaitFlush(t, ch, op)
	}
	c.host.shut = true
	c.regs.Write32(spec.RegCSTS, c.regs.Read32(spec.RegCSTS)&^uint32(spec.CSTSShutMa)|spec.CSTSShutOK)
	return true
}

// awaitFlush waits for one flush, and takes over what else finishes meanwhile.
func (c *Controller) awaitFlush(t *thread, ch Channel, flush *Op) {
	for end := time.Now().Add(settleTimeout); time.Now().Before(end); nap(10 * time.Microsecond) {
		for _, op := range ch.Reap(nil) {
			if op == flush {
				return
			}
			t.working--
			op.cmd.sq.working--
			t.advance(op.cmd)
		}
	}
}

// addCompletion gives a completion queue to its thread.
func (c *Controller) addCompletion(id uint16, depth uint32, base unsafe.Pointer) *completion {
	t := c.threads[int(id)%len(c.threads)]
	q := &completion{id: id, depth: depth, base: base, db: c.doorbell(2*int(id) + 1), phase: 1, thread: t}
	mmio.Store32(q.db, 0)
	if t.ask(func() { t.cqs = append(t.cqs, q) }) == nil {
		c.host.cqs[id] = q
	}
	return q
}

// addSubmission gives a submission queue to the thread of its completion queue.
func (c *Controller) addSubmission(id uint16, depth uint32, base unsafe.Pointer, cq *completion) {
	q := newSubmission(id, depth, base, c.doorbell(2*int(id)), cq)
	mmio.Store32(q.db, 0)
	t := cq.thread
	if t.ask(func() { t.sqs = append(t.sqs, q) }) == nil {
		c.host.sqs[id] = q
		cq.refs++
	}
}

// doorbell is the doorbell register number i. Queue ids were checked against
// Config.Queues, for which BAR0 was made.
func (c *Controller) doorbell(i int) *uint32 {
	return (*uint32)(unsafe.Pointer(&c.arena.mem[spec.Doorbells+i*c.cfg.DoorbellStride]))
}

// removeSubmission takes a submission queue from its thread, once no backend
// has a command of it. Commands that wait for their time complete as aborted.
func (c *Controller) removeSubmission(q *submission) error {
	t := q.cq.thread
	var failed error
	err := t.ask(func() {
		if failed = t.settle(q); failed != nil {
			return
		}
		t.sqs = without(t.sqs, q)
		t.abortWaiting(q, func(*command) bool { return true }, libnvm.StatusAbortedSQDeletion)
	})
	if err == nil {
		err = failed
	}
	if err == nil {
		q.cq.refs--
	}
	return err
}

func (c *Controller) removeCompletion(q *completion) error {
	t := q.thread
	return t.ask(func() { t.cqs = without(t.cqs, q) })
}

func without[T comparable](s []T, x T) []T {
	var out []T
	for _, y := range s {
		if y != x {
			out = append(out, y)
		}
	}
	return out
}

// abortWaiting completes commands of q that only wait for their time or turn.
// It runs on the queue's thread and returns how many.
func (t *thread) abortWaiting(q *submission, which func(*command) bool, st libnvm.Status) int {
	var hit []*command
	take := func(c *command) bool {
		if c.sq != q || !which(c) {
			return false
		}
		hit = append(hit, c)
		return true
	}
	t.timers.remove(take)
	t.gated = slices.DeleteFunc(t.gated, take)
	var held []*command
	for _, c := range q.cq.held {
		if !take(c) {
			held = append(held, c)
		}
	}
	q.cq.held = held
	for _, c := range hit {
		c.status = st
		t.post(c)
	}
	return len(hit)
}
