package bamio_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/bamio/bamiofake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// stuck is a kernel whose own deadline does not work: it never gives up a read,
// but looks at the stop flag, or not even that.
func stuck(stubborn bool, release *atomic.Bool) func(*bamiofake.Device) error {
	return func(d *bamiofake.Device) error {
		h, st := d.Start(1, bamiofake.Read, bamiofake.Span{LBA: 5, Blocks: 1})
		if st != 0 {
			return bamio.Status(st).Err()
		}
		for !release.Load() && (stubborn || !d.Stopped()) {
			time.Sleep(time.Millisecond)
		}
		if st := d.Wait(1, h); bamio.Status(st) != bamio.Stopped {
			return fmt.Errorf("after the stop: %v", bamio.Status(st))
		}
		return nil
	}
}

// checkDump looks for what stuck has left, on both sides.
func checkDump(t *testing.T, stall *bamio.StallError) {
	t.Helper()
	long := fmt.Sprintf("%+v", stall)
	for _, want := range []string{"1 in flight", "SQ entry 0: Read", "LBA 5", "tickets 1, rung 1, freed 0, completions taken 0", "doorbells hold SQ 1, CQ 0",
		"nothing in flight", "CQ entry 0 (old)", "software controller of mem", "CSTS"} {
		if !strings.Contains(long, want) {
			t.Errorf("the dump lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(long)
	}
	if strings.Contains(stall.Error(), "SQ entry") {
		t.Error("the short form has the dump")
	}
}

// TestStall: a queue on which nothing moves ends in a *StallError with the state
// of both sides, whether the kernel gives up when it is asked to or not.
func TestStall(t *testing.T) {
	for _, stubborn := range []bool{false, true} {
		t.Run(fmt.Sprintf("stubborn %v", stubborn), func(t *testing.T) {
			r := newRig(t)
			gate := make(chan struct{})
			plan, err := soft.NewFaultPlan(1, soft.Rule{Opcodes: []libnvm.Opcode{libnvm.OpRead}, Fault: soft.Fault{Gate: gate}})
			if err != nil {
				t.Fatal(err)
			}
			e := r.open(bamio.Options{
				Drives: []bamio.Drive{r.drive(8<<20, soft.Config{Faults: plan})}, Queues: 2, Buffers: 8,
				Deadline: 200 * time.Millisecond, Grace: time.Second, // in which a kernel on a busy machine sees the stop
			})
			var release atomic.Bool
			k := r.launch(e, stuck(stubborn, &release))
			begun := time.Now()
			err = e.Watch(t.Context(), k.event)
			took := time.Since(begun)
			var stall *bamio.StallError
			if !errors.As(err, &stall) || stall.Ended == stubborn || len(stall.Queues) != 1 || !strings.Contains(stall.Queues[0], "queue 2 of mem") {
				t.Fatalf("the watch ends with %v", err)
			}
			if took < 1200*time.Millisecond || took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			checkDump(t, stall)
			// Close with the kernel in flight says so, and works once it has ended.
			if stubborn {
				var busy *bamio.BusyError
				if err := e.Close(); !errors.As(err, &busy) {
					t.Errorf("close with a kernel in flight: %v", err)
				}
				if err := e.Watch(t.Context(), k.event); !errors.Is(err, bamio.ErrClosed) {
					t.Errorf("watch after close: %v", err)
				}
			}
			release.Store(true)
			if err := <-k.result; err != nil {
				t.Error(err)
			}
			close(gate)
			if err := k.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestGPUSilent: a GPU that does not even copy ends a watch in a *StallError, and
// a dump has what the host knows.
func TestGPUSilent(t *testing.T) {
	r := newRig(t)
	e := r.open(bamio.Options{
		Drives: []bamio.Drive{r.drive(8<<20, soft.Config{})}, Queues: 1, Buffers: 8, Deadline: time.Second, Grace: time.Second,
	})
	started := make(chan struct{})
	k := r.launch(e, func(d *bamiofake.Device) error {
		st := d.Transfer(0, bamiofake.Read, bamiofake.Span{LBA: 3, Blocks: 1})
		close(started) // whatever came of it: the test waits for this
		if st != 0 {
			return bamio.Status(st).Err()
		}
		for !d.Stopped() {
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	if _, err := k.event.Query(); err != nil { // starts what is queued
		t.Fatal(err)
	}
	<-started
	r.fake.Hang()
	err := e.Watch(t.Context(), k.event)
	var stall *bamio.StallError
	var late *cuda.DeadlineError
	if !errors.As(err, &stall) || !errors.As(err, &late) || !stall.Ended || len(stall.Queues) != 0 {
		t.Errorf("the watch ends with %v", err)
	}
	var b strings.Builder
	if err := e.Dump(t.Context(), &b); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"cannot be read", "counters are not known", "CQ entry 0 (new)", "1 reads", "stop flag 1"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in the dump:\n%s", want, b.String())
		}
	}
	r.fake.Release()
	b.Reset()
	if err := e.Dump(t.Context(), &b); err != nil || !strings.Contains(b.String(), "completions taken 1; nothing in flight") {
		t.Errorf("%v:\n%s", err, b.String())
	}
	if err := errors.Join(<-k.result, k.end()); err != nil {
		t.Error(err)
	}
}
