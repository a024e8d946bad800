package pinned

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// recheckPieces is after how many pieces memory is looked at again: some other program may have taken what was there at the start.
const recheckPieces = 16

// start touches and registers a mapping. Workers take pieces in order; the one that completes a chunk hands it on through ready, which
// has room for all chunks, so that no worker ever waits for the driver.
type start struct {
	cfg    Config
	m      *mapping
	place  place
	limits *HostLimits // as read before the start
	page   uint64
	notes  *notes

	next  atomic.Uint64  // piece to take
	left  []atomic.Int64 // bytes of each chunk that are not touched yet
	ready chan int       // chunks touched, and not yet taken for registration
	plain atomic.Bool    // touch by a loop
	done  progress       // touched and registered bytes
	begun time.Time
	touch atomic.Int64  // nanoseconds from begun to the end of the last piece
	calls time.Duration // in Register; only the registering goroutine writes it
}

func newStart(cfg Config, m *mapping, p place, l *HostLimits, n *notes) *start {
	s := &start{
		cfg: cfg, m: m, place: p, limits: l, page: uint64(os.Getpagesize()), notes: n,
		left: make([]atomic.Int64, len(m.chunks)), ready: make(chan int, len(m.chunks)), begun: time.Now(),
		done: progress{report: cfg.Progress, size: m.size, work: m.size},
	}
	if cfg.Register != nil {
		s.done.work = 2 * m.size
	}
	for k := range m.chunks {
		off, end := m.span(k)
		s.left[k].Store(int64(end - off))
	}
	s.plain.Store(cfg.loop)
	return s
}

func (s *start) run(parent context.Context) error {
	g, ctx := errgroup.WithContext(parent)
	for range s.place.workers {
		g.Go(func() error { return s.work(ctx) })
	}
	if s.cfg.Register != nil {
		g.Go(func() error { return s.register(ctx) })
	}
	err := g.Wait()
	if err == nil {
		s.done.finish()
	} else if parent.Err() != nil && errors.Is(err, context.Cause(parent)) {
		err = fmt.Errorf("pinned: starting a pool of %s stopped after %v: %w", formatBytes(s.m.size), time.Since(s.begun).Round(time.Millisecond), err)
	}
	return err
}

// work touches pieces until none is left. Its thread belongs to it alone while its affinity is changed. A thread whose affinity cannot be
// restored stays locked, so that it ends with this goroutine (the process's first thread sleeps for ever instead): nothing else of the
// program shall be held to the node's CPUs.
func (s *start) work(ctx context.Context) error {
	if len(s.place.cpus) > 0 {
		runtime.LockOSThread()
		restore, err := s.m.kernel.pin(s.place.cpus)
		if err != nil {
			s.notes.add("touched from any CPU: %v", err)
			runtime.UnlockOSThread()
		} else {
			defer func() {
				if err := restore(); err != nil {
					s.notes.add("threads held to the node's CPUs were ended: %v", err)
					return
				}
				runtime.UnlockOSThread()
			}()
		}
	}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		i := s.next.Add(1) - 1
		off := i * pieceBytes
		if off >= s.m.size {
			return nil
		}
		if i%recheckPieces == recheckPieces-1 {
			if err := s.recheck(); err != nil {
				return err
			}
		}
		if err := s.piece(off, min(off+pieceBytes, s.m.size)); err != nil {
			return err
		}
	}
}

// piece touches bytes of the pool, which may lie in two chunks or more, and hands on the chunks that are complete.
func (s *start) piece(off, end uint64) error {
	if err := s.populate(off, end); err != nil {
		return err
	}
	s.touch.Store(int64(time.Since(s.begun)))
	s.done.add(end - off)
	for off < end {
		k := int(off / s.m.chunk)
		_, stop := s.m.span(k)
		n := min(end, stop) - off
		if s.left[k].Add(-int64(n)) == 0 {
			s.ready <- k
		}
		off += n
	}
	return nil
}

// populate has the kernel touch the pages and, where it cannot, writes to each of them.
func (s *start) populate(off, end uint64) error {
	mem := s.m.mem[off:end]
	if !s.plain.Load() {
		err := s.m.kernel.populate(mem)
		switch {
		case err == nil:
			return nil
		case interrupted(err): // the loop does the rest of this piece
		case unsupported(err):
			s.plain.Store(true)
			s.notes.add("touched by writing to each page: %v", err)
		default:
			e := &TouchError{Offset: off, Size: end - off, Err: err}
			errors.As(s.recheck(), &e.Likely)
			return e
		}
	}
	touchLoop(mem, s.page)
	return nil
}

// touchLoop writes to every page. The memory is zero, so that writing zero changes nothing.
func touchLoop(mem []byte, page uint64) {
	for i := uint64(0); i < uint64(len(mem)); i += page {
		mem[i] = 0
	}
}

// recheck compares what is still to be touched with what is left now. Pieces that others are at count as touched, since part of them is.
func (s *start) recheck() error {
	inFlight := uint64(s.place.workers) * pieceBytes
	touched := min(s.m.size, s.next.Load()*pieceBytes)
	rest := s.m.size - touched
	rest -= min(rest, inFlight)
	if rest == 0 {
		return nil
	}
	// A copy: several workers may look at once. A file that cannot be read now restricts nothing, as at the start.
	t, now := &tree{fsys: s.cfg.Root}, *s.limits
	now.Cgroups = append([]Cgroup(nil), now.Cgroups...)
	t.memory(&now)
	if s.cfg.Unchecked {
		return now.checkCgroups(rest)
	}
	return errors.Join(now.checkMemory(rest), now.checkCgroups(rest))
}

// register registers chunks as they become ready.
func (s *start) register(ctx context.Context) error {
	for range s.m.chunks {
		var k int
		select {
		case <-ctx.Done():
		case k = <-s.ready:
		}
		if ctx.Err() != nil { // also when both were ready
			return context.Cause(ctx)
		}
		off, end := s.m.span(k)
		begin := time.Now()
		device, undo, err := s.cfg.Register(s.m.mem[off:end:end])
		s.calls += time.Since(begin)
		if err != nil {
			return s.registerError(k, err)
		}
		s.m.chunks[k] = chunk{device, undo}
		s.done.add(end - off)
	}
	return nil
}

// registerError looks for the limit behind a driver's "out of memory": the right to pin first, because the check before the start did
// not compare with it.
func (s *start) registerError(k int, err error) error {
	off, end := s.m.span(k)
	e := &RegisterError{Chunk: k, Offset: off, Size: end - off, Err: err}
	if s.cfg.OutOfMemory(err) {
		if e.Likely = s.limits.pinLimit(s.m.size); e.Likely == nil {
			errors.As(s.recheck(), &e.Likely)
		}
	}
	return e
}
