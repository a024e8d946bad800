package copyengtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/tritier/tritier/copyeng"
)

// recorder takes the place of a *testing.T.
type recorder struct {
	errors []string
}

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// mutant is a Host engine with a bug. Calls that it has no function for pass.
type mutant struct {
	copyeng.Engine
	change   func(b *copyeng.Batch)                             // a copy of the batch, before it is started
	copy     func(q *mutantQueue, b *copyeng.Batch) error       // instead of Copy
	exchange func(q *mutantQueue, in, out *copyeng.Batch) error // instead of Exchange
	wait     func(q *mutantQueue, ctx context.Context) error    // instead of Wait
	close    func(q *mutantQueue) error                         // instead of Close
	stats    func(s copyeng.Stats) copyeng.Stats                // what Stats gives
	choice   func(c *copyeng.Choice)                            // what Copy gives
	lend     func(mem []byte) (*copyeng.Space, error)           // instead of LendHost
	zeroed   func(mem []byte)                                   // new host memory
	hosts    [][]byte                                           // host memory allocated
	inFlight atomic.Int32                                       // batches not waited for, over all queues
}

// mutantQueue is a queue of a mutant. Held batches have been started by the
// caller, but not by the mutant.
type mutantQueue struct {
	copyeng.Queue
	m      *mutant
	held   []copyeng.Batch
	err    error
	onHere int32
}

func (m *mutant) NewQueue() (copyeng.Queue, error) {
	q, err := m.Engine.NewQueue()
	return &mutantQueue{Queue: q, m: m}, err
}

func (m *mutant) AllocateHost(size uint64) (*copyeng.Space, error) {
	s, err := m.Engine.AllocateHost(size)
	if err == nil {
		m.hosts = append(m.hosts, s.Bytes())
		if m.zeroed != nil {
			m.zeroed(s.Bytes())
		}
	}
	return s, err
}

func (m *mutant) LendHost(mem []byte) (*copyeng.Space, error) {
	if m.lend != nil {
		return m.lend(mem)
	}
	return m.Engine.LendHost(mem)
}

func (m *mutant) Stats() copyeng.Stats {
	if m.stats != nil {
		return m.stats(m.Engine.Stats())
	}
	return m.Engine.Stats()
}

// own is a copy of a batch that does not share the caller's pairs.
func own(b *copyeng.Batch) *copyeng.Batch {
	c := *b
	c.Pairs = slices.Clone(b.Pairs)
	return &c
}

func (q *mutantQueue) Copy(b *copyeng.Batch) (copyeng.Choice, error) {
	if b == nil || q.m.choose(b).Path == copyeng.PathNone {
		return q.Queue.Copy(b)
	}
	c := q.m.choose(b)
	if q.m.choice != nil {
		q.m.choice(&c)
	}
	if q.m.copy != nil {
		return c, q.m.copy(q, b)
	}
	_, err := q.Queue.Copy(q.m.changed(b))
	return c, err
}

func (m *mutant) choose(b *copyeng.Batch) copyeng.Choice {
	return m.Choose(b.Dir, b.PageSize, len(b.Pairs))
}

func (m *mutant) changed(b *copyeng.Batch) *copyeng.Batch {
	if m.change == nil || b == nil || m.choose(b).Path == copyeng.PathNone {
		return b
	}
	b = own(b)
	m.change(b)
	return b
}

func (q *mutantQueue) Exchange(in, out *copyeng.Batch) (copyeng.Choice, error) {
	if q.m.exchange != nil && in != nil && out != nil {
		return q.m.Choose(copyeng.ToDevice, in.PageSize, len(in.Pairs)+len(out.Pairs)), q.m.exchange(q, in, out)
	}
	return q.Queue.Exchange(q.m.changed(in), q.m.changed(out))
}

func (q *mutantQueue) Wait(ctx context.Context) error {
	if q.m.wait != nil {
		return q.m.wait(q, ctx)
	}
	return q.Queue.Wait(ctx)
}

func (q *mutantQueue) Close() error {
	if q.m.close != nil {
		return q.m.close(q)
	}
	return q.Queue.Close()
}

// release starts the held batches.
func (q *mutantQueue) release() (err error) {
	for i := range q.held {
		_, e := q.Queue.Copy(&q.held[i])
		err = errors.Join(err, e)
	}
	q.held = nil
	return err
}

// copied carries a batch out at once.
func (q *mutantQueue) copied(b *copyeng.Batch) error {
	_, err := q.Queue.Copy(b)
	return errors.Join(err, q.Queue.Wait(context.Background()))
}

// destination is a page's place in the space that the batch writes.
func destination(b *copyeng.Batch, p copyeng.Pair) (mem []byte, page int) {
	if b.Dir == copyeng.ToDevice {
		return b.Device.Bytes(), int(p.Device)
	}
	return b.Host.Bytes(), int(p.Host)
}

// shift moves the page that a pair writes.
func shift(b *copyeng.Batch, i, by int) {
	mem, page := destination(b, b.Pairs[i])
	pages := len(mem) / b.PageSize
	to := uint32((page + by + pages) % pages)
	if b.Dir == copyeng.ToDevice {
		b.Pairs[i].Device = to
	} else {
		b.Pairs[i].Host = to
	}
}

func dropLast(b *copyeng.Batch) { b.Pairs = b.Pairs[:len(b.Pairs)-1] }
