package gpu

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier/layout"
)

// Options describe an Engine.
type Options struct {
	GPU    *cuda.Context
	Drives []bamio.Drive // over which pages are striped, of equal block size

	PageSize int    // bytes, a power of two from 4 KiB to 2 MiB
	Pages    uint64 // of all drives together
	Offset   uint64 // bytes of page 0 on each drive

	Frames int // of T1
	T2     int // pages of T2; 0: no host tier
	// Spares are slots beyond T2, through which pages pass between T1 and T3, and
	// into which victims go while the page that takes their frame is still in its
	// own: at least 1. Each warp that misses needs one or two.
	Spares int

	Policy placement.Spec
	Seed   uint64
	// Parity makes kernels wait for refreshed parameters at fixed virtual times, so
	// that one warp decides exactly as a replay does.
	Parity bool

	// Warps bounds the warps of batch calls; 0: 256, which leaves most of a large GPU
	// to others. One makes them sequential.
	Warps int

	// Retries is how often a batch call makes an access again that a drive has refused, with
	// an error that it does not call lasting. Accesses that nobody has answered, and those of
	// kernels of the program, are made once.
	Retries int

	Queues   int           // queue pairs in all; 0: 128, or 120 a drive
	Deadline time.Duration // of every wait on the GPU; 5 s when 0
	// Observe, if set, is told of accesses to pages, from one goroutine, while kernels
	// run: what one warp does in its order, what several do in the order in which their
	// accesses were numbered. A failed access is told of too; a prefetch of a page that is
	// in T1 need not be. The list is valid during the call. Kernels wait for an Observe
	// that is slow, but no longer than half of PinDeadline: what does not fit then is
	// counted in LostRecords. It must not call the Engine.
	Observe func(list []Access)
	// ObserveEvery tells of the accesses to one in so many pages, chosen by a hash; of
	// all when 0 or 1.
	ObserveEvery int

	// Events, if set, is told of misses, of pages that flushes write back, and of all moves,
	// from one goroutine while kernels run: each miss when it has ended, followed by its
	// moves by their start, a read before what lies within it. The list is valid during the call. Kernels never wait for it:
	// what it is too slow for is left out and counted, see Engine.Told. It must not call the
	// Engine. The ring takes 32 MiB of pinned memory.
	Events func(list []Event)
	// EventsEvery tells of one in so many misses and flushed pages, with their moves; of all
	// when 0 or 1.
	EventsEvery int
	// Moves says who copies pages between T1 and T2's memory: MovesAuto, MovesKernel or
	// MovesCopyEngine. MovesAuto when "". Where a copy engine does it, a goroutine polls
	// for requests while the Engine is open.
	Moves string
	// Calibration has the curves to choose by; nil looks for the GPU's own file.
	Calibration *copyeng.Calibration

	// PinDeadline bounds the wait for a frame while all are pinned; a tenth of
	// Deadline when 0.
	PinDeadline time.Duration
}

// PolicyError is a policy that kernels cannot run.
type PolicyError struct{ Policy, Reason string }

// Error says which part.
func (e *PolicyError) Error() string {
	return fmt.Sprintf("policy %s: the GPU-orchestrated engine has %s; the host-orchestrated one has every policy", e.Policy, e.Reason)
}

const (
	defaultDeadline = 5 * time.Second
	defaultQueues   = 128
	perDrive        = 120 // of the 128 that a software controller grants: others need some
	mostWarps       = 256
)

func (o *Options) check() error {
	var bad []error
	note := func(wrong bool, format string, args ...any) {
		if wrong {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	if o.Deadline == 0 {
		o.Deadline = defaultDeadline
	}
	if o.PinDeadline == 0 {
		o.PinDeadline = o.Deadline / 10
	}
	if o.Queues == 0 {
		o.Queues = min(defaultQueues, perDrive*len(o.Drives))
	}
	if o.Warps == 0 {
		o.Warps = mostWarps
	}
	note(o.Warps < 1 || o.Warps > 1<<14, "%d warps: want 1 to %d", o.Warps, 1<<14)
	note(o.Retries < 0 || o.Retries > 100, "%d retries: want 0 to 100", o.Retries)
	note(o.GPU == nil, "no GPU")
	note(!slices.Contains([]string{"", MovesAuto, MovesKernel, MovesCopyEngine}, o.Moves), "moves %q: want auto, kernel or copy-engine", o.Moves)
	note(len(o.Drives) == 0, "no drives")
	note(o.PageSize < 4<<10 || o.PageSize > 2<<20 || bits.OnesCount(uint(o.PageSize)) != 1, "pages of %d bytes: want a power of two from 4 KiB to 2 MiB", o.PageSize)
	note(o.Pages == 0 || o.Pages > layout.MaxPage, "%d pages: want 1 to %d; use larger ones", o.Pages, layout.MaxPage)
	note(o.ObserveEvery < 0, "accesses of one in %d pages: want 0 or more", o.ObserveEvery)
	note(o.EventsEvery < 0 || o.EventsEvery > math.MaxUint32, "events of one in %d misses: want 0 to %d", o.EventsEvery, uint32(math.MaxUint32))
	note(o.Frames < 1 || o.Frames > layout.MaxLocation, "%d frames: want 1 to %d", o.Frames, layout.MaxLocation)
	note(o.T2 < 0 || o.Spares < 1 || o.T2+o.Spares > layout.MaxLocation, "%d and %d slots: want at least 0 and 1, and at most %d together", o.T2, o.Spares, layout.MaxLocation)
	note(o.Deadline < time.Millisecond || o.PinDeadline <= 0 || o.PinDeadline > o.Deadline, "deadlines of %v and %v: want at least 1ms, the second no longer", o.Deadline, o.PinDeadline)
	return errors.Join(bad...)
}

// decision is the policy in the device's terms.
type decision struct {
	t1, placer uint32
	below      uint64
	keep       bool // t2copy=keep
	reuse      *placement.GMTReuse
}

// Accepts says why kernels cannot run a policy, or nil. It needs no GPU.
func Accepts(policy placement.Spec) error {
	const enough = 1024 // frames for any policy
	o := Options{Policy: policy, Frames: enough, T2: enough, Pages: 1}
	_, err := o.decide()
	return err
}

// decide translates the policy, or says what kernels lack.
func (o *Options) decide() (d decision, err error) {
	p, err := o.Policy.Build(placement.Env{T1Frames: o.Frames, T2Frames: o.T2, Pages: int(o.Pages), Seed: o.Seed})
	if err != nil {
		return d, err
	}
	refuse := func(format string, args ...any) error {
		return &PolicyError{o.Policy.String(), fmt.Sprintf(format, args...)}
	}
	switch x := p.Placer.(type) {
	case *placement.Bypass:
		d.placer = layout.Bypass
	case *placement.TierOrder:
		d.placer = layout.TierOrder
	case *placement.RandomPlacer:
		d.placer, d.below = layout.Random, x.Below()
	case *placement.GMTReuse:
		d.placer, d.reuse = layout.GmtReuse, x
	default: // first: such a placer may have a T2 of its own
		return d, refuse("the placers bypass, tier-order, random and gmt-reuse, not %s", p.Placer.Name())
	}
	switch p.T1.(type) {
	case *placement.Clock:
		d.t1 = layout.T1Clock
	case *placement.FIFO:
		d.t1 = layout.T1Fifo
	default:
		return d, refuse("clock and fifo for T1, not %s", p.T1.Name())
	}
	if _, ok := p.T2.(*placement.FIFO); p.T2 != nil && !ok {
		return d, refuse("fifo for T2, not %s", p.T2.Name())
	}
	d.keep = p.KeepT2Copy && o.T2 > 0
	return d, nil
}
