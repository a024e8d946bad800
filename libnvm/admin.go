package libnvm

import (
	"errors"
	"fmt"

	"github.com/tritier/tritier/libnvm/internal/spec"
)

// Admin sends an admin command as it is and waits for it. data, which may be
// nil, is the memory that its addresses lie in. It returns dword 0 of the
// completion.
func (c *Controller) Admin(cmd *Command, data *Memory) (uint32, error) {
	c.adminMu.Lock()
	defer c.adminMu.Unlock()
	return c.adminLocked(cmd, data)
}

// adminLocked is Admin for those that hold adminMu.
func (c *Controller) adminLocked(cmd *Command, data *Memory) (uint32, error) {
	if c.admin == nil || c.State() == StateClosed {
		return 0, fmt.Errorf("%s: %w", cmd.Opcode.Name(true), ErrClosed)
	}
	t, err := c.admin.SubmitCommand(cmd, data, 0, c.cfg.AdminTimeout)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", cmd.Opcode.Name(true), err)
	}
	done, err := c.admin.Wait(t, 0)
	return done.DW0, err
}

const scratchBytes = PageSize

// withScratch runs an admin command that moves up to a page of data. It leaves
// the data in the scratch memory, and a timed-out command its own piece of it.
func (c *Controller) withScratch(cmd *Command) ([]byte, uint32, error) {
	if c.State() == StateClosed { // before memory is asked for, which nobody would free
		return nil, 0, fmt.Errorf("%s: %w", cmd.Opcode.Name(true), ErrClosed)
	}
	if c.scratch != nil && c.scratch.Held() > 0 {
		c.retired = append(c.retired, c.scratch)
		c.scratch = nil
	}
	if c.scratch == nil {
		m, err := c.tr.Alloc(scratchBytes)
		if err != nil {
			return nil, 0, fmt.Errorf("memory of admin commands: %w", err)
		}
		c.scratch = m
	}
	b := c.scratch.buf[:scratchBytes]
	clear(b)
	cmd.PRP1 = c.scratch.iova(0)
	dw0, err := c.adminLocked(cmd, c.scratch)
	return b, dw0, err
}

// Identify returns the 4096 bytes of an Identify data structure.
func (c *Controller) Identify(cns uint8, nsid uint32, csi uint8) ([]byte, error) {
	c.adminMu.Lock()
	defer c.adminMu.Unlock()
	return c.identifyLocked(cns, nsid, csi)
}

func (c *Controller) identifyLocked(cns uint8, nsid uint32, csi uint8) ([]byte, error) {
	b, _, err := c.withScratch(&Command{Opcode: AdminIdentify, NSID: nsid, CDW10: uint32(cns), CDW11: uint32(csi) << 24})
	if err != nil {
		return nil, err
	}
	return append([]byte(nil), b...), nil
}

// GetFeature returns the current value of a feature. nsid is 0 for features
// that belong to the controller.
func (c *Controller) GetFeature(id uint8, nsid uint32) (uint32, error) {
	return c.Admin(&Command{Opcode: AdminGetFeatures, NSID: nsid, CDW10: uint32(id)}, nil)
}

// SetFeature sets a feature that has no data structure and returns dword 0 of
// the completion. save asks for the value to survive a power cycle.
func (c *Controller) SetFeature(id uint8, nsid, value uint32, save bool) (uint32, error) {
	cmd := Command{Opcode: AdminSetFeatures, NSID: nsid, CDW10: uint32(id), CDW11: value}
	if save {
		cmd.CDW10 |= 1 << 31
	}
	return c.Admin(&cmd, nil)
}

// LogPage fills buf, a multiple of 4 bytes, with a log page from its start.
// Reading it clears the asynchronous event that announced it.
func (c *Controller) LogPage(id uint8, nsid uint32, buf []byte) error {
	c.adminMu.Lock()
	defer c.adminMu.Unlock()
	return c.logPageLocked(id, nsid, buf)
}

func (c *Controller) logPageLocked(id uint8, nsid uint32, buf []byte) error {
	if len(buf)%4 != 0 || len(buf) == 0 {
		return &UnsupportedError{"a log page buffer", fmt.Sprintf("%d bytes are not a multiple of 4", len(buf))}
	}
	for at := 0; at < len(buf); at += scratchBytes {
		n := min(len(buf)-at, scratchBytes)
		dwords := uint32(n/4 - 1)
		b, _, err := c.withScratch(&Command{
			Opcode: AdminGetLogPage, NSID: nsid, CDW10: uint32(id) | dwords<<16, CDW11: dwords >> 16, CDW12: uint32(at),
		})
		if err != nil {
			return fmt.Errorf("log page %#02x: %w", id, err)
		}
		copy(buf[at:at+n], b)
	}
	return nil
}

// Abort asks the controller to abort the commands of an outstanding request
// (the owner of the queue pair calls it). It returns how many the controller
// says it aborted; those complete with StatusAbortRequested, the others as they
// would have. The request ends as usual, through Poll or Wait.
func (c *Controller) Abort(q *QueuePair, t Ticket) (int, error) {
	i := q.find(t)
	if i == noRequest {
		return 0, ErrUnknownTicket
	}
	if q.unsent == i {
		q.cancelUnsent(ErrReset)
	}
	n := 0
	var errs []error
	for k := range q.slots {
		s := &q.slots[k]
		if s.state != slotOutstanding || s.req != i {
			continue
		}
		dw0, err := c.Admin(&Command{Opcode: AdminAbort, CDW10: uint32(q.id) | uint32(s.cid)<<16}, nil)
		if err != nil {
			errs = append(errs, err)
		} else if dw0&1 == 0 {
			n++
		}
	}
	return n, errors.Join(errs...)
}

// SetWriteCache switches the volatile write cache on or off.
func (c *Controller) SetWriteCache(on bool) error {
	v := uint32(0)
	if on {
		v = 1
	}
	_, err := c.SetFeature(spec.FeatWriteCache, 0, v, false)
	return err
}
