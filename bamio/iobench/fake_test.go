package iobench_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/bamio/iobench"
	"github.com/tritier/tritier/bamio/iobench/iobenchfake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

// fakeGPU is a software GPU with the kernels of the load. Leaks fail the test.
func fakeGPU(t *testing.T) (*cudafake.GPU, *cuda.Context) {
	t.Helper()
	f := cudafake.New()
	t.Logf("fake GPU, seed %d", f.Seed())
	iobenchfake.Register(f)
	d, err := cuda.OpenBackend(f)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := d.Device("0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := dev.Retain()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := ctx.Close()
		if v := f.Violations(); len(v) > 0 {
			t.Errorf("violations: %v", v)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Error(err)
		}
		if l := f.Leaks(); len(l) > 0 {
			t.Errorf("leaks: %v", l)
		}
	})
	return f, ctx
}

// The host's side of the load, over the software GPU: every byte is checked,
// and figures are what the job asked for.
func TestFakeLoad(t *testing.T) {
	_, ctx := fakeGPU(t)
	s := open(t, ctx, "mem:1MiB,mem:1MiB", 1, bamio.Options{Queues: 2, Depth: 8, Buffers: 64})
	defer s.close(t)
	if err := s.bench.Fill(t.Context(), 4096, 2, 0, 7); err != nil {
		t.Fatal(err)
	}
	j := iobench.Job{Bytes: 512, ReadShare: 0.5, Warps: 4, PerBlock: 2, Lanes: 5, Commands: 1000, Seed: 3, Data: 7, Latency: true}
	r, err := s.bench.Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	if r.Reads+r.Writes != 1000 || r.Reads < 300 || r.Writes < 300 || r.Errors+r.BadPieces != 0 || r.SMs != 2 || r.Threads != 128 {
		t.Errorf("%+v", *r)
	}
	if p := r.Percentile(0.5); p <= 0 || p > r.Percentile(0.999) || r.Rate() <= 0 {
		t.Errorf("median %v of %v", p, r.Latencies)
	}
	j.ReadShare, j.Data, j.Pattern, j.Commands = 1, 8, iobench.Sequential, 20
	if r, err = s.bench.Run(t.Context(), j); err != nil || r.BadPieces != 20*512/16 {
		t.Errorf("another seed: %+v, %v", r, err)
	}
}

func TestMailbox(t *testing.T) {
	f, ctx := fakeGPU(t)
	s := open(t, ctx, "mem:1MiB", 1, bamio.Options{Queues: 1, Buffers: 1})
	defer s.close(t)
	trip, err := s.bench.Mailbox(t.Context(), 50)
	if err != nil || trip <= 0 || trip > 20*time.Millisecond {
		t.Errorf("%v, %v", trip, err)
	}
	for _, n := range []int{0, 1<<20 + 1} {
		if _, err := s.bench.Mailbox(t.Context(), n); err == nil {
			t.Errorf("%d rounds pass", n)
		}
	}
	// A kernel that stops early must not pass for a fast one.
	f.RegisterKernel("mailbox", func(*cudafake.Launch) error { return nil })
	if _, err := s.bench.Mailbox(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "did not answer round 0 of 3") {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.bench.Mailbox(gone, 3); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
