package libnvm

import (
	"errors"
	"fmt"

	"github.com/tritier/tritier/libnvm/internal/spec"
)

// Close shuts the controller down (CC.SHN), disables it and frees the queues.
// Outstanding requests end with ErrReset, and the quarantine of memory ends
// with the controller's access to it. No owner may be inside a method of a queue
// pair while it runs.
//
// A controller that is gone cannot be asked to let go of memory, and one that
// does not answer is an error. Then only closing the transport makes sure of
// that: until then quarantined memory stays so and the queues' memory stays
// allocated, afterwards Memory.Free works and the queues' memory is given back.
func (c *Controller) Close() error {
	c.adminMu.Lock()
	defer c.adminMu.Unlock()
	if c.State() == StateClosed {
		return nil
	}
	sick := c.health("close") // before the state changes, which says what to expect
	c.mu.Lock()
	qs := c.sortedQueues()
	c.setState(StateClosed) // under mu: nobody else looks at the registers from here on
	c.mu.Unlock()
	for _, q := range qs {
		q.fail(ErrReset)
		q.broken = ErrClosed
	}
	var down error
	if sick == nil && c.answers() {
		down = c.shutDown()
	}
	return errors.Join(down, c.stop())
}

// stop disables the controller and frees all memory. When it is not certain
// that the controller has let go of it, that is left to the transport's Close;
// that is an error only of a controller that is still there.
func (c *Controller) stop() error {
	if !c.answers() {
		return c.endMemory((*Memory).abandon)
	}
	err := c.disable()
	if err == nil {
		return c.freeAll()
	}
	if c.answers() {
		err = fmt.Errorf("%w; memory that it may still use can be freed once the transport is closed", err)
	} else {
		err = nil
	}
	return errors.Join(err, c.endMemory((*Memory).abandon))
}

// answers reports whether there is a controller at the registers. Where there
// is none, the bus gives ones, or zeroes: no controller has a CSTS of all ones
// or a CAP of zero.
func (c *Controller) answers() bool {
	return c.regs.Read32(spec.RegCSTS) != 1<<32-1 && c.regs.Read64(spec.RegCAP) != 0
}

// freeAll ends the quarantine and gives back all memory, once the controller
// uses none of it.
func (c *Controller) freeAll() error {
	c.mu.Lock()
	for _, q := range c.sortedQueues() {
		q.release()
	}
	c.mu.Unlock()
	if c.admin != nil {
		c.admin.release()
	}
	return c.endMemory((*Memory).Free)
}

// endMemory ends the memory of all queues and of admin commands, in the given
// way, and forgets it.
func (c *Controller) endMemory(end func(*Memory) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, q := range c.sortedQueues() {
		errs = append(errs, q.giveUp(end))
	}
	clear(c.queues)
	if c.admin != nil {
		errs = append(errs, c.admin.giveUp(end))
		c.admin.broken = ErrClosed
	}
	for _, m := range append(c.retired, c.scratch) {
		if m != nil {
			errs = append(errs, end(m))
		}
	}
	c.retired, c.scratch = nil, nil
	return errors.Join(errs...)
}

// shutDown is a normal shutdown: the controller writes back what it caches.
func (c *Controller) shutDown() error {
	cc := c.regs.Read32(spec.RegCC)
	if cc&spec.CCEnable == 0 {
		return nil
	}
	c.regs.Write32(spec.RegCC, cc&^uint32(spec.CCSHNMask)|spec.CCSHNNorm)
	err := c.await("shutdown", spec.CSTSShutMa, spec.CSTSShutOK)
	var te *TimeoutError
	if errors.As(err, &te) {
		return nil // a controller that does not finish is disabled all the same
	}
	return err
}
