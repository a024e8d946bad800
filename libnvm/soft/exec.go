package soft

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/internal/spec"
)

var le = binary.LittleEndian

const rangeBytes = 16 // of a dataset management range

// begin starts a command that was just fetched.
func (t *thread) begin(c *command) {
	c.status, c.dw0, c.step, c.due = libnvm.StatusSuccess, 0, 0, 0
	c.state, c.fault = cmdWorking, Fault{}
	if t.c.cfg.Faults != nil || t.c.cfg.Pacer != nil {
		t.consult(c)
	}
	if c.sq.id == 0 {
		t.c.admin(t, c)
		return
	}
	c.status = t.prepare(c)
	if c.status == libnvm.StatusSuccess && c.fault.Status != 0 {
		c.status = c.fault.Status
		if c.fault.Transfer != 0 && len(c.op.Segments) > 0 {
			if n := c.fault.Transfer; n > 0 && n < c.op.Length {
				n -= n % int64(c.ns.blockSize) // backends move whole blocks
				truncate(c, uint64(n))
				c.op.Length = n
			}
			if c.op.Length > 0 {
				t.start(c)
				return
			}
		}
	}
	if c.status != libnvm.StatusSuccess {
		t.finish(c)
		return
	}
	t.start(c)
}

// consult asks the fault plan and the service-time model.
func (t *thread) consult(c *command) {
	i := &c.info
	*i = CommandInfo{Queue: c.sq.id, CID: c.sqe.CID, Opcode: c.sqe.Opcode, NSID: c.sqe.NSID, Seq: c.sq.fetched - 1}
	if c.sq.id != 0 {
		switch c.sqe.Opcode {
		case libnvm.OpRead, libnvm.OpWrite, libnvm.OpCompare, libnvm.OpWriteZeroes:
			lba, n := c.blocks()
			i.LBA, i.Blocks = lba, uint32(n)
			if ns := t.c.namespace(c.sqe.NSID); ns != nil && c.sqe.Opcode != libnvm.OpWriteZeroes {
				i.Bytes = int64(n) * int64(ns.blockSize)
			}
		}
	}
	if f := t.c.cfg.Faults; f != nil {
		c.fault = f.Command(i)
	}
	now := t.c.now()
	if p := t.c.cfg.Pacer; p != nil && c.sq.id != 0 {
		c.due = p.Finish(now, i)
	}
	if c.fault.Delay > 0 {
		c.due = max(c.due, now+c.fault.Delay)
	}
}

// prepare checks a command and sets up its first operation.
func (t *thread) prepare(c *command) libnvm.Status {
	c.op.Segments = c.op.Segments[:0]
	op := c.sqe.Opcode
	switch op {
	case libnvm.OpFlush, libnvm.OpRead, libnvm.OpWrite, libnvm.OpCompare, libnvm.OpWriteZeroes, libnvm.OpDataset:
	default:
		return libnvm.StatusInvalidOpcode
	}
	if c.sqe.Flags != 0 { // fused operations and SGLs are not offered
		return libnvm.StatusInvalidField
	}
	if op == libnvm.OpFlush && c.sqe.NSID == spec.AllNamespaces && len(t.c.namespaces) > 0 {
		c.ns = t.c.namespaces[0]
	} else if c.ns = t.c.namespace(c.sqe.NSID); c.ns == nil {
		return libnvm.StatusInvalidNamespace
	}
	c.op.Offset, c.op.Length, c.op.FUA = 0, 0, false
	switch op {
	case libnvm.OpFlush:
		c.op.Kind = OpFlush
		return libnvm.StatusSuccess
	case libnvm.OpDataset:
		return t.prepareDataset(c)
	}
	return t.prepareBlocks(c)
}

// prepareBlocks sets up a command with a range of blocks.
func (t *thread) prepareBlocks(c *command) libnvm.Status {
	lba, n := c.blocks()
	ns, size := c.ns, c.ns.blockSize
	if lba >= ns.blocks || n > ns.blocks-lba {
		return libnvm.StatusLBAOutOfRange
	}
	c.op.Offset, c.op.Length = int64(lba)*int64(size), int64(n)*int64(size)
	op := c.sqe.Opcode
	if ns.readOnly && (op == libnvm.OpWrite || op == libnvm.OpWriteZeroes) {
		return libnvm.StatusWriteProtected
	}
	if op == libnvm.OpWriteZeroes {
		c.op.Kind, c.op.FUA = OpWriteZeroes, c.sqe.CDW12>>30&1 == 1
		return libnvm.StatusSuccess
	}
	if m := t.c.cfg.MaxTransfer; m > 0 && c.op.Length > int64(m) {
		return libnvm.StatusInvalidField
	}
	if st := t.segments(c, uint64(c.op.Length)); st != libnvm.StatusSuccess {
		return st
	}
	switch op {
	case libnvm.OpRead:
		c.op.Kind = OpRead
		t.counts.reads++
		t.counts.readBytes += uint64(c.op.Length)
	case libnvm.OpWrite:
		c.op.Kind, c.op.FUA = OpWrite, c.sqe.CDW12>>30&1 == 1
		t.counts.writes++
		t.counts.writeBytes += uint64(c.op.Length)
	case libnvm.OpCompare:
		// The host's data goes to scratch; the store's comes to its other half.
		k := int(c.op.Length)
		c.data = grow(c.data, 2*k)
		copyIn(c.data[:k], c)
		c.op.Kind = OpRead
		c.op.Segments = append(c.op.Segments[:0], unix.Iovec{Base: unsafe.SliceData(c.data[k:]), Len: uint64(k)})
	}
	return libnvm.StatusSuccess
}

// prepareDataset copies the ranges, checks them all, and sets up the first.
func (t *thread) prepareDataset(c *command) libnvm.Status {
	n := int(c.sqe.CDW10&0xff) + 1
	if st := t.segments(c, uint64(n*rangeBytes)); st != libnvm.StatusSuccess {
		return st
	}
	c.data = grow(c.data, n*rangeBytes)
	copyIn(c.data, c)
	c.op.Segments = c.op.Segments[:0]
	for i := range n {
		lba, k := c.dataRange(i)
		if lba > c.ns.blocks || k > c.ns.blocks-lba {
			return libnvm.StatusLBAOutOfRange
		}
	}
	if c.ns.readOnly && c.sqe.CDW11&4 != 0 {
		return libnvm.StatusWriteProtected
	}
	c.op.Kind = OpDiscard
	c.setRange()
	return libnvm.StatusSuccess
}

// dataRange is the range number i of a dataset management command.
func (c *command) dataRange(i int) (lba, blocks uint64) {
	b := c.data[i*rangeBytes:]
	return le.Uint64(b[8:]), uint64(le.Uint32(b[4:]))
}

func (c *command) setRange() {
	lba, n := c.dataRange(c.step)
	if c.sqe.CDW11&4 == 0 { // only hints about future use: nothing to do
		n = 0
	}
	size := int64(c.ns.blockSize)
	c.op.Offset, c.op.Length = int64(lba)*size, int64(n)*size
}

// start hands the command's operation to its backend.
func (t *thread) start(c *command) {
	c.op.Status = libnvm.StatusSuccess
	if c.op.Kind != OpFlush && c.op.Length == 0 || t.channels[c.ns.id-1].Start(&c.op) {
		t.advance(c)
		return
	}
	t.working++
	c.sq.working++
}

// advance goes on after an operation: with the next step, or to the end.
func (t *thread) advance(c *command) {
	if c.op.Status != libnvm.StatusSuccess {
		c.status = c.op.Status
		t.finish(c)
		return
	}
	switch c.sqe.Opcode {
	case libnvm.OpRead:
		if c.fault.Corrupt {
			flipBit(c)
		}
	case libnvm.OpCompare:
		if k := int(c.op.Length); c.status == libnvm.StatusSuccess && !bytes.Equal(c.data[:k], c.data[k:2*k]) {
			c.status = libnvm.StatusCompareFailure
		}
	case libnvm.OpDataset:
		if c.step++; c.step <= int(c.sqe.CDW10&0xff) {
			c.setRange()
			t.start(c)
			return
		}
	case libnvm.OpFlush:
		if c.step++; c.sqe.NSID == spec.AllNamespaces && c.step < len(t.c.namespaces) {
			c.ns = t.c.namespaces[c.step]
			t.start(c)
			return
		}
	}
	t.finish(c)
}

// grow returns b with n bytes, which hold anything.
func grow(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}
