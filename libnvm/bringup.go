package libnvm

import (
	"errors"
	"fmt"

	"github.com/tritier/tritier/libnvm/internal/spec"
)

// State is where a controller stands.
type State uint32

// The states of a controller, in the order of bring-up.
const (
	StateNew         State = iota
	StateDisabling         // CC.EN was cleared, CSTS.RDY is awaited to fall
	StateConfiguring       // disabled; the admin queue is set up
	StateEnabling          // CC.EN was set, CSTS.RDY is awaited to rise
	StateIdentifying       // ready; identify data and the number of queues are asked for
	StateReady
	StateFailed // bring-up did not succeed; only Reset and Close are of use
	StateClosed
)

func (s State) String() string {
	names := [...]string{"new", "disabling", "configuring", "enabling", "identifying", "ready", "failed", "closed"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", uint32(s))
}

// State is where the controller stands now.
func (c *Controller) State() State { return State(c.state.Load()) }

func (c *Controller) setState(s State) { c.state.Store(uint32(s)) }

// bringUp runs the state machine from a reset to ready. Each step has its own
// deadline and names the next; the machine is the same for the first start and
// for a reset. Needs adminMu.
func (c *Controller) bringUp() error {
	steps := map[State]func() (State, error){
		StateDisabling:   c.stepDisable,
		StateConfiguring: c.stepConfigure,
		StateEnabling:    c.stepEnable,
		StateIdentifying: c.stepIdentify,
	}
	for s := StateDisabling; s != StateReady; {
		c.setState(s)
		next, err := steps[s]()
		if err != nil {
			c.setState(StateFailed)
			return fmt.Errorf("bring-up, %s: %w", s, err)
		}
		s = next
	}
	c.setState(StateReady)
	return nil
}

// stepDisable reads the capabilities and resets the controller.
func (c *Controller) stepDisable() (State, error) {
	c.caps = c.regs.Read64(spec.RegCAP)
	if c.caps == 1<<64-1 {
		return 0, &DeviceGoneError{"read CAP"}
	}
	if n := c.caps >> spec.CapMPSMINSh & 0xf; n != 0 {
		return 0, &UnsupportedError{"the controller's page size", fmt.Sprintf("its smallest is %d bytes, the driver uses 4096", 4096<<n)}
	}
	if c.caps&(spec.CapCSSNVM|spec.CapCSSMany) == 0 && c.caps&spec.CapCSSNone != 0 {
		return 0, &UnsupportedError{"the controller's command set", "it has no I/O command set"}
	}
	if c.caps&0xffff == 0 {
		return 0, &ProtocolError{"CAP.MQES", "queues of one entry; the least that the specification allows is two"}
	}
	c.stride = 4 << (c.caps >> spec.CapDSTRDShift & 0xf)
	return StateConfiguring, c.disable()
}

// disable clears CC.EN and waits for the controller to let go of all memory.
func (c *Controller) disable() error {
	cc := c.regs.Read32(spec.RegCC)
	csts := c.regs.Read32(spec.RegCSTS)
	if cc&spec.CCEnable != 0 && csts&(spec.CSTSReady|spec.CSTSFatal) == 0 {
		// An enable that is under way must end before EN may be cleared
		// (3.5.1). One that never ends is cut short by the reset.
		if err := c.await("an earlier enable", spec.CSTSReady, spec.CSTSReady); err != nil {
			var gone *DeviceGoneError
			if errors.As(err, &gone) {
				return err
			}
		}
	}
	c.regs.Write32(spec.RegCC, cc&^uint32(spec.CCEnable|spec.CCSHNMask))
	if err := c.await("disable", spec.CSTSReady, 0); err != nil {
		return err
	}
	if !c.answers() { // what a bus without a device gives is no CSTS.RDY that has fallen
		return &NotReadyError{"disable", 0, 0, true}
	}
	return nil
}

// stepConfigure ends what the controller can no longer do, and points it to the
// admin queue.
func (c *Controller) stepConfigure() (State, error) {
	if c.admin == nil {
		q := newQueuePair(c, 0, min(c.cfg.AdminDepth, c.MaxDepth()))
		if err := q.allocate(QueueConfig{}); err != nil {
			return 0, err
		}
		c.admin = q
	} else {
		c.admin.endAll(ErrReset)
		c.admin.drain()
		c.admin.release()
	}
	c.freeRetired()
	if err := c.admin.attach(); err != nil {
		return 0, err
	}
	n := c.admin.depth - 1
	c.regs.Write32(spec.RegAQA, n<<16|n)
	c.regs.Write64(spec.RegASQ, c.admin.sqMem.iova(0))
	c.regs.Write64(spec.RegACQ, c.admin.cqMem.iova(0))
	return StateEnabling, nil
}

// freeRetired gives back scratch memory that timed-out admin commands had held.
func (c *Controller) freeRetired() {
	kept := c.retired[:0]
	for _, m := range c.retired {
		if m.Free() != nil {
			kept = append(kept, m)
		}
	}
	c.retired = kept
}

func (c *Controller) stepEnable() (State, error) {
	cc := uint32(spec.CCIOCQES | spec.CCIOSQES | spec.CCEnable)
	if c.caps&spec.CapCSSMany != 0 {
		cc |= spec.CCCSSMany
	}
	c.regs.Write32(spec.RegCC, cc)
	return StateIdentifying, c.await("enable", spec.CSTSReady, spec.CSTSReady)
}

// stepIdentify learns the controller's limits.
func (c *Controller) stepIdentify() (State, error) {
	b, err := c.identifyLocked(spec.CNSController, 0, 0)
	if err != nil {
		return 0, err
	}
	if c.info, err = parseController(b); err != nil {
		return 0, err
	}
	c.maxTransfer = c.cfg.MaxTransfer
	if c.info.maxTransfer > 0 {
		c.maxTransfer = min(c.maxTransfer, c.info.maxTransfer)
	}
	// Set Features 07h may be sent once after a reset, before any I/O queue exists.
	n := uint32(c.cfg.Queues - 1)
	got, err := c.adminLocked(&Command{Opcode: AdminSetFeatures, CDW10: spec.FeatQueues, CDW11: n<<16 | n}, nil)
	if err != nil {
		return 0, fmt.Errorf("ask for %d queues: %w", c.cfg.Queues, err)
	}
	c.mu.Lock()
	c.granted = min(int(got&0xffff)+1, int(got>>16)+1, c.cfg.Queues)
	c.mu.Unlock()
	c.events.outstanding = 0
	if c.events.enabled {
		if err := c.armEvents(); err != nil {
			return 0, err
		}
	}
	return StateReady, c.setUpCMB()
}
