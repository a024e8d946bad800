package iobench_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/bamio/iobench"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/libnvm/soft"
)

const faultDeadline = 400 * time.Millisecond

// faulty opens one software drive with rules, filled while they hit nothing.
func faulty(t *testing.T, ctx *cuda.Context, drives context.Context, rules ...soft.Rule) *setup {
	t.Helper()
	return faultyWithin(t, ctx, drives, faultDeadline, rules...)
}

// patient is a deadline that also holds where others use the processors too.
const patient = 10 * time.Second

// faultyWithin is faulty with another deadline.
func faultyWithin(t *testing.T, ctx *cuda.Context, drives context.Context, deadline time.Duration, rules ...soft.Rule) *setup {
	t.Helper()
	plan, err := soft.NewFaultPlan(5, rules...)
	if err != nil {
		t.Fatal(err)
	}
	ds, err := drive.OpenList(drives, "mem:64MiB", drive.Options{Access: drive.FreshOnly, Threads: 2, Faults: func(int) soft.Faults { return plan }})
	if err != nil {
		t.Fatal(err)
	}
	s := &setup{drives: ds}
	s.engine, err = bamio.Open(t.Context(), bamio.Options{GPU: ctx, Drives: []bamio.Drive{{Name: "mem", Controller: ds[0].Controller}},
		Queues: 8, Depth: 32, Buffers: 32 * 32, Deadline: deadline, Grace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if s.bench, err = iobench.New(s.engine); err != nil {
		t.Fatal(err)
	}
	if err := s.bench.Fill(t.Context(), 4096, 32, 0, 7); err != nil {
		t.Fatal(err)
	}
	return s
}

var reads = iobench.Job{Bytes: 4096, ReadShare: 1, Warps: 32, Data: 7, Seed: 3}

// One command in a hundred fails: each is an error at its lane, with the
// drive's status, and what succeeded is whole.
func TestFailedCommandsOnGPU(t *testing.T) {
	s := faulty(t, gpu(t), context.Background(), soft.Rule{Opcodes: []libnvm.Opcode{libnvm.OpRead}, Probability: 0.01,
		Fault: soft.Fault{Status: libnvm.StatusUnrecoveredRead, Transfer: 512}})
	defer s.close(t)
	j := reads
	j.Commands = 200_000
	r, err := s.bench.Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := r.FirstStatus.NVMe(); !ok || st.Code() != libnvm.StatusUnrecoveredRead.Code() {
		t.Errorf("the first failure is %v", r.FirstStatus)
	}
	if total(r) != r.Errors || r.OtherErrors != 0 || r.Statuses[r.FirstStatus] != r.Errors {
		t.Errorf("%d errors, by status %v", r.Errors, r.Statuses)
	}
	if share := float64(r.Errors) / float64(r.Errors+r.Reads); share < 0.008 || share > 0.012 || r.BadPieces != 0 {
		t.Errorf("%+v: want one error in a hundred and no bad data", *r)
	}
}

// testStatuses gives every queue an error of its own, and wants each counted as
// what it is, not as the first.
func testStatuses(t *testing.T, ctx *cuda.Context, commands uint64) {
	t.Helper()
	rule := func(queue uint16, limit uint64, f soft.Fault) soft.Rule {
		return soft.Rule{Queue: queue, Opcodes: []libnvm.Opcode{libnvm.OpRead}, Nth: 10, Limit: limit, Fault: f}
	}
	s := faultyWithin(t, ctx, context.Background(), patient, rule(1, 7, soft.Fault{Status: libnvm.StatusUnrecoveredRead}),
		rule(2, 11, soft.Fault{Status: libnvm.StatusInternalError}), rule(3, 13, soft.Fault{Status: libnvm.StatusNamespaceNotReady}),
		rule(4, 2, soft.Fault{Drop: true}), rule(5, 3, soft.Fault{Status: libnvm.StatusUnrecoveredRead}))
	defer s.close(t)
	j := reads
	j.Commands = commands
	r, err := s.bench.Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[uint8]uint64{}
	for st, n := range r.Statuses {
		if nv, ok := st.NVMe(); ok {
			codes[nv.Code()] += n
		}
	}
	want := map[uint8]uint64{libnvm.StatusUnrecoveredRead.Code(): 10, libnvm.StatusInternalError.Code(): 11, libnvm.StatusNamespaceNotReady.Code(): 13}
	if !maps.Equal(codes, want) || r.Statuses[bamio.Timeout] != 2 || total(r) != r.Errors || r.Errors != 36 || r.OtherErrors != 0 || r.BadPieces != 0 {
		t.Errorf("%d errors, by status %v, %d others", r.Errors, r.Statuses, r.OtherErrors)
	}
}

func TestStatusesOnGPU(t *testing.T) { testStatuses(t, gpu(t), 20_000) }

func TestStatuses(t *testing.T) {
	_, ctx := fakeGPU(t)
	testStatuses(t, ctx, 4000)
}

// More statuses than there is room for are still errors.
func testManyStatuses(t *testing.T, ctx *cuda.Context) {
	t.Helper()
	const kinds, room, per = 40, 32, 8 // statuses, places, blocks of a command
	var rules []soft.Rule
	for i := range uint64(kinds) { // every second command; the others show that the drive lives
		first := (2*i + 1) * per
		rules = append(rules, soft.Rule{Opcodes: []libnvm.Opcode{libnvm.OpRead}, FirstLBA: first, LastLBA: first + per - 1,
			Fault: soft.Fault{Status: libnvm.Status(0x300 + i)}})
	}
	s := faultyWithin(t, ctx, context.Background(), patient, rules...)
	defer s.close(t)
	r, err := s.bench.Run(t.Context(), iobench.Job{Bytes: 4096, ReadShare: 1, Pattern: iobench.Sequential, Area: 2 * kinds * 4096, Warps: 1, Lanes: 4, Data: 7,
		Commands: 3 * 2 * kinds})
	if err != nil {
		t.Fatal(err)
	}
	if r.Errors != 3*kinds || r.Reads != 3*kinds || len(r.Statuses) != room || r.OtherErrors != 3*(kinds-room) || total(r) != r.Errors {
		t.Errorf("%d errors, %d statuses, %d others: %v", r.Errors, len(r.Statuses), r.OtherErrors, r.Statuses)
	}
	for st, n := range r.Statuses {
		if n != 3 {
			t.Errorf("%d of %v", n, st)
		}
	}
}

func TestManyStatusesOnGPU(t *testing.T) { testManyStatuses(t, gpu(t)) }

func TestManyStatuses(t *testing.T) {
	_, ctx := fakeGPU(t)
	testManyStatuses(t, ctx)
}

// Completions that never come end in time-outs within the deadline.
func TestLostCompletionsOnGPU(t *testing.T) {
	s := faulty(t, gpu(t), context.Background(), soft.Rule{Opcodes: []libnvm.Opcode{libnvm.OpRead}, Nth: 2000, Limit: 2, Fault: soft.Fault{Drop: true}})
	defer s.close(t)
	j := reads
	j.Commands = 100_000
	start := time.Now()
	r, err := s.bench.Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	if r.Errors == 0 || r.FirstStatus != bamio.Timeout || r.BadPieces != 0 {
		t.Errorf("%+v: want time-outs and no bad data", *r)
	}
	if took := time.Since(start); took > 20*faultDeadline {
		t.Errorf("it took %v with a deadline of %v", took, faultDeadline)
	}
}

// The drive goes away, fails, or loses its service threads in mid-run: typed
// errors on both sides, in time, and whole data in what succeeded.
func TestLostDriveOnGPU(t *testing.T) {
	for name, lose := range map[string]func(c *soft.Controller, stop func()){
		"unplugged":            func(c *soft.Controller, _ func()) { c.Unplug() },
		"fatal status":         func(c *soft.Controller, _ func()) { c.Fail() },
		"service threads died": func(_ *soft.Controller, stop func()) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			drives, stop := context.WithCancel(context.Background())
			defer stop()
			s := faulty(t, gpu(t), drives)
			c, ok := s.drives[0].Transport.(*soft.Controller)
			if !ok {
				t.Fatalf("the transport is %T", s.drives[0].Transport)
			}
			timer := time.AfterFunc(50*time.Millisecond, func() { lose(c, stop) })
			defer timer.Stop()
			j := reads
			j.Commands = 1 << 40 // until it is lost
			start := time.Now()
			_, err := s.bench.Run(t.Context(), j)
			var driveError *bamio.DriveError
			var stall *bamio.StallError
			if !errors.As(err, &driveError) && !errors.As(err, &stall) {
				t.Errorf("%v, want a DriveError or a StallError", err)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			if err := s.bench.Close(); err != nil {
				t.Error(err)
			}
			var held *bamio.HeldError
			if err := s.engine.Close(); err != nil && !errors.As(err, &held) {
				t.Error(err)
			}
			_ = drive.CloseAll(s.drives) // a drive that is gone says so
			if err := s.engine.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
