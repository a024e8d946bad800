package copyengtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tritier/tritier/copyeng"
)

// testSpaces looks at what spaces say about themselves.
func testSpaces(e *env) error {
	if s, err := e.engine.Allocate(0); err == nil {
		return errors.Join(errors.New("no bytes of device memory were allocated without an error"), s.Close())
	}
	if s, err := e.engine.AllocateHost(0); err == nil {
		return errors.Join(errors.New("no bytes of host memory were allocated without an error"), s.Close())
	}
	if err := e.noLoan("no memory", nil); err != nil {
		return err
	}
	for _, size := range []uint64{1, 511, 512, 4097, 1 << 20} {
		if err := e.spacesOf(size); err != nil {
			return fmt.Errorf("spaces of %d bytes: %w", size, err)
		}
	}
	return nil
}

func (e *env) spacesOf(size uint64) error {
	device, err := e.engine.Allocate(size)
	if err != nil {
		return err
	}
	if device.Kind() != copyeng.DeviceMemory || device.Size() != size {
		return fmt.Errorf("device space is %s memory of %d bytes", device.Kind(), device.Size())
	}
	for range 3 { // the second time, the memory may have been used before
		host, err := e.engine.AllocateHost(size)
		if err != nil {
			return err
		}
		mem := host.Bytes()
		if host.Kind() != copyeng.HostMemory || host.Size() != size || uint64(len(mem)) != size {
			return fmt.Errorf("host space is %s memory of %d bytes, with %d to be seen", host.Kind(), host.Size(), len(mem))
		}
		if !bytes.Equal(mem, make([]byte, size)) {
			return errors.New("allocated host memory is not zeroed")
		}
		for i := range mem {
			mem[i] = 0xa5
		}
		if err := e.loanOf(mem); err != nil {
			return err
		}
		if err := errors.Join(host.Close(), host.Close()); err != nil {
			return fmt.Errorf("close a host space twice: %w", err)
		}
	}
	return errors.Join(device.Close(), device.Close())
}

// loanOf lends part of allocated host memory, filled with 0xa5.
func (e *env) loanOf(mem []byte) error {
	half := len(mem) / 2 / copyeng.MinPage * copyeng.MinPage
	lent, err := e.engine.LendHost(mem[half:])
	if err != nil {
		return fmt.Errorf("lend: %w", err)
	}
	if lent.Kind() != copyeng.HostMemory || lent.Size() != uint64(len(mem)-half) || &lent.Bytes()[0] != &mem[half] {
		return errors.New("a lent space is not the memory that was lent")
	}
	if err := errors.Join(lent.Close(), lent.Close()); err != nil {
		return fmt.Errorf("close a lent space twice: %w", err)
	}
	if mem[len(mem)-1] != 0xa5 {
		return errors.New("closing a lent space changed the memory")
	}
	for _, at := range []int{1, 16, 256, copyeng.MinPage - 1, copyeng.MinPage + 8} {
		if at < len(mem) {
			if err := e.noLoan(fmt.Sprintf("memory %d bytes behind a page's beginning", at), mem[at:]); err != nil {
				return err
			}
		}
	}
	return nil
}

// noLoan sees that memory is refused.
func (e *env) noLoan(what string, mem []byte) error {
	s, err := e.engine.LendHost(mem)
	if err == nil {
		return errors.Join(fmt.Errorf("%s was lent without an error", what), s.Close())
	}
	if wrong := new(copyeng.LendError); !errors.As(err, &wrong) {
		return fmt.Errorf("%s is refused with %T, %w, and not with a *LendError", what, err, err)
	}
	return nil
}

// bigBatch is a batch of the given share of a world that no other one meets.
func (w *world) bigBatch(d copyeng.Direction, size, share, of int) *copyeng.Batch {
	cut := func(m *memory) span {
		part := whole(m).to / uint64(of) / uint64(size) * uint64(size)
		return span{uint64(share) * part, uint64(share+1) * part}
	}
	host, device := cut(w.host), cut(w.device)
	_, n := device.pages(size)
	return w.batch(d, size, pairs(w.rng, d, size, int(n), host, device))
}

// testContext waits with contexts that have ended, or soon do: the wait fails
// with the context's error, the copies go on.
func testContext(e *env) error {
	bytes := uint64(min(e.o.MaxBytes/2, 32<<20))
	w, err := e.newWorld(bytes, bytes)
	if err != nil {
		return err
	}
	q, err := e.engine.NewQueue()
	if err != nil {
		return err
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancelLate := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancelLate()
	if err := w.idleWaits(q, cancelled, late); err != nil {
		return fmt.Errorf("before the first batch: %w", err)
	}
	noticed := 0
	for _, size := range []int{4096, 65536, copyeng.MaxPage} {
		for i, c := range []struct {
			ctx  context.Context
			want error
		}{{cancelled, context.Canceled}, {late, context.DeadlineExceeded}} {
			if err := w.copy(q, w.bigBatch(copyeng.Direction(i), size, i, 2)); err != nil {
				return err
			}
			// A slow submission may leave nothing to wait for: then all is there.
			err := q.Wait(c.ctx)
			switch {
			case err == nil:
				err = w.verify()
			case errors.Is(err, c.want):
				noticed++
				err = nil
			}
			if err != nil {
				return fmt.Errorf("wait with a context that has ended gives %v, not %w", err, c.want)
			}
		}
	}
	if noticed == 0 {
		return fmt.Errorf("no wait notices that its context has ended")
	}
	// A wait that may or may not last: without an error all must be there.
	for range 10 {
		if err := w.copy(q, w.bigBatch(copyeng.ToDevice, 65536, 0, 2)); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(e.rng.IntN(2000))*time.Microsecond)
		err := q.Wait(ctx)
		cancel()
		switch {
		case err == nil:
			err = w.verify()
		case errors.Is(err, context.DeadlineExceeded):
			err = nil
		}
		if err != nil {
			return err
		}
	}
	if err := errors.Join(e.wait(q), w.verify()); err != nil {
		return err
	}
	return w.idleWaits(q, cancelled, late)
}

// idleWaits waits where there is nothing to wait for: what is done counts as
// done, also for a context that has ended.
func (w *world) idleWaits(q copyeng.Queue, ended ...context.Context) error {
	for _, ctx := range ended {
		if err := q.Wait(ctx); err != nil {
			return fmt.Errorf("wait of an idle queue with a context that has ended (%v): %w", ctx.Err(), err)
		}
	}
	return nil
}

// testClose closes queues with work in flight, and the engine with queues open.
func testClose(e *env) error {
	bytes := uint64(min(e.o.MaxBytes/2, 32<<20))
	w, err := e.newWorld(bytes, bytes)
	if err != nil {
		return err
	}
	for i, size := range []int{512, 4096, 65536} {
		q, err := e.engine.NewQueue()
		if err != nil {
			return err
		}
		for k := range 3 {
			if err := w.copy(q, w.bigBatch(copyeng.Direction((i+k)%2), size, k, 3)); err != nil {
				return err
			}
		}
		if err := q.Close(); err != nil {
			return fmt.Errorf("close a queue with work in flight: %w", err)
		}
		if err := w.verify(); err != nil {
			return fmt.Errorf("closed a queue of %d-byte pages without its work: %w", size, err)
		}
		if err := errors.Join(w.closedQueue(q), w.verify()); err != nil {
			return fmt.Errorf("closed queue: %w", err)
		}
	}
	return w.closedEngine()
}

// closedQueue sees that a closed queue takes nothing.
func (w *world) closedQueue(q copyeng.Queue) error {
	_, copied := q.Copy(w.fresh(copyeng.ToDevice, 4096, 0))
	_, empty := q.Copy(w.batch(copyeng.ToHost, 4096, nil))
	_, exchanged := q.Exchange(w.fresh(copyeng.ToDevice, 4096, 0), w.fresh(copyeng.ToHost, 4096, 9))
	for _, c := range []struct {
		what string
		err  error
	}{{"copy", copied}, {"empty copy", empty}, {"exchange", exchanged}, {"wait", w.wait(q)}} {
		if !errors.Is(c.err, copyeng.ErrClosed) {
			return fmt.Errorf("%s gives %v, not %w", c.what, c.err, copyeng.ErrClosed)
		}
	}
	if err := q.Close(); err != nil {
		return fmt.Errorf("closed once more: %w", err)
	}
	return nil
}

// closedEngine sees that a closed engine gives nothing.
func (w *world) closedEngine() error {
	q, err := w.engine.NewQueue()
	if err != nil {
		return err
	}
	memory := w.around.space.Bytes() // pinned, which a GPU asks for
	if err := w.engine.Close(); err != nil {
		return fmt.Errorf("close an engine with an idle queue: %w", err)
	}
	if err := w.closedQueue(q); err != nil {
		return fmt.Errorf("queue of a closed engine: %w", err)
	}
	_, noQueue := w.engine.NewQueue()
	_, noDevice := w.engine.Allocate(4096)
	_, noHost := w.engine.AllocateHost(4096)
	_, noLoan := w.engine.LendHost(memory)
	for _, c := range []struct {
		what string
		err  error
	}{{"queue", noQueue}, {"device memory", noDevice}, {"host memory", noHost}, {"loan", noLoan}} {
		if !errors.Is(c.err, copyeng.ErrClosed) {
			return fmt.Errorf("%s of a closed engine gives %v, not %w", c.what, c.err, copyeng.ErrClosed)
		}
	}
	if err := w.engine.Close(); err != nil {
		return fmt.Errorf("closed once more: %w", err)
	}
	return nil
}
