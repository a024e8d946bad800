package volume

import (
	"errors"
	"fmt"
	"time"
)

// metaTimeout bounds every operation on metadata.
const metaTimeout = 30 * time.Second

// metaIO is the volume's own synchronous way to one member. The volume's lock
// guards it.
type metaIO struct {
	member Member
	queue  MemberQueue
	buf    []byte
	mem    Mapping
	tag    uint64
	failed error // an operation whose end was not seen: the buffer is not ours
}

// openMeta makes a way to m with a buffer of the given size.
func openMeta(m Member, bytes int) (*metaIO, error) {
	q, err := m.OpenQueue(32)
	if err != nil {
		return nil, fmt.Errorf("volume: %s: %w", m.Name(), err)
	}
	buf, mem, err := m.Alloc(bytes)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("volume: %s: memory for metadata: %w", m.Name(), err), q.Close())
	}
	return &metaIO{member: m, queue: q, buf: buf, mem: mem}, nil
}

func (io *metaIO) close() error {
	return errors.Join(io.queue.Close(), io.mem.Free())
}

// do performs one operation and waits for it.
func (io *metaIO) do(op Op) error {
	if io.failed != nil {
		return io.failed
	}
	// What timed out may still land over what is written now, and its buffer is
	// this one.
	if io.queue.Held() > 0 {
		return io.wrap(&op, ErrHeld)
	}
	io.tag++
	op.Tag, op.Mem, op.Timeout = io.tag, io.mem, metaTimeout
	if err := io.queue.Submit(&op); err != nil {
		return io.wrap(&op, err)
	}
	return io.wait(&op)
}

// wait polls until op ends. The member ends it at its time-out; the deadline
// here is for a member that does not.
func (io *metaIO) wait(op *Op) error {
	var done [1]Done
	pause := time.Microsecond
	for deadline := time.Now().Add(metaTimeout + 5*time.Second); ; {
		if io.queue.Poll(done[:]) == 1 {
			if done[0].Tag != op.Tag {
				continue
			}
			return io.wrap(op, done[0].Err)
		}
		if time.Now().After(deadline) {
			io.failed = io.wrap(op, errors.New("the operation did not end; close the volume and open it again"))
			return io.failed
		}
		time.Sleep(pause)
		pause = min(pause*2, 100*time.Microsecond)
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

func (io *metaIO) flush() error { return io.do(Op{Kind: OpFlush}) }

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
