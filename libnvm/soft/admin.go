package soft

import (
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/internal/spec"
)

// admin executes an admin command, on the control thread.
func (c *Controller) admin(t *thread, cmd *command) {
	if f := cmd.fault.Status; f != 0 {
		cmd.status = f
		t.finish(cmd)
		return
	}
	s := &cmd.sqe
	if s.Flags != 0 {
		cmd.status = libnvm.StatusInvalidField
		t.finish(cmd)
		return
	}
	switch s.Opcode {
	case libnvm.AdminCreateCQ:
		cmd.status = c.createCQ(s)
	case libnvm.AdminCreateSQ:
		cmd.status = c.createSQ(s)
	case libnvm.AdminDeleteSQ:
		cmd.status = c.deleteSQ(uint16(s.CDW10))
	case libnvm.AdminDeleteCQ:
		cmd.status = c.deleteCQ(uint16(s.CDW10))
	case libnvm.AdminIdentify:
		cmd.status = c.identify(t, cmd)
	case libnvm.AdminGetLogPage:
		cmd.status = c.logPage(t, cmd)
	case libnvm.AdminSetFeatures:
		cmd.dw0, cmd.status = c.setFeature(s)
	case libnvm.AdminGetFeatures:
		cmd.dw0, cmd.status = c.getFeature(s)
	case libnvm.AdminAbort:
		cmd.dw0 = c.abort(uint16(s.CDW10), uint16(s.CDW10>>16))
	case libnvm.AdminAsyncEvent:
		if len(c.host.waiting) >= eventLimit {
			cmd.status = libnvm.StatusAERLimitExceeded
			break
		}
		cmd.state = cmdEvent
		c.host.waiting = append(c.host.waiting, cmd)
		c.reportEvents(t)
		return
	default:
		cmd.status = libnvm.StatusInvalidOpcode
	}
	t.finish(cmd)
	c.reportEvents(t)
}

// queueArgs checks what the two create commands have in common.
func (c *Controller) queueArgs(s *libnvm.Command, exists bool) (id uint16, depth uint32, st libnvm.Status) {
	id, depth = uint16(s.CDW10), s.CDW10>>16+1
	switch {
	case id == 0 || int(id) > c.cfg.Queues || exists:
		return 0, 0, libnvm.StatusInvalidQueueID
	case depth < 2 || int(depth) > c.cfg.MaxDepth:
		return 0, 0, libnvm.StatusInvalidQueueSize
	case s.CDW11&1 == 0: // CAP.CQR: contiguous queues only
		return 0, 0, libnvm.StatusInvalidField
	case s.PRP1%pageSize != 0:
		return 0, 0, libnvm.StatusPRPOffsetInvalid
	}
	return id, depth, libnvm.StatusSuccess
}

func (c *Controller) createCQ(s *libnvm.Command) libnvm.Status {
	_, exists := c.host.cqs[uint16(s.CDW10)]
	id, depth, st := c.queueArgs(s, exists)
	if st != libnvm.StatusSuccess {
		return st
	}
	if s.CDW11&2 != 0 { // interrupts: there are none
		return libnvm.StatusInvalidVector
	}
	var l lookup
	base := c.arena.resolve(s.PRP1, uint64(depth)*cqeSize, &l)
	if base == nil {
		return libnvm.StatusInvalidField
	}
	c.addCompletion(id, depth, base)
	return libnvm.StatusSuccess
}

func (c *Controller) createSQ(s *libnvm.Command) libnvm.Status {
	_, exists := c.host.sqs[uint16(s.CDW10)]
	id, depth, st := c.queueArgs(s, exists)
	if st != libnvm.StatusSuccess {
		return st
	}
	cqid := uint16(s.CDW11 >> 16)
	cq := c.host.cqs[cqid]
	if cq == nil || cqid == 0 {
		return libnvm.StatusInvalidCQ
	}
	var l lookup
	base := c.arena.resolve(s.PRP1, uint64(depth)*sqeSize, &l)
	if base == nil {
		return libnvm.StatusInvalidField
	}
	c.addSubmission(id, depth, base, cq)
	return libnvm.StatusSuccess
}

func (c *Controller) deleteSQ(id uint16) libnvm.Status {
	q := c.host.sqs[id]
	if q == nil || id == 0 {
		return libnvm.StatusInvalidQueueID
	}
	if c.removeSubmission(q) != nil {
		return libnvm.StatusInternalError
	}
	delete(c.host.sqs, id)
	return libnvm.StatusSuccess
}

func (c *Controller) deleteCQ(id uint16) libnvm.Status {
	q := c.host.cqs[id]
	switch {
	case q == nil || id == 0:
		return libnvm.StatusInvalidQueueID
	case q.refs > 0:
		return libnvm.StatusInvalidQueueDelete
	}
	if c.removeCompletion(q) != nil {
		return libnvm.StatusInternalError
	}
	delete(c.host.cqs, id)
	return libnvm.StatusSuccess
}

// abort ends a command that only waits for its completion. Dword 0 of the
// result has bit 0 clear when it did.
func (c *Controller) abort(sqid, cid uint16) uint32 {
	q := c.host.sqs[sqid]
	if q == nil || sqid == 0 {
		return 1
	}
	n := 0
	t := q.cq.thread
	err := t.ask(func() {
		n = t.abortWaiting(q, func(x *command) bool { return x.sqe.CID == cid }, libnvm.StatusAbortRequested)
	})
	if err != nil || n == 0 {
		return 1
	}
	return 0
}

// features that can be set, and their values after a reset. Number of queues is
// apart.
var featureDefaults = map[uint8]uint32{
	spec.FeatArbitration: 0, spec.FeatPower: 0, spec.FeatTemperature: 343, spec.FeatErrorRecover: 0,
	spec.FeatWriteCache: 1, spec.FeatAtomicity: 0, spec.FeatAsyncEvents: 0, spec.FeatCoalescing: 0,
}

func (c *Controller) setFeature(s *libnvm.Command) (uint32, libnvm.Status) {
	id := uint8(s.CDW10)
	if s.CDW10>>31 == 1 {
		return 0, libnvm.StatusFeatureNotSaveable
	}
	if id == spec.FeatQueues {
		if len(c.host.sqs)+len(c.host.cqs) > 2 { // some besides the admin queue
			return 0, libnvm.StatusCommandSequence
		}
		if s.CDW11&0xffff == 0xffff || s.CDW11>>16 == 0xffff {
			return 0, libnvm.StatusInvalidField
		}
		n := uint32(c.cfg.Queues - 1)
		return n<<16 | n, libnvm.StatusSuccess
	}
	if _, ok := featureDefaults[id]; !ok {
		return 0, libnvm.StatusInvalidField
	}
	c.host.features[id] = s.CDW11
	return 0, libnvm.StatusSuccess
}

func (c *Controller) getFeature(s *libnvm.Command) (uint32, libnvm.Status) {
	id, sel := uint8(s.CDW10), s.CDW10>>8&7
	if id == spec.FeatQueues {
		n := uint32(c.cfg.Queues - 1)
		return n<<16 | n, libnvm.StatusSuccess
	}
	v, ok := featureDefaults[id]
	if !ok || sel > 3 {
		return 0, libnvm.StatusInvalidField
	}
	if set, ok := c.host.features[id]; ok && sel == 0 {
		v = set
	}
	if sel == 3 { // supported capabilities: changeable
		v = 4
	}
	return v, libnvm.StatusSuccess
}
