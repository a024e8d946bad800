package pinned

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Pool is one contiguous range of host memory, touched, placed and registered. Its methods may be called from several goroutines; for
// how it ends see [Pool.Close].
type Pool struct {
	m          *mapping
	registered bool
	contiguous bool
	closed     atomic.Bool
	close      func() error

	mu    sync.Mutex // guards extents and slabs
	ext   extents
	slabs int

	stats Stats // of the start; Stats adds what changes
	huge  func() float64
}

// Open makes a pool. It returns when all memory is touched and registered, or has undone everything: after ctx ends (the error wraps
// its cause) within milliseconds, or within one call of cfg.Register.
//
// Errors: all violations of the configuration joined; [*NodeError]; a [*LimitError] for each limit that the pool does not fit;
// [*TouchError] and [*RegisterError]; joined with an [*UnregisterError] for each chunk whose registration could not be undone.
func Open(ctx context.Context, cfg Config) (*Pool, error) {
	begun := time.Now()
	cfg, err := cfg.fill()
	if err != nil {
		return nil, err
	}
	page := uint64(os.Getpagesize())
	cfg.Size = (cfg.Size + page - 1) / page * page
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	n := new(notes)
	limits, err := LimitsOf(cfg.Root)
	if err != nil {
		n.add("some limits are not known: %v", err)
	}
	if err := limits.checkStart(cfg); err != nil {
		return nil, err
	}
	where, err := choosePlace(cfg, limits)
	if err != nil {
		return nil, err
	}
	if where.note != "" {
		n.add("%s", where.note)
	}
	m, err := newMapping(cfg, &where, cfg.Size, limits.HugePages.Bytes, n.add)
	if err != nil {
		return nil, err
	}
	s := newStart(cfg, m, where, limits, n)
	if err := s.run(ctx); err != nil {
		return nil, errors.Join(err, m.undo())
	}
	return newPool(s, page, time.Since(begun)), nil
}

// checkStart is Check without what the configuration waives.
func (l *HostLimits) checkStart(cfg Config) error {
	errs := []error{l.checkProcess(cfg.Size), l.checkCgroups(cfg.Size)}
	if !cfg.Unchecked {
		errs = append(errs, l.checkMemory(cfg.Size))
	}
	if cfg.Strict {
		err := l.checkNode(cfg.Size, cfg.Node)
		var limit *LimitError
		if cfg.Unchecked && errors.As(err, &limit) && limit.Limit == LimitNode {
			err = nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func newPool(s *start, page uint64, total time.Duration) *Pool {
	p := &Pool{m: s.m, registered: s.cfg.Register != nil, contiguous: true}
	boundary := uint64(0)
	if p.registered {
		p.contiguous, boundary = s.m.contiguous(), s.m.chunk
	}
	p.ext = extents{free: []extent{{0, s.m.size}}, base: s.m.base, boundary: boundary}
	p.close = sync.OnceValue(s.m.undo)
	mem := s.m.mem
	p.huge = sync.OnceValue(func() float64 { return hugeShare(s.cfg.Root, s.m.base, uint64(len(mem))) })
	p.stats = s.stats(page, total)
	return p
}

// Bytes returns the whole pool. It holds zeroes at first. After Close it is nil, and slices of it must not be used.
func (p *Pool) Bytes() []byte {
	if p.closed.Load() {
		return nil
	}
	return slices.Clip(p.m.mem)
}

// Size returns the pool's bytes: those asked for, rounded up to whole pages.
func (p *Pool) Size() uint64 { return p.m.size }

// Registered says whether a device's driver knows the memory.
func (p *Pool) Registered() bool { return p.registered }

// ChunkBytes returns the distance between the boundaries that no copy by the driver may cross, in bytes from the pool's beginning.
func (p *Pool) ChunkBytes() uint64 { return p.m.chunk }

// ChunkEnd returns the end of the registration that holds the byte at off: a copy that begins there must not go beyond. It is Size where
// nothing is registered and for offsets outside the pool.
func (p *Pool) ChunkEnd(off uint64) uint64 {
	if !p.registered || off >= p.m.size {
		return p.m.size
	}
	return min((off/p.m.chunk+1)*p.m.chunk, p.m.size)
}

// DeviceAddr returns the address by which the device reaches the byte at off; without a Register, the host's address. The error is a
// [*RangeError] or ErrClosed.
func (p *Pool) DeviceAddr(off uint64) (uint64, error) {
	if p.closed.Load() {
		return 0, ErrClosed
	}
	if off >= p.m.size {
		return 0, &RangeError{off, p.m.size}
	}
	if !p.registered {
		return p.m.base + off, nil
	}
	return p.m.chunks[off/p.m.chunk].device + off%p.m.chunk, nil
}

// Contiguous says whether every device address is that of offset 0 plus the offset, as it is with unified addressing (64-bit Linux).
func (p *Pool) Contiguous() bool { return p.contiguous }

// Close unregisters all chunks and unmaps the memory. The caller has ended every use of it before, copies in flight included; slabs
// need not be freed. A second call returns what the first returned: the [*UnregisterError] of each chunk and the kernel's errors, joined.
func (p *Pool) Close() error {
	p.mu.Lock() // an Alloc that has begun ends first
	p.closed.Store(true)
	p.mu.Unlock()
	return p.close()
}
