package iobench_test

import (
	"context"
	"errors"
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
		Queues: 8, Depth: 32, Buffers: 32 * 32, Deadline: faultDeadline, Grace: time.Second})
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
	if share := float64(r.Errors) / float64(r.Errors+r.Reads); share < 0.008 || share > 0.012 || r.BadPieces != 0 {
		t.Errorf("%+v: want one error in a hundred and no bad data", *r)
	}
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
