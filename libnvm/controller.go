package libnvm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tritier/tritier/libnvm/internal/spec"
)

// Controller is an NVMe controller that this driver has brought up.
//
// Lock order: admin before mu. The admin lock is held while an admin command is
// outstanding, mu only for moments. The transport unmaps the registers after
// Close, so whoever touches them holds the admin lock or mu and has seen that the
// state is not StateClosed, or is the owner of a queue pair that is not broken.
type Controller struct {
	tr     Transport
	regs   Registers
	cfg    Config
	caps   uint64
	stride int // bytes between doorbells
	state  atomic.Uint32

	adminMu sync.Mutex
	admin   *QueuePair
	scratch *Memory   // data of admin commands, under adminMu
	retired []*Memory // scratch memory that timed-out admin commands may still use
	events  eventState
	cmb     controllerMemory

	mu      sync.Mutex
	queues  map[uint16]*QueuePair
	granted int // I/O queue pairs

	info        ControllerInfo
	maxTransfer int
}

// Open brings the controller behind the transport up: whatever it did before
// is ended by a reset. The transport stays the caller's to close, after
// Controller.Close.
func Open(tr Transport, cfg Config) (*Controller, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Controller{tr: tr, regs: tr.Registers(), cfg: cfg, queues: map[uint16]*QueuePair{}}
	c.adminMu.Lock()
	defer c.adminMu.Unlock()
	if err := c.bringUp(); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// Transport is the transport that the controller is reached by.
func (c *Controller) Transport() Transport { return c.tr }

// Info is what Identify Controller said.
func (c *Controller) Info() ControllerInfo { return c.info }

// MaxTransfer is the most bytes that one command moves; larger requests are split.
func (c *Controller) MaxTransfer() int { return c.maxTransfer }

// MaxDepth is the most entries that an I/O queue can have, CAP.MQES + 1.
func (c *Controller) MaxDepth() int { return int(c.caps&0xffff) + 1 }

// QueueLimit is the number of I/O queue pairs that the controller granted.
func (c *Controller) QueueLimit() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.granted
}

// health tells a working controller from one that is gone, has failed, or is
// not ready any more.
func (c *Controller) health(what string) error {
	csts := c.regs.Read32(spec.RegCSTS)
	lost := csts&spec.CSTSReady == 0 && c.enabled()
	if lost {
		// Reset, which may run in another goroutine, sets the state before it
		// clears CC.EN. If it has come to its end since, CSTS has changed.
		csts = c.regs.Read32(spec.RegCSTS)
		lost = csts&spec.CSTSReady == 0 && c.enabled()
	}
	switch {
	case csts == 1<<32-1:
		return &DeviceGoneError{what}
	case csts&spec.CSTSFatal != 0:
		return &ControllerFatalError{what, csts}
	case lost:
		return &NotReadyError{what, csts, c.regs.Read32(spec.RegCC), !c.answers()}
	}
	return nil
}

// enabled reports whether the driver has the controller enabled and has seen
// it become ready.
func (c *Controller) enabled() bool {
	s := c.State()
	return s == StateIdentifying || s == StateReady
}

// Health returns nil, a *DeviceGoneError, a *ControllerFatalError or a
// *NotReadyError, or ErrClosed after Close. It costs one register read when the
// controller is well.
func (c *Controller) Health() error {
	c.mu.Lock() // Close ends behind this: the registers stay mapped meanwhile
	defer c.mu.Unlock()
	if c.State() == StateClosed {
		return ErrClosed
	}
	return c.health("health check")
}

// doorbellOffsets are the offsets of a queue's doorbells (3.1.3.25: 1000h +
// (2y) * (4 << CAP.DSTRD)).
func (c *Controller) doorbellOffsets(id uint16) (sq, cq int) {
	sq = spec.Doorbells + 2*int(id)*c.stride
	return sq, sq + c.stride
}

// can reports whether the controller offers an optional command.
func (c *Controller) can(op Opcode) bool {
	switch op {
	case OpRead, OpWrite, OpFlush:
		return true
	case OpCompare:
		return c.info.ONCS&spec.ONCSCompare != 0
	case OpDataset:
		return c.info.ONCS&spec.ONCSDataset != 0
	case OpWriteZeroes:
		return c.info.ONCS&spec.ONCSWriteZeroes != 0
	}
	return false
}

// sortedQueues are the I/O queue pairs in the order of their ids. Needs mu.
func (c *Controller) sortedQueues() []*QueuePair {
	var qs []*QueuePair
	for _, id := range slices.Sorted(maps.Keys(c.queues)) {
		qs = append(qs, c.queues[id])
	}
	return qs
}

// Reset disables the controller, brings it up again and makes every I/O queue
// pair anew under its id. Outstanding requests end with ErrReset, the
// quarantine of timed-out ones ends. No owner may be inside a method of a queue
// pair while it runs.
func (c *Controller) Reset() error {
	c.adminMu.Lock()
	defer c.adminMu.Unlock()
	if c.State() == StateClosed {
		return ErrClosed
	}
	c.mu.Lock()
	qs := c.sortedQueues()
	c.mu.Unlock()
	for _, q := range qs {
		q.endAll(ErrReset)
	}
	before := c.info
	err := c.bringUp()
	if err == nil && (before.Serial != c.info.Serial || before.maxTransfer != c.info.maxTransfer) {
		err = &ProtocolError{"reset", "the controller came back with another serial number or transfer size; open it anew"}
	}
	if err != nil {
		for _, q := range qs {
			q.broken = err
		}
		return err
	}
	var errs []error
	for _, q := range qs {
		q.release()
		if err := c.establish(q); err != nil {
			q.broken = err
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// readyTimeout is CAP.TO, in units of 500 ms, bounded by the configuration.
func (c *Controller) readyTimeout() time.Duration {
	d := time.Duration(max(c.caps>>spec.CapTOShift&0xff, 1)) * 500 * time.Millisecond
	if c.cfg.ReadyTimeout > 0 {
		d = min(d, c.cfg.ReadyTimeout)
	}
	return d
}

// await polls CSTS until the bits of mask have the value want.
func (c *Controller) await(what string, mask, want uint32) error {
	limit := c.readyTimeout()
	begun := time.Now()
	pause := 10 * time.Microsecond
	for {
		csts := c.regs.Read32(spec.RegCSTS)
		waited := time.Since(begun)
		switch {
		case csts == 1<<32-1:
			return &DeviceGoneError{what}
		case csts&mask == want:
			return nil
		case csts&spec.CSTSFatal != 0 && want != 0:
			return &ControllerFatalError{what, csts}
		case waited > limit:
			return &TimeoutError{what, limit, fmt.Sprintf("CSTS %#x, CC %#x", csts, c.regs.Read32(spec.RegCC))}
		}
		time.Sleep(pause)
		pause = min(pause*2, time.Millisecond)
	}
}
