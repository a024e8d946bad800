package bamio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/internal/pinned"
	"github.com/tritier/tritier/libnvm"
)

// Drive is a drive that the GPU is to use: what drive.Open of libnvm gives.
type Drive struct {
	Name       string // for messages and reports
	Controller *libnvm.Controller
	Namespace  *libnvm.Namespace // nil is the controller's first
}

// Options for Open. GPU and Drives must be set.
type Options struct {
	GPU    *cuda.Context
	Drives []Drive // several may share a controller

	// Queues is the number of queue pairs in all, shared out evenly. The default
	// is 128, or what the controllers grant if that is less.
	Queues int
	// Depth is the number of entries of a queue; one less can be in flight. The
	// default is 64, or what the controllers allow if that is less.
	Depth int
	// Buffers is the number of payload buffers; the default is one for every
	// command that can be in flight.
	Buffers int
	// BufferBytes is the size of one, a multiple of 4096 up to 2 MiB. Default 4096.
	BufferBytes int
	// HostPayload keeps the payload in host memory even where drives could reach
	// GPU memory.
	HostPayload bool
	// Requests is the number of slots of the request ring, a power of two.
	// Default 256; below 0 there is none.
	Requests int

	// Deadline bounds every wait of device code. Default 5 s.
	Deadline time.Duration
	// Grace is how long the host waits for kernels that it has asked to end. A
	// queue without progress for Deadline and Grace is stalled. Default 2 s.
	Grace time.Duration

	// FirstEntry is what the queues' counters start at, rounded down to a multiple
	// of twice the depth: for tests of their wrap.
	FirstEntry uint64
}

const (
	defaultQueues   = 128
	defaultDepth    = 64
	defaultRequests = 256
	page            = libnvm.PageSize
	maxBufferBytes  = 512 * page // its PRP list fits into one page, without a chain
	maxQueues       = 4096
	maxRequests     = 1 << 16
	maxDrives       = 256
)

// withDefaults fills in what does not depend on the drives and reports all
// violations together.
func (o Options) withDefaults() (Options, error) {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.BufferBytes, page)
	def(&o.Requests, defaultRequests)
	o.Requests = max(o.Requests, 0)
	if o.Deadline == 0 {
		o.Deadline = 5 * time.Second
	}
	if o.Grace == 0 {
		o.Grace = 2 * time.Second
	}
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("bamio: options: "+format, args...))
		}
	}
	bad(o.GPU != nil, "GPU is not set")
	bad(len(o.Drives) > 0 && len(o.Drives) <= maxDrives, "%d drives: give 1 to %d", len(o.Drives), maxDrives)
	for i, d := range o.Drives {
		bad(d.Controller != nil, "drive %d (%q) has no controller", i, d.Name)
	}
	bad(o.Queues >= 0 && o.Queues <= maxQueues, "Queues %d is not in 1..%d", o.Queues, maxQueues)
	bad(o.Queues == 0 || o.Queues >= len(o.Drives), "%d queues for %d drives: each needs one", o.Queues, len(o.Drives))
	bad(o.Depth == 0 || o.Depth >= 2 && o.Depth <= libnvm.MaxQueueDepth, "Depth %d is not in 2..%d", o.Depth, libnvm.MaxQueueDepth)
	bad(o.Buffers >= 0 && o.Buffers <= 1<<24, "Buffers %d is not in 1..%d", o.Buffers, 1<<24)
	bad(o.BufferBytes > 0 && o.BufferBytes%page == 0 && o.BufferBytes <= maxBufferBytes,
		"BufferBytes %d is not a multiple of %d up to %d", o.BufferBytes, page, maxBufferBytes)
	bad(o.Requests&(o.Requests-1) == 0 && o.Requests <= maxRequests, "Requests %d is not a power of two up to %d", o.Requests, maxRequests)
	bad(o.Deadline > 0 && o.Grace > 0, "Deadline %v or Grace %v is below zero", o.Deadline, o.Grace)
	return o, errors.Join(errs...)
}

// poolConfig describes the payload's pool: on the GPU's NUMA node.
func poolConfig(gpu *cuda.Context, size uint64) pinned.Config {
	node, err := gpu.Device().Attribute(cuda.HostNUMAID)
	if err != nil || node < 0 {
		node = pinned.AnyNode // an old driver, or a machine of one node
	}
	return pinned.Config{
		Size: size, Node: node,
		Register: func(mem []byte) (uint64, func() error, error) {
			r, err := gpu.RegisterHost(mem, 0)
			if err != nil {
				return 0, nil, err
			}
			return uint64(r.DevicePtr()), r.Unregister, nil
		},
		OutOfMemory: func(err error) bool { return errors.Is(err, cuda.ErrOutOfMemory) },
	}
}

// bounded is a context for one wait of the host.
func bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}
