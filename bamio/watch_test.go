package bamio_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/bamio/bamiofake"
	"github.com/tritier/tritier/bamio/layout"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm/soft"
)

// busy reads until something goes wrong, and returns that; what it read before
// must be right.
func busy(d *bamiofake.Device, queue int) uint32 {
	for {
		b := d.Buffer(queue)
		if st := d.Transfer(queue, bamiofake.Read, bamiofake.Span{LBA: uint64(queue), Blocks: 1, Buffer: uint32(queue)}); st != 0 {
			return st
		}
		for _, x := range b[:512] {
			if x != 0 {
				return layout.RequestFailed // torn or lost: the drive holds zeroes
			}
		}
	}
}

// lossRig is an engine of four queues over two drives; the first is to be lost.
func lossRig(t *testing.T, o bamio.Options) (*rig, *bamio.Engine) {
	r := newRig(t)
	r.gone = true
	o.Drives = []bamio.Drive{r.drive(8<<20, soft.Config{}), r.drive(8<<20, soft.Config{})}
	o.Drives[0].Name = "victim"
	o.Queues, o.Buffers = 4, 32
	return r, r.open(o)
}

// TestDriveLost: a drive that vanishes, fails or loses its service threads in
// mid-run ends its commands with a status, long before their deadline, while
// the other drive works on.
func TestDriveLost(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(*soft.Controller)
		want bamio.Status
	}{
		"unplugged": {(*soft.Controller).Unplug, bamio.DeviceGone},
		"failed":    {(*soft.Controller).Fail, bamio.QueueFailed},
	} {
		t.Run(name, func(t *testing.T) {
			r, e := lossRig(t, bamio.Options{Deadline: 30 * time.Second})
			begun := time.Now()
			watched, kernel := r.run(e, func(d *bamiofake.Device) error {
				time.AfterFunc(50*time.Millisecond, func() { c.lose(r.soft[0]) })
				return threads(4, func(i int) error {
					if i < 2 {
						if st := bamio.Status(busy(d, i)); st != c.want {
							return fmt.Errorf("thread %d: %v, want %v", i, st, c.want)
						}
						return nil
					}
					return some(d, i)
				})
			})
			if kernel != nil {
				t.Error(kernel)
			}
			var lost *bamio.DriveError
			if !errors.As(watched, &lost) || lost.Drive != "victim" || lost.Status != c.want {
				t.Errorf("the watch ends with %v", watched)
			}
			if took := time.Since(begun); took > 15*time.Second {
				t.Errorf("it took %v", took)
			}
			s, err := e.Stats(t.Context())
			if err != nil || s.FailedQueues != 2 {
				t.Errorf("%d queues failed, want 2 (%v)", s.FailedQueues, err)
			}
		})
	}
}

// some makes some reads on a queue.
func some(d *bamiofake.Device, queue int) error {
	for range 8 {
		if st := d.Transfer(queue, bamiofake.Read, bamiofake.Span{Blocks: 1, Buffer: uint32(queue)}); st != 0 {
			return bamio.Status(st).Err()
		}
	}
	return nil
}

// TestServiceThreadsEnd: a software controller without threads is gone.
func TestServiceThreadsEnd(t *testing.T) {
	r := newRig(t)
	r.gone = true
	ctx, kill := context.WithCancel(context.Background())
	defer kill()
	m, err := soft.NewMemory(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	s, err := soft.New(ctx, soft.Config{Namespaces: []soft.NamespaceConfig{{Backend: m, BlockSize: 512}}})
	if err != nil {
		t.Fatal(err)
	}
	r.soft = append(r.soft, s)
	e := r.open(bamio.Options{Drives: []bamio.Drive{{Name: "mem", Controller: r.controller(s)}}, Queues: 1, Deadline: 30 * time.Second})
	watched, kernel := r.run(e, func(d *bamiofake.Device) error {
		time.AfterFunc(20*time.Millisecond, kill)
		if st := bamio.Status(busy(d, 0)); st != bamio.DeviceGone {
			return fmt.Errorf("ends with %v", st)
		}
		return nil
	})
	var lost *bamio.DriveError
	if kernel != nil || !errors.As(watched, &lost) {
		t.Errorf("kernel: %v, watch: %v", kernel, watched)
	}
}

// TestResume: after a stop kernels get Stopped, after Resume they work.
func TestResume(t *testing.T) {
	r := newRig(t)
	e := r.open(bamio.Options{Drives: []bamio.Drive{r.drive(8<<20, soft.Config{})}, Queues: 1, Buffers: 8})
	k := r.launch(e, func(d *bamiofake.Device) error {
		for {
			// A read that is given up may still land: not in a buffer that is used afterwards.
			if st := bamio.Status(d.Transfer(0, bamiofake.Read, bamiofake.Span{Blocks: 1, Buffer: 7})); st != bamio.OK {
				return st.Err()
			}
			if d.Stopped() {
				return bamio.Stopped.Err()
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := e.Watch(ctx, k.event); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*bamio.StallError)) {
		t.Errorf("the end of the context: %v", err)
	}
	if err := <-k.result; !errors.Is(err, &bamio.StatusError{Status: bamio.Stopped}) {
		t.Errorf("a kernel that was asked to end: %v", err)
	}
	if err := k.end(); err != nil {
		t.Error(err)
	}
	if err := e.Resume(); err != nil {
		t.Fatal(err)
	}
	r.must(e, func(d *bamiofake.Device) error { return exercise(d, 2, 4, 1) })
}

// TestCloseInFlight: Close under running kernels, a watch and a server ends all
// of them, and gives everything back.
func TestCloseInFlight(t *testing.T) {
	r := newRig(t)
	e := r.open(bamio.Options{Drives: []bamio.Drive{r.drive(8<<20, soft.Config{})}, Queues: 2, Buffers: 8})
	k := r.launch(e, func(d *bamiofake.Device) error {
		return threads(4, func(i int) error {
			if i < 2 {
				for !d.Stopped() {
					if st := bamio.Status(d.Transfer(i, bamiofake.Read, bamiofake.Span{Blocks: 1, Buffer: uint32(i)})); st != bamio.OK && st != bamio.Stopped {
						return st.Err()
					}
				}
				return nil
			}
			for !d.Stopped() {
				if st := bamio.Status(d.Request(1, [5]uint64{})); st != bamio.OK && st != bamio.Stopped {
					return st.Err()
				}
			}
			return nil
		})
	})
	ends := make(chan error, 2)
	go func() {
		ends <- e.Serve(context.Background(), func(context.Context, []bamio.Call) error { return nil })
	}()
	go func() { ends <- e.Watch(context.Background(), k.event) }()
	time.Sleep(50 * time.Millisecond)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-ends; err != nil && !errors.Is(err, bamio.ErrClosed) {
			t.Error(err)
		}
	}
	if err := <-k.result; err != nil {
		t.Error(err)
	}
	if err := errors.Join(k.end(), e.Close()); err != nil {
		t.Error(err)
	}
	if _, err := e.Stats(t.Context()); !errors.Is(err, bamio.ErrClosed) {
		t.Errorf("stats after close: %v", err)
	}
}

// TestContextLost: a fault of a kernel is what Watch returns, and Close gives back
// what can be.
func TestContextLost(t *testing.T) {
	r := newRig(t)
	r.lost = true
	e := r.open(bamio.Options{Drives: []bamio.Drive{r.drive(8<<20, soft.Config{})}, Queues: 2, Buffers: 8})
	r.fake.FailAsync(cuda.IllegalAddress)
	k := r.launch(e, func(*bamiofake.Device) error { return nil })
	if err := e.Watch(t.Context(), bamio.WorkFunc(k.event.Query)); !errors.Is(err, cuda.IllegalAddress) {
		t.Errorf("the watch ends with %v", err)
	}
	if err := e.Close(); err == nil || !errors.Is(err, cuda.ErrSticky) {
		t.Errorf("close: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("a second close: %v", err)
	}
}
