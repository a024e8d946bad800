package bamio_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/bamio/bamiofake"
	"github.com/tritier/tritier/libnvm/soft"
)

// serve serves until the test ends, or stop is called, which gives the error.
func serve(t *testing.T, e *bamio.Engine, h bamio.Handler) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- e.Serve(ctx, h) }()
	done := false
	stop = func() error {
		if done {
			return nil
		}
		done = true
		cancel()
		select {
		case err := <-end:
			return err
		case <-time.After(30 * time.Second):
			return errors.New("Serve does not return")
		}
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return stop
}

// TestRequests: many threads over a small ring, many laps; each gets the answer
// to its own request, and each request is handled once.
func TestRequests(t *testing.T) {
	for _, slots := range []int{1, 4, 256} {
		t.Run(fmt.Sprintf("%d slots", slots), func(t *testing.T) {
			r := newRig(t)
			e := r.open(bamio.Options{Drives: []bamio.Drive{r.drive(1<<20, soft.Config{})}, Queues: 1, Buffers: 1, Requests: slots})
			const workers, rounds = 8, 100
			var sum, calls atomic.Uint64
			var largest atomic.Int64
			serve(t, e, func(_ context.Context, batch []bamio.Call) error {
				for i := range batch {
					c := &batch[i]
					sum.Add(c.Argument[0])
					calls.Add(1)
					c.Status = bamio.Status(c.Kind<<8 | uint32(c.Argument[4]&0xff))
				}
				if n := int64(len(batch)); n > largest.Load() {
					largest.Store(n)
				}
				return nil
			})
			var want atomic.Uint64
			r.must(e, func(d *bamiofake.Device) error {
				return threads(workers, func(i int) error {
					for k := range uint64(rounds) {
						a := [5]uint64{uint64(i)<<32 | k, 1, 2, 3, k}
						want.Add(a[0])
						if st := d.Request(uint32(i), a); st != uint32(i)<<8|uint32(k&0xff) {
							return fmt.Errorf("worker %d, request %d: answer %#x", i, k, st)
						}
					}
					return nil
				})
			})
			if calls.Load() != workers*rounds || sum.Load() != want.Load() {
				t.Errorf("%d requests handled with sum %d, want %d with %d", calls.Load(), sum.Load(), workers*rounds, want.Load())
			}
			if n := largest.Load(); n > 32 || n > int64(slots) {
				t.Errorf("a batch of %d requests", n)
			}
			s, err := e.Stats(t.Context())
			if err != nil || s.Requests.Requests != workers*rounds || s.Requests.Batches == 0 {
				t.Errorf("%+v, %v", s.Requests, err)
			}
		})
	}
}

// TestRequestErrors: what a handler returns is the status of its calls, unless it
// has given them one.
func TestRequestErrors(t *testing.T) {
	r := newRig(t)
	e := r.open(bamio.Options{Drives: []bamio.Drive{r.drive(1<<20, soft.Config{})}, Queues: 1, Buffers: 1})
	results := []error{nil, errors.New("no"), fmt.Errorf("wrapped: %w", bamio.DeviceGone.Err()), context.DeadlineExceeded, context.Canceled, nil}
	serve(t, e, func(_ context.Context, batch []bamio.Call) error {
		if len(batch) != 1 {
			return errors.New("one thread has one request")
		}
		if batch[0].Kind == 5 {
			batch[0].Status = bamio.BadArgument
			return errors.New("the status is set already")
		}
		return results[batch[0].Kind]
	})
	want := []bamio.Status{bamio.OK, bamio.RequestFailed, bamio.DeviceGone, bamio.Timeout, bamio.Stopped, bamio.BadArgument}
	r.must(e, func(d *bamiofake.Device) error {
		for kind, st := range want {
			if got := bamio.Status(d.Request(uint32(kind), [5]uint64{})); got != st {
				t.Errorf("result %d: %v, want %v", kind, got, st)
			}
		}
		return nil
	})
	s, err := e.Stats(t.Context())
	if err != nil || s.Requests.Failed != 5 || s.Requests.LastError == nil {
		t.Errorf("%+v, %v", s.Requests, err)
	}
}

// TestSlowHandler: a handler that does not return holds up nobody for longer than
// the deadline, and Serve says at its end that it is still there.
func TestSlowHandler(t *testing.T) {
	r := newRig(t)
	e := r.open(bamio.Options{
		Drives: []bamio.Drive{r.drive(1<<20, soft.Config{})}, Queues: 1, Buffers: 1, Requests: 2,
		Deadline: time.Second, // in which a busy machine answers the requests that are to succeed
		Grace:    200 * time.Millisecond,
	})
	release := make(chan struct{})
	var handled atomic.Int32
	stop := serve(t, e, func(_ context.Context, batch []bamio.Call) error {
		handled.Add(int32(len(batch)))
		if batch[0].Kind == 1 {
			<-release // whatever its context says
		}
		return nil
	})
	r.must(e, func(d *bamiofake.Device) error {
		begun := time.Now()
		for range 3 { // the first blocks the handler, the others find it blocked
			if st := bamio.Status(d.Request(1, [5]uint64{})); st != bamio.Timeout && st != bamio.Busy && st != bamio.RequestFailed {
				t.Errorf("answer %v", st)
			}
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("three time-outs took %v", took)
		}
		return nil
	})
	if n := handled.Load(); n != 1 {
		t.Errorf("%d requests handled, want the one that blocks", n)
	}
	var busy *bamio.BusyError
	if err := stop(); !errors.As(err, &busy) || busy.Call != "serve" {
		t.Errorf("the end of Serve: %v", err)
	}
	close(release)
	// The next server begins where the last one stopped.
	serve(t, e, func(context.Context, []bamio.Call) error { return nil })
	r.must(e, func(d *bamiofake.Device) error {
		for range 5 {
			if st := bamio.Status(d.Request(0, [5]uint64{})); st != bamio.OK {
				return st.Err()
			}
		}
		return nil
	})
}

// TestRefused: a request that reaches no handler, since an earlier one has not returned,
// is told from one that may still be done.
func TestRefused(t *testing.T) {
	r := newRig(t)
	e := r.open(bamio.Options{
		Drives: []bamio.Drive{r.drive(1<<20, soft.Config{})}, Queues: 1, Buffers: 1, Deadline: 3 * time.Second, Grace: 200 * time.Millisecond,
	})
	release := make(chan struct{})
	var handled atomic.Int32
	stop := serve(t, e, func(context.Context, []bamio.Call) error {
		handled.Add(1)
		<-release // whatever its context says
		return nil
	})
	var ended error
	r.must(e, func(d *bamiofake.Device) error {
		if st := bamio.Status(d.Request(1, [5]uint64{})); st != bamio.Timeout {
			t.Errorf("a request whose handler does not return: %v", st)
		}
		time.Sleep(200 * time.Millisecond) // the server has given it up, too
		over := make(chan struct{})
		time.AfterFunc(600*time.Millisecond, func() { ended = stop(); close(over) })
		if st := bamio.Status(d.Request(1, [5]uint64{})); st != bamio.RequestFailed {
			t.Errorf("a request that reached no handler: %v", st)
		}
		<-over
		return nil
	})
	var busy *bamio.BusyError
	if !errors.As(ended, &busy) || handled.Load() != 1 {
		t.Errorf("%d batches were handled, and Serve ends with %v", handled.Load(), ended)
	}
	close(release)
}

// TestNobodyServes: requests time out, and those that nobody waits for any more
// are not handled when somebody serves again.
func TestNobodyServes(t *testing.T) {
	r := newRig(t)
	e := r.open(bamio.Options{
		Drives: []bamio.Drive{r.drive(1<<20, soft.Config{})}, Queues: 1, Buffers: 1, Requests: 2, Deadline: 50 * time.Millisecond, Grace: 10 * time.Second,
	})
	r.must(e, func(d *bamiofake.Device) error {
		for i, want := range []bamio.Status{bamio.Timeout, bamio.Timeout, bamio.Busy} {
			if st := bamio.Status(d.Request(7, [5]uint64{})); st != want {
				t.Errorf("request %d: %v, want %v", i, st, want)
			}
		}
		return nil
	})
	var old atomic.Int32
	serve(t, e, func(_ context.Context, batch []bamio.Call) error {
		for _, c := range batch {
			if c.Kind == 7 {
				old.Add(1)
			}
		}
		return nil
	})
	r.must(e, func(d *bamiofake.Device) error {
		for { // until somebody serves
			if st := bamio.Status(d.Request(0, [5]uint64{})); st != bamio.Timeout && st != bamio.Busy {
				return st.Err()
			}
		}
	})
	if err := e.Serve(t.Context(), nil); err == nil {
		t.Error("two servers at once")
	}
	if n := old.Load(); n != 0 {
		t.Errorf("%d requests handled that nobody waits for", n)
	}
	s, err := e.Stats(t.Context())
	if err != nil || s.Requests.Abandoned < 2 {
		t.Errorf("%+v, %v", s.Requests, err)
	}
}

// TestNoRequests: without a ring neither side has requests.
func TestNoRequests(t *testing.T) {
	r := newRig(t)
	e := r.open(bamio.Options{Drives: []bamio.Drive{r.drive(1<<20, soft.Config{})}, Queues: 1, Buffers: 1, Requests: -1})
	if err := e.Serve(t.Context(), nil); err == nil {
		t.Error("Serve without a ring")
	}
	r.must(e, func(d *bamiofake.Device) error {
		if st := bamio.Status(d.Request(0, [5]uint64{})); st != bamio.BadArgument {
			t.Errorf("%v", st)
		}
		return nil
	})
}

// TestWithdrawn: what was withdrawn in time is not done, what has begun is waited for,
// and where both come at once each request is done exactly once, here or there.
func TestWithdrawn(t *testing.T) {
	r := newRig(t)
	e := r.open(bamio.Options{Drives: []bamio.Drive{r.drive(1<<20, soft.Config{})}, Queues: 1, Buffers: 1, Requests: 8, Deadline: 30 * time.Second})
	r.must(e, func(d *bamiofake.Device) error {
		for range 3 {
			if st := bamio.Status(d.Settle(9, [5]uint64{}, time.Millisecond)); st != bamio.NotBegun {
				t.Errorf("a request that nobody serves: %v", st)
			}
		}
		return nil
	})
	const workers, rounds = 6, 300
	var done [workers * rounds]atomic.Int32
	var old, slow atomic.Int32
	serve(t, e, func(_ context.Context, batch []bamio.Call) error {
		for i := range batch {
			switch c := &batch[i]; c.Kind {
			case 9:
				old.Add(1)
			case 2:
				slow.Add(1)
				time.Sleep(50 * time.Millisecond)
				c.Status = bamio.RequestFailed
			default:
				done[c.Argument[0]].Add(1)
			}
		}
		return nil
	})
	r.must(e, func(d *bamiofake.Device) error {
		for slow.Load() == 0 { // the first ones come before somebody serves
			if st := bamio.Status(d.Settle(2, [5]uint64{}, 20*time.Millisecond)); slow.Load() > 0 && st != bamio.RequestFailed {
				t.Errorf("a request that was begun: %v", st)
			}
		}
		for range 3 {
			if st := bamio.Status(d.Withdrawn(9, [5]uint64{})); st != bamio.NotBegun {
				t.Errorf("a request that was withdrawn before it was seen: %v", st)
			}
		}
		return threads(workers, func(i int) error {
			for k := range rounds {
				at := i*rounds + k
				switch st := bamio.Status(d.Settle(1, [5]uint64{uint64(at)}, time.Duration(k%20)*time.Microsecond)); st {
				case bamio.NotBegun:
					done[at].Add(1)
				case bamio.OK:
				default:
					return st.Err()
				}
			}
			return nil
		})
	})
	for i := range done {
		if n := done[i].Load(); n != 1 {
			t.Errorf("request %d was done %d times", i, n)
		}
	}
	s, err := e.Stats(t.Context())
	if err != nil || old.Load() != 0 || s.Requests.Abandoned < 3 || s.Requests.CPU <= 0 {
		t.Errorf("%d that were withdrawn are done; %+v, %v", old.Load(), s.Requests, err)
	}
}
