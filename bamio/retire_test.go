package bamio_test

import (
	"errors"
	"testing"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// TestRetire: the queues are the controller's again, and the GPU's no more, before the
// reset; the payload stays until Close, which frees everything whatever the drive said.
func TestRetire(t *testing.T) {
	for _, failed := range []error{nil, errors.New("no reset")} {
		r := newRig(t)
		leaks := len(r.fake.Leaks()) // the context itself
		d := r.drive(1<<20, soft.Config{})
		e, err := bamio.Open(t.Context(), bamio.Options{GPU: r.gpu, Drives: []bamio.Drive{d}, Queues: 128, Buffers: 8, HostPayload: true})
		if err != nil {
			t.Fatal(err)
		}
		e.Payload()[5] = 42
		reset := 0
		err = e.Retire(func() error {
			reset++
			if q, err := d.Controller.CreateQueuePair(libnvm.QueueConfig{Depth: 4}); err != nil {
				t.Errorf("before the reset no queue is free: %v", err)
			} else if err := q.Close(); err != nil {
				t.Error(err)
			}
			if failed != nil {
				return failed
			}
			return d.Controller.Reset()
		})
		if !errors.Is(err, failed) || reset != 1 {
			t.Errorf("%d resets, %v", reset, err)
		}
		if e.Payload()[5] != 42 {
			t.Error("the payload is another")
		}
		if _, err := e.Stats(t.Context()); !errors.Is(err, bamio.ErrClosed) {
			t.Errorf("stats: %v", err)
		}
		ns, err := d.Controller.Namespace(1)
		if err != nil {
			t.Fatal(err)
		}
		q, err := d.Controller.CreateQueuePair(libnvm.QueueConfig{Depth: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(q.Do(&libnvm.Request{Op: libnvm.OpFlush, NS: ns}), q.Close(), e.Close()); err != nil {
			t.Error(err)
		}
		if left := r.fake.Leaks(); len(left) != leaks {
			t.Errorf("left: %v", left)
		}
	}
}
