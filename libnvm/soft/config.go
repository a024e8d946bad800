package soft

import (
	"errors"
	"fmt"
	"time"

	"github.com/tritier/tritier/libnvm"
)

// NamespaceConfig is one namespace. Namespace ids count from 1 in the order of
// Config.Namespaces.
type NamespaceConfig struct {
	Backend   Backend // closed by Controller.Close
	BlockSize int     // 512 to 65536, a power of two; default 4096
	ReadOnly  bool    // writes end with Namespace is Write Protected
}

// Config describes the controller to make.
type Config struct {
	Namespaces []NamespaceConfig
	// Threads is the number of service threads. Default 1.
	Threads int
	// Queues is how many I/O queue pairs the controller grants. Default 128.
	Queues int
	// MaxDepth is the most entries of a queue (CAP.MQES + 1), 2 to 65536. Default 4096.
	MaxDepth int
	// DoorbellStride is the distance between doorbells in bytes, 4 << CAP.DSTRD.
	// The default of 64 keeps each in a cache line of its own.
	DoorbellStride int
	// MaxTransfer is the most bytes of a command (MDTS), a power of two of 4096
	// bytes, or below 0 for no limit. Default 1 MiB.
	MaxTransfer int
	// ReadyTimeout is CAP.TO, in steps of 500 ms. Default 5 s.
	ReadyTimeout time.Duration
	// ReadyDelay is how long the controller takes to become ready. Default 0.
	ReadyDelay time.Duration
	// CMBBytes is the size of the controller memory buffer, a multiple of 4096. Default none.
	CMBBytes int
	// MemoryLimit bounds what Alloc gives out in all. The address space is
	// reserved at once, memory is used as it is touched. Default 16 GiB.
	MemoryLimit int64
	// Serial and Model are what Identify reports.
	Serial, Model string
	// Faults and Pacer may be nil.
	Faults Faults
	Pacer  Pacer

	general bool // no fast path, for tests that compare
}

// fastLimit is the most bytes of a command on the fast path, 0 for none: a fault
// or a pacer may change any command.
func (c *Config) fastLimit() uint64 {
	switch {
	case c.general || c.Faults != nil || c.Pacer != nil:
		return 0
	case c.MaxTransfer > 0:
		return uint64(c.MaxTransfer)
	}
	return 1 << 63
}

// withDefaults fills in defaults and reports all violations together.
func (c Config) withDefaults() (Config, error) {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.Threads, 1)
	def(&c.Queues, 128)
	def(&c.MaxDepth, 4096)
	def(&c.DoorbellStride, 64)
	def(&c.MaxTransfer, 1<<20)
	if c.ReadyTimeout == 0 {
		c.ReadyTimeout = 5 * time.Second
	}
	if c.MemoryLimit == 0 {
		c.MemoryLimit = 16 << 30
	}
	if c.Serial == "" {
		c.Serial = "SOFT0001"
	}
	if c.Model == "" {
		c.Model = "tritier software controller"
	}
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("soft: config: "+format, args...))
		}
	}
	power := func(n int) bool { return n > 0 && n&(n-1) == 0 }
	bad(c.Threads >= 1 && c.Threads <= 256, "Threads %d is not in 1..256", c.Threads)
	bad(c.Queues >= 1 && c.Queues < libnvm.MaxQueueDepth, "Queues %d is not in 1..65535", c.Queues)
	bad(c.MaxDepth >= 2 && c.MaxDepth <= libnvm.MaxQueueDepth, "MaxDepth %d is not in 2..65536", c.MaxDepth)
	bad(power(c.DoorbellStride) && c.DoorbellStride >= 4 && c.DoorbellStride <= 4<<15, "DoorbellStride %d is not a power of two from 4", c.DoorbellStride)
	bad(c.MaxTransfer < 0 || power(c.MaxTransfer) && c.MaxTransfer >= libnvm.PageSize && c.MaxTransfer <= 1<<30,
		"MaxTransfer %d is not a power of two from 4096 to 1 GiB", c.MaxTransfer)
	bad(c.ReadyTimeout > 0 && c.ReadyTimeout <= 255*500*time.Millisecond, "ReadyTimeout %v is not within 127.5 s", c.ReadyTimeout)
	bad(c.CMBBytes >= 0 && c.CMBBytes%libnvm.PageSize == 0 && c.CMBBytes <= 1<<30, "CMBBytes %d is not a multiple of 4096 up to 1 GiB", c.CMBBytes)
	bad(c.MemoryLimit >= 1<<20, "MemoryLimit %d is below 1 MiB", c.MemoryLimit)
	bad(len(c.Serial) <= 20 && len(c.Model) <= 40, "Serial or Model is longer than 20 or 40 bytes")
	bad(len(c.Namespaces) <= 1024, "%d namespaces are more than 1024", len(c.Namespaces))
	ns := make([]NamespaceConfig, len(c.Namespaces))
	for i, n := range c.Namespaces {
		def(&n.BlockSize, 4096)
		ns[i] = n
		bad(power(n.BlockSize) && n.BlockSize >= 512 && n.BlockSize <= 65536, "namespace %d: BlockSize %d is not a power of two from 512 to 65536", i+1, n.BlockSize)
		if n.Backend == nil {
			bad(false, "namespace %d has no backend", i+1)
		} else {
			bad(n.Backend.Size() >= int64(n.BlockSize), "namespace %d: its store of %d bytes is smaller than a block", i+1, n.Backend.Size())
		}
	}
	c.Namespaces = ns
	return c, errors.Join(errs...)
}
