package volume

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tritier/tritier/libnvm"
)

// DefaultMetadataTimeout is how long one operation on metadata may take when
// nothing else is asked for.
const DefaultMetadataTimeout = 30 * time.Second

const (
	// metaRetries is how often an operation is sent again that the member has
	// answered with a status that allows it.
	metaRetries = 2
	// metaPause goes before the first retry; the second waits ten times as long.
	metaPause = time.Millisecond
	// metaGrace is how much longer than its time-out an operation is waited for:
	// the member ends it, this is for one that does not.
	metaGrace = 5 * time.Second
)

var errMetaLate = errors.New("the time for metadata passed before the operation was sent")

// patience is the time for one operation on metadata, in nanoseconds.
type patience struct{ ns atomic.Int64 }

func newPatience(d time.Duration) *patience {
	p := new(patience)
	p.set(d)
	return p
}

func (p *patience) set(d time.Duration) {
	if d <= 0 {
		d = DefaultMetadataTimeout
	}
	p.ns.Store(int64(d))
}

// until is when an operation that begins now has to be over.
func (p *patience) until() time.Time { return time.Now().Add(time.Duration(p.ns.Load())) }

// metaIO is the volume's own synchronous way to one member. The volume's lock
// guards it.
type metaIO struct {
	member Member
	queue  MemberQueue
	buf    []byte
	mem    Mapping
	bound  *patience
	tag    uint64
	left   bool  // the operation of this tag was left in flight by who waited
	failed error // an operation whose end was not seen: the buffer is not ours
}

// openMeta makes a way to m with a buffer of the given size.
func openMeta(m Member, bytes int, bound *patience) (*metaIO, error) {
	q, err := m.OpenQueue(32)
	if err != nil {
		return nil, fmt.Errorf("volume: %s: %w", m.Name(), err)
	}
	buf, mem, err := m.Alloc(bytes)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("volume: %s: memory for metadata: %w", m.Name(), err), q.Close())
	}
	return &metaIO{member: m, queue: q, buf: buf, mem: mem, bound: bound}, nil
}

func (io *metaIO) close() error {
	return errors.Join(io.queue.Close(), io.mem.Free())
}

// held says whether an operation may still land whose result nobody has.
func (io *metaIO) held() bool {
	io.take()
	return io.left || io.queue.Held() > 0
}

// do performs one operation and waits for it.
func (io *metaIO) do(op Op) error {
	ctx, until := context.Background(), io.bound.until()
	if err := io.begin(ctx, &op, until); err != nil {
		return err
	}
	return io.end(ctx, &op, until)
}

// begin sends an operation, which end has to follow when there is no error.
func (io *metaIO) begin(ctx context.Context, op *Op, until time.Time) error {
	if io.failed != nil {
		return io.failed
	}
	if err := io.collect(ctx, until); err != nil {
		return io.wrap(op, err)
	}
	// What timed out may still land over what is written now, and its buffer is
	// this one.
	if io.queue.Held() > 0 {
		return io.wrap(op, ErrHeld)
	}
	return io.send(op, until)
}

func (io *metaIO) send(op *Op, until time.Time) error {
	io.tag++
	op.Tag, op.Mem, op.Timeout = io.tag, io.mem, time.Until(until)
	if op.Timeout <= 0 {
		return io.wrap(op, errMetaLate)
	}
	return io.wrap(op, io.queue.Submit(op))
}

// end waits for an operation, and sends it again where that is safe and of use.
func (io *metaIO) end(ctx context.Context, op *Op, until time.Time) error {
	pause := metaPause
	for n := 0; ; n++ {
		err := io.wait(ctx, op, until)
		if n == metaRetries || !mayRetry(op.Kind, err) || io.queue.Held() > 0 || time.Until(until) <= pause {
			return err
		}
		if gone := sleep(ctx, pause); gone != nil {
			return errors.Join(io.wrap(op, gone), err)
		}
		pause *= 10
		if again := io.send(op, until); again != nil {
			return errors.Join(err, again)
		}
	}
}

// mayRetry says whether the member's answer allows the same operation again: it
// is done with the command, has not carried it out, and does not say that it
// never will (DNR). What got no answer may still land and is never sent again.
// Neither is a flush that a medium has failed: writes are lost then, about which
// a second one, that succeeds, would say nothing.
func mayRetry(kind OpKind, err error) bool {
	const media = 2 // the status code type of media and data integrity errors
	var status *libnvm.StatusError
	return errors.As(err, &status) && !status.DNR && (kind != OpFlush || status.Status.Type() != media)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait polls until op ends, or ctx does: then op stays in flight, see collect.
// The member ends it at its time-out.
func (io *metaIO) wait(ctx context.Context, op *Op, until time.Time) error {
	var done [1]Done
	for pause := time.Microsecond; ; pause = min(pause*2, 100*time.Microsecond) {
		if io.queue.Poll(done[:]) == 1 {
			if done[0].Tag != op.Tag {
				continue
			}
			return io.wrap(op, done[0].Err)
		}
		if err := ctx.Err(); err != nil {
			io.left = true
			return io.wrap(op, err)
		}
		if time.Since(until) > metaGrace {
			io.failed = io.wrap(op, errors.New("the operation did not end; close the volume and open it again"))
			return io.failed
		}
		time.Sleep(pause)
	}
}

// collect waits for an operation that was left in flight. It is ErrHeld when
// that does not end in time; it may itself time out, which Held shows.
func (io *metaIO) collect(ctx context.Context, until time.Time) error {
	for pause := time.Microsecond; ; pause = min(pause*2, 100*time.Microsecond) {
		io.take()
		if err := ctx.Err(); err != nil {
			return err
		}
		if !io.left {
			return nil
		}
		if time.Until(until) <= 0 {
			return ErrHeld
		}
		time.Sleep(pause)
	}
}

// take looks whether what was left in flight has ended. Its result is of no use
// to anybody.
func (io *metaIO) take() {
	var done [1]Done
	for io.left && io.queue.Poll(done[:]) == 1 {
		io.left = done[0].Tag != io.tag
	}
}

func (io *metaIO) wrap(op *Op, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("volume: %s %d bytes at %d of %s: %w", op.Kind, op.Length, op.Offset, io.member.Name(), err)
}

// read fills the buffer's first n bytes from off.
func (io *metaIO) read(off int64, n int) ([]byte, error) {
	return io.buf[:n], io.do(Op{Kind: OpRead, Offset: off, Length: int64(n)})
}

// write writes the buffer's first n bytes to off.
func (io *metaIO) write(off int64, n int, fua bool) error {
	return io.do(Op{Kind: OpWrite, Offset: off, Length: int64(n), FUA: fua})
}

// zeroChunk bounds one write-zeroes operation, so that it ends in time.
const zeroChunk = 256 << 20

// zero makes a range read as zeroes.
func (io *metaIO) zero(off, n int64) error {
	for n > 0 {
		k := min(n, zeroChunk)
		err := io.do(Op{Kind: OpWriteZeroes, Offset: off, Length: k})
		if errors.Is(err, ErrNoZeroes) {
			k = min(k, int64(len(io.buf)))
			clear(io.buf[:k])
			err = io.write(off, int(k), false)
		}
		if err != nil {
			return err
		}
		off, n = off+k, n-k
	}
	return nil
}
