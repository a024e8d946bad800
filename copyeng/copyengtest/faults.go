package copyengtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/tritier/tritier/copyeng"
)

// testFaults lets single batches fail: the error comes back exactly once, from
// the call that started the batch or else from the next that waits, and the
// queue goes on.
func testFaults(e *env) error {
	if e.o.Faulty == nil {
		e.Logf("skipped: Options.Faulty is not set")
		return nil
	}
	engine, arm, err := e.o.Faulty()
	if err != nil {
		return err
	}
	own := &env{T: e.T, o: e.o, open: e.open, engine: engine, rng: e.rng}
	w, err := own.newWorld(8<<20, 8<<20)
	if err == nil {
		err = (&faulty{world: w, arm: arm}).run()
	}
	return errors.Join(err, own.close())
}

// faulty is a world whose batches fail when arm was called.
type faulty struct {
	*world
	arm func() error
}

func (f *faulty) run() error {
	for _, part := range []struct {
		name string
		run  func(q copyeng.Queue, n int) error
	}{
		{"wait", f.thenWait}, {"wait with an ended context", f.thenExpire}, {"copy", f.thenCopy},
		{"fail again", f.thenFail}, {"close", f.thenClose}, {"exchange", f.exchangeFails},
	} {
		for _, n := range []int{1, 64, 700} {
			q, err := f.engine.NewQueue()
			if err != nil {
				return err
			}
			if err := part.run(q, n); err != nil {
				return errors.Join(fmt.Errorf("a batch of %d pages fails, then %s: %w", n, part.name, err), q.Close())
			}
			// What a failed batch has written is undefined; then all is well.
			if part.name == "close" {
				continue
			}
			err = errors.Join(f.poison(), f.copyAndVerify(q, f.some(copyeng.ToHost, n, 1)), q.Close())
			if err != nil {
				return fmt.Errorf("a batch of %d pages failed, then %s; the next: %w", n, part.name, err)
			}
		}
	}
	return nil
}

// some is a batch of n pages in one half of the world.
func (f *faulty) some(d copyeng.Direction, n, half int) *copyeng.Batch {
	b := f.bigBatch(d, 4096, half, 2)
	b.Pairs = b.Pairs[:n]
	return b
}

// fail starts a batch that fails. The error is pending unless Copy returned it.
func (f *faulty) fail(q copyeng.Queue, n int) (pending, err error) {
	want := f.arm()
	_, got := q.Copy(f.some(copyeng.ToDevice, n, 0))
	return outcome(got, want)
}

func outcome(got, want error) (pending, err error) {
	switch {
	case got == nil:
		return want, nil
	case errors.Is(got, want):
		return nil, nil
	}
	return nil, fmt.Errorf("it fails with %v, not %w", got, want)
}

// settle waits, and expects the pending error, or none.
func (f *faulty) settle(q copyeng.Queue, pending error) error {
	if err := f.wait(q); !errors.Is(err, pending) {
		return fmt.Errorf("wait gives %v, not %v", err, pending)
	}
	return nil
}

func (f *faulty) thenWait(q copyeng.Queue, n int) error {
	pending, err := f.fail(q, n)
	if err != nil {
		return err
	}
	if err := f.settle(q, pending); err != nil {
		return err
	}
	if err := f.settle(q, nil); err != nil {
		return fmt.Errorf("once more: %w", err)
	}
	return nil
}

func (f *faulty) thenExpire(q copyeng.Queue, n int) error {
	pending, err := f.fail(q, n)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	switch err := q.Wait(ctx); {
	case errors.Is(err, context.Canceled):
	case errors.Is(err, pending): // the batch was done already, which counts
		pending = nil
	default:
		return fmt.Errorf("wait with an ended context gives %v, neither that nor %w", err, pending)
	}
	return f.settle(q, pending)
}

// thenCopy starts a second batch, which must be carried out.
func (f *faulty) thenCopy(q copyeng.Queue, n int) error {
	pending, err := f.fail(q, n)
	if err != nil {
		return err
	}
	if err := f.copy(q, f.some(copyeng.ToDevice, n, 1)); err != nil {
		return err
	}
	if err := f.settle(q, pending); err != nil {
		return err
	}
	_, high := whole(f.device).halves()
	return f.device.checkSpan(high)
}

func (f *faulty) thenFail(q copyeng.Queue, n int) error {
	var all []error
	for range 3 {
		pending, err := f.fail(q, n)
		if err != nil {
			return err
		}
		all = append(all, pending)
	}
	got := f.wait(q)
	for _, pending := range all {
		if pending != nil && !errors.Is(got, pending) {
			return fmt.Errorf("wait gives %v, without %w", got, pending)
		}
	}
	if errors.Join(all...) == nil && got != nil {
		return fmt.Errorf("wait gives %w, which Copy had returned", got)
	}
	return f.settle(q, nil)
}

func (f *faulty) thenClose(q copyeng.Queue, n int) error {
	pending, err := f.fail(q, n)
	if err != nil {
		return err
	}
	if err := q.Close(); !errors.Is(err, pending) {
		return fmt.Errorf("close gives %v, not %v", err, pending)
	}
	return f.reopened(n)
}

// reopened sees that another queue of the engine works.
func (f *faulty) reopened(n int) error {
	q, err := f.engine.NewQueue()
	if err != nil {
		return err
	}
	return errors.Join(f.poison(), f.copyAndVerify(q, f.some(copyeng.ToDevice, n, 0)), q.Close())
}

func (f *faulty) exchangeFails(q copyeng.Queue, n int) error {
	want := f.arm()
	_, got := q.Exchange(f.some(copyeng.ToDevice, n, 0), f.some(copyeng.ToHost, n, 1))
	pending, err := outcome(got, want)
	if err != nil {
		return err
	}
	return errors.Join(f.settle(q, pending), f.settle(q, nil))
}
