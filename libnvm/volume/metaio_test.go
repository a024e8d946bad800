package volume_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/libnvm/volume"
)

// metaFaults gives metadata commands, those of queue 1, a fault while it is on,
// and counts them.
type metaFaults struct {
	fault atomic.Pointer[soft.Fault]
	op    atomic.Uint32 // only this opcode
	hits  atomic.Int64
}

func (f *metaFaults) set(op libnvm.Opcode, fault soft.Fault) {
	f.op.Store(uint32(op))
	f.hits.Store(0)
	f.fault.Store(&fault)
}

func (f *metaFaults) Command(i *soft.CommandInfo) soft.Fault {
	fault := f.fault.Load()
	if fault == nil || i.Queue != 1 || uint32(i.Opcode) != f.op.Load() {
		return soft.Fault{}
	}
	f.hits.Add(1)
	return *fault
}

// metaDrive is a controller over memory that outlives the volumes on it.
type metaDrive struct {
	c    *libnvm.Controller
	ns   *libnvm.Namespace
	shut func() error
}

func newMetaDrive(t *testing.T, serial string, f soft.Faults) *metaDrive {
	t.Helper()
	c, ns, shut := memoryNamespace(t, soft.Config{Serial: serial, Faults: f}, libnvm.Config{})
	return &metaDrive{c, ns, shut}
}

func (d *metaDrive) member(t *testing.T) volume.Member {
	t.Helper()
	m, err := volume.NewNamespace(d.c, d.ns, volume.NamespaceOptions{NoLock: true})
	must(t, err)
	return m
}

// oneFailure lets command number k for metadata of one drive fail once, and says
// whether there was one.
func oneFailure(t *testing.T, drives, bad int, k uint64, checksums bool) bool {
	plan, err := soft.NewFaultPlan(1, soft.Rule{Name: "once", Queue: 1, Skip: k, Limit: 1, Fault: soft.Fault{Status: libnvm.StatusInternalError}})
	must(t, err)
	var ds []*metaDrive
	members := func() (ms []volume.Member) {
		for _, d := range ds {
			ms = append(ms, d.member(t))
		}
		return ms
	}
	for i := range drives {
		var f soft.Faults
		if i == bad {
			f = plan
		}
		ds = append(ds, newMetaDrive(t, fmt.Sprintf("S%d", i), f))
	}
	defer func() {
		if t.Failed() {
			t.Logf("%d drives, checksums %v, drive %d fails command %d for metadata", drives, checksums, bad, k)
		}
		for _, d := range ds {
			must(t, d.shut())
		}
	}()
	v, err := volume.Create(members(), volume.Options{PageSize: 4096, Checksums: checksums, LogBytes: 4096})
	must(t, err)
	a, err := v.CreateArray("a", 40)
	must(t, err)
	f := newFixture(t, v, a)
	must(t, f.write(7, 1, time.Minute))
	must(t, v.Flush())
	f.close()
	v, err = volume.Open(members())
	must(t, err)
	a, err = v.OpenArray("a")
	must(t, err)
	f = newFixture(t, v, a)
	f.expect(7, 1)
	must(t, errors.Join(f.q.Close(), f.mem.Free(), a.Close()))
	must(t, v.DeleteArray("a"))
	must(t, v.Close())
	v, err = volume.OpenReadOnly(members())
	must(t, err)
	if len(v.Arrays()) != 0 {
		t.Error("the array is still there")
	}
	must(t, v.Close())
	return plan.Fired()[0] == 1
}

// TestOneFailureOfMetadata: an answer that allows to try again fails no call,
// whichever operation it is for.
func TestOneFailureOfMetadata(t *testing.T) {
	for _, drives := range []int{1, 2} {
		for bad := range drives {
			for _, checksums := range []bool{false, true} {
				k, stride := uint64(0), uint64(1)
				if testing.Short() {
					stride = 3
				}
				for oneFailure(t, drives, bad, k, checksums) {
					k += stride
				}
				if k < 10 {
					t.Errorf("%d drives: drive %d had only %d commands for metadata", drives, bad, k)
				}
			}
		}
	}
}

// metaVolume is a volume of one drive.
func metaVolume(t *testing.T, f soft.Faults, o volume.Options) (*volume.Volume, *metaDrive) {
	t.Helper()
	d := newMetaDrive(t, "S", f)
	o.PageSize = 4096
	v, err := volume.Create([]volume.Member{d.member(t)}, o)
	must(t, err)
	return v, d
}

// TestMetadataRetriesEnd: how often a command is sent for an answer.
func TestMetadataRetriesEnd(t *testing.T) {
	fs := &metaFaults{}
	v, d := metaVolume(t, fs, volume.Options{})
	for _, c := range []struct {
		op   libnvm.Opcode
		f    soft.Fault
		sent int64
	}{
		{libnvm.OpFlush, soft.Fault{Status: libnvm.StatusInternalError}, 3},
		{libnvm.OpFlush, soft.Fault{Status: libnvm.StatusInternalError, DNR: true}, 1},
		{libnvm.OpFlush, soft.Fault{Status: libnvm.StatusWriteFault}, 1}, // writes are lost
		{libnvm.OpWriteZeroes, soft.Fault{Status: libnvm.StatusNamespaceNotReady}, 3},
		{libnvm.OpWriteZeroes, soft.Fault{Status: libnvm.StatusNamespaceNotReady, DNR: true}, 1},
		{libnvm.OpWrite, soft.Fault{Status: libnvm.StatusWriteFault}, 3},
	} {
		fs.set(c.op, c.f)
		call := v.Flush
		if c.op != libnvm.OpFlush {
			call = func() error { _, err := v.CreateArray("a", 4); return err }
		}
		var status *libnvm.StatusError
		if err := call(); !errors.As(err, &status) || status.Status != c.f.Status || fs.hits.Load() != c.sent {
			t.Errorf("%v, %+v: %v after %d commands, want the status after %d", c.op, c.f, err, fs.hits.Load(), c.sent)
		}
	}
	fs.fault.Store(nil)
	if err := v.Close(); !errors.Is(err, &libnvm.StatusError{Status: libnvm.StatusWriteFault}) {
		t.Errorf("close of a volume whose directory was not written: %v, want why", err)
	}
	must(t, d.shut())
}

// TestMetadataIsNotRetriedAfterATimeout: what got no answer may still land.
func TestMetadataIsNotRetriedAfterATimeout(t *testing.T) {
	fs := &metaFaults{}
	v, d := metaVolume(t, fs, volume.Options{MetadataTimeout: time.Hour})
	v.SetMetadataTimeout(300 * time.Millisecond) // in which a busy machine sends it
	fs.set(libnvm.OpFlush, soft.Fault{Drop: true})
	soon(t, "flush", func() error { return v.Flush() })
	if n := fs.hits.Load(); n != 1 {
		t.Errorf("%d commands, want one", n)
	}
	fs.fault.Store(nil)
	if err := v.Flush(); !errors.Is(err, volume.ErrHeld) {
		t.Errorf("flush after a time-out: %v, want ErrHeld", err)
	}
	must(t, d.c.Reset())
	v.SetMetadataTimeout(0) // the default again
	must(t, v.Flush())
	must(t, v.Close())
	must(t, d.shut())
}

// soon checks that a call ends with a time-out that is not the default one.
func soon(t *testing.T, what string, call func() error) {
	t.Helper()
	start := time.Now()
	err := call()
	var timeout *libnvm.TimeoutError
	if took := time.Since(start); !errors.As(err, &timeout) || took > volume.DefaultMetadataTimeout-5*time.Second {
		t.Errorf("%s: %v after %v, want *TimeoutError, soon", what, err, took)
	}
}

// TestMetadataTimeoutOfOpen: the bound counts from the first operation on.
func TestMetadataTimeoutOfOpen(t *testing.T) {
	const bound = 50 * time.Millisecond
	fs := &metaFaults{}
	d := newMetaDrive(t, "S", fs)
	try := func(what string, op libnvm.Opcode, open func() (*volume.Volume, error)) {
		t.Helper()
		fs.set(op, soft.Fault{Drop: true})
		soon(t, what, func() error { _, err := open(); return err })
		fs.fault.Store(nil)
		must(t, d.c.Reset())
	}
	create := func(timeout time.Duration) (*volume.Volume, error) {
		return volume.Create([]volume.Member{d.member(t)}, volume.Options{PageSize: 4096, Force: true, MetadataTimeout: timeout})
	}
	for _, op := range []libnvm.Opcode{libnvm.OpWrite, libnvm.OpFlush} {
		try("create", op, func() (*volume.Volume, error) { return create(bound) })
	}
	v, err := create(-1)
	must(t, err)
	must(t, v.Close())
	for _, readOnly := range []bool{false, true} {
		o := volume.OpenOptions{ReadOnly: readOnly, MetadataTimeout: bound}
		try("open", libnvm.OpRead, func() (*volume.Volume, error) { return volume.OpenWith([]volume.Member{d.member(t)}, o) })
	}
	v, err = volume.OpenWith([]volume.Member{d.member(t)}, volume.OpenOptions{ReadOnly: true})
	must(t, err)
	if err := v.DeleteArray("x"); !errors.Is(err, volume.ErrReadOnly) {
		t.Errorf("a change of a volume opened read-only: %v, want ErrReadOnly", err)
	}
	must(t, v.Close())
	try("open", libnvm.OpWrite, func() (*volume.Volume, error) {
		return volume.OpenWith([]volume.Member{d.member(t)}, volume.OpenOptions{MetadataTimeout: bound})
	})
	must(t, d.shut())
}

// TestFlushContext: a flush ends with its context; what it has left in flight is
// waited for by the next operation, and holds metadata up when it does not end.
func TestFlushContext(t *testing.T) {
	fs := &metaFaults{}
	v, d := metaVolume(t, fs, volume.Options{MetadataTimeout: 40 * time.Second, Checksums: true})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	fs.set(libnvm.OpFlush, soft.Fault{Delay: time.Nanosecond})
	if err := v.FlushContext(ended); !errors.Is(err, context.Canceled) || fs.hits.Load() != 0 {
		t.Errorf("flush of a context that has ended: %v after %d commands", err, fs.hits.Load())
	}
	gate := make(chan struct{})
	fs.set(libnvm.OpFlush, soft.Fault{Gate: gate})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(30*time.Millisecond, cancel)
	if err := v.FlushContext(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a flush that is cancelled: %v", err)
	}
	fs.fault.Store(nil)
	expire(t, v, "a flush while another is in flight")
	v.SetMetadataTimeout(30 * time.Millisecond)
	if err := v.Flush(); !errors.Is(err, volume.ErrHeld) {
		t.Errorf("a flush after one that is still in flight: %v, want ErrHeld", err)
	}
	var unknown *volume.DurabilityError
	if err := v.Recover(t.Context()); !errors.Is(err, volume.ErrNoReset) || errors.As(err, &unknown) {
		t.Errorf("recovery with a flush in flight: %v, want ErrNoReset", err)
	}
	v.SetMetadataTimeout(0)
	time.AfterFunc(30*time.Millisecond, func() { close(gate) })
	a, err := v.CreateArray("a", 4) // waits for it
	must(t, err)
	must(t, a.Close())
	must(t, v.FlushContext(t.Context()))
	must(t, v.Recover(t.Context()))
	must(t, v.Close())
	if err := v.FlushContext(t.Context()); !errors.Is(err, volume.ErrClosed) {
		t.Errorf("flush of a closed volume: %v", err)
	}
	must(t, d.shut())
}

// expire checks that a flush ends with its deadline.
func expire(t *testing.T, v *volume.Volume, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := v.FlushContext(ctx)
	if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 20*time.Second {
		t.Errorf("%s: %v after %v, want the context's error after 30 ms", what, err, took)
	}
}

// TestFlushContextWaitsForItsTurn: no longer than its context lasts.
func TestFlushContextWaitsForItsTurn(t *testing.T) {
	fs := &metaFaults{}
	v, d := metaVolume(t, fs, volume.Options{MetadataTimeout: 40 * time.Second})
	gate, first := make(chan struct{}), make(chan error, 1)
	fs.set(libnvm.OpFlush, soft.Fault{Gate: gate})
	go func() { first <- v.Flush() }()
	for deadline := time.Now().Add(30 * time.Second); fs.hits.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the first flush was not sent")
		}
	}
	expire(t, v, "a flush behind another")
	if n := fs.hits.Load(); n != 1 {
		t.Errorf("%d flushes were sent, want one", n)
	}
	close(gate)
	must(t, <-first)
	must(t, v.FlushContext(t.Context()))
	must(t, v.Close())
	must(t, d.shut())
}

// TestFlushAsksAllMembersAtOnce: the bound is for them together.
func TestFlushAsksAllMembersAtOnce(t *testing.T) {
	fs := []*metaFaults{{}, {}}
	ds := []*metaDrive{newMetaDrive(t, "A", fs[0]), newMetaDrive(t, "B", fs[1])}
	v, err := volume.Create([]volume.Member{ds[0].member(t), ds[1].member(t)}, volume.Options{PageSize: 4096})
	must(t, err)
	gate := make(chan struct{})
	fs[0].set(libnvm.OpFlush, soft.Fault{Gate: gate})
	fs[1].set(libnvm.OpFlush, soft.Fault{Delay: time.Nanosecond})
	done := make(chan error, 1)
	go func() { done <- v.Flush() }()
	for deadline := time.Now().Add(20 * time.Second); fs[1].hits.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("the second member is not asked before the first has answered")
			break
		}
	}
	close(gate)
	must(t, <-done)
	must(t, v.Close())
	must(t, errors.Join(ds[0].shut(), ds[1].shut()))
}
