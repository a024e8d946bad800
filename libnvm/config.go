package libnvm

import (
	"errors"
	"fmt"
	"time"
)

// Config says how to drive a controller. The zero value is a good start.
type Config struct {
	// Queues is how many I/O queue pairs to ask the controller for. It may
	// grant fewer, see Controller.QueueLimit. Default 128.
	Queues int
	// AdminDepth is the depth of the admin queue, 2 to 4096. Default 32.
	AdminDepth int
	// MaxTransfer is the most bytes that one command moves, a multiple of
	// PageSize; the controller's MDTS may lower it. Every command id of a queue
	// pair gets a PRP list of this size. Default 1 MiB.
	MaxTransfer int
	// IOTimeout is the deadline of requests that bring none. Default 30 s.
	IOTimeout time.Duration
	// AdminTimeout is the deadline of admin commands. Default 10 s.
	AdminTimeout time.Duration
	// ReadyTimeout, if above zero, bounds each wait for the controller to
	// become ready or to shut down, which otherwise takes as long as CAP.TO
	// allows (up to 128 s).
	ReadyTimeout time.Duration
	// CMBBase is the address that the controller memory buffer gets in the
	// controller's address space. It must be free of other memory. Default 1 << 46.
	CMBBase uint64
}

// withDefaults fills in defaults and reports all violations together.
func (c Config) withDefaults() (Config, error) {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.Queues, 128)
	def(&c.AdminDepth, 32)
	def(&c.MaxTransfer, 1<<20)
	if c.IOTimeout == 0 {
		c.IOTimeout = 30 * time.Second
	}
	if c.AdminTimeout == 0 {
		c.AdminTimeout = 10 * time.Second
	}
	if c.CMBBase == 0 {
		c.CMBBase = 1 << 46
	}
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("libnvm: config: "+format, args...))
		}
	}
	bad(c.Queues >= 1 && c.Queues < MaxQueueDepth, "Queues %d is not in 1..65535", c.Queues)
	bad(c.AdminDepth >= 2 && c.AdminDepth <= 4096, "AdminDepth %d is not in 2..4096", c.AdminDepth)
	bad(c.MaxTransfer >= PageSize && c.MaxTransfer%PageSize == 0 && c.MaxTransfer <= 1<<30,
		"MaxTransfer %d is not a multiple of %d up to 1 GiB", c.MaxTransfer, PageSize)
	bad(c.IOTimeout > 0 && c.AdminTimeout > 0 && c.ReadyTimeout >= 0, "negative time-out")
	bad(c.CMBBase%PageSize == 0, "CMBBase %#x is not page-aligned", c.CMBBase)
	return c, errors.Join(errs...)
}
