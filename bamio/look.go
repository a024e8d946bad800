package bamio

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tritier/tritier/bamio/layout"
	"github.com/tritier/tritier/cuda"
)

// look copies what kernels work with to the host, while they run: on a stream of
// its own, to pinned memory, so that a copy engine does it.
type look struct {
	mu      sync.Mutex // guards the rest
	stream  *cuda.Stream
	staging *cuda.HostMemory
}

func (l *look) open(gpu *cuda.Context, size int) error {
	var err error
	if l.stream, err = gpu.NewStream(); err != nil {
		return err
	}
	l.staging, err = gpu.AllocHost(uint64(size), 0)
	return err
}

func (l *look) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	if l.stream != nil {
		errs = append(errs, l.stream.Close())
		l.stream = nil
	}
	if l.staging != nil {
		errs = append(errs, l.staging.Free())
		l.staging = nil
	}
	return errors.Join(errs...)
}

// snapshot is a copy of what kernels change. It was taken while they run: its
// counters need not agree with each other.
type snapshot struct {
	queues []layout.Queue
	cids   [][]layout.Cid // of each queue
	ring   layout.RequestRing
}

// snapshot copies. The caller has begun to use the engine.
func (e *Engine) snapshot(ctx context.Context, limit time.Duration) (*snapshot, error) {
	ctx, cancel := bounded(ctx, limit)
	defer cancel()
	l, m := &e.look, &e.image
	l.mu.Lock()
	defer l.mu.Unlock()
	// A copy that an earlier call gave up on may still write to the staging memory.
	if err := l.stream.Wait(ctx); err != nil {
		return nil, err
	}
	b := l.staging.Bytes()
	if err := l.stream.CopyToHost(b, e.at.Add(uint64(m.queues))); err != nil {
		return nil, err
	}
	if err := l.stream.Wait(ctx); err != nil {
		return nil, err
	}
	s := &snapshot{
		queues: append([]layout.Queue(nil), recordsIn[layout.Queue](b, 0, len(e.queues))...),
		ring:   recordsIn[layout.RequestRing](b, m.ring-m.queues, 1)[0],
	}
	n := e.depth - 1
	cids := append([]layout.Cid(nil), recordsIn[layout.Cid](b, m.cids-m.queues, len(e.queues)*n)...)
	for i := range e.queues {
		s.cids = append(s.cids, cids[i*n:(i+1)*n])
	}
	return s, nil
}
