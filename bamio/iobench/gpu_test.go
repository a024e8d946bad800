package iobench_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/bamio/iobench"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm/drive"
)

// gpu is the first GPU, or a skip; with REQUIRE=gpu a failure.
func gpu(t testing.TB) *cuda.Context {
	t.Helper()
	ctx, err := func() (*cuda.Context, error) {
		d, err := cuda.Open()
		if err != nil {
			return nil, err
		}
		dev, err := d.Device("0")
		if err != nil {
			return nil, err
		}
		return dev.Retain()
	}()
	if err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "gpu") {
			t.Fatalf("REQUIRE=gpu: %v", err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
	})
	return ctx
}

// setup is drives, an engine and a bench over them, closed at the end.
type setup struct {
	drives []*drive.Drive
	engine *bamio.Engine
	bench  *iobench.Bench
}

func open(t testing.TB, ctx *cuda.Context, list string, threads int, o bamio.Options) *setup {
	t.Helper()
	ds, err := drive.OpenList(context.Background(), list, drive.Options{Access: drive.FreshOnly, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	s := &setup{drives: ds}
	o.GPU = ctx
	for _, d := range ds {
		o.Drives = append(o.Drives, bamio.Drive{Name: d.URI.String(), Controller: d.Controller})
	}
	if s.engine, err = bamio.Open(t.Context(), o); err != nil {
		t.Fatal(errors.Join(err, drive.CloseAll(ds)))
	}
	if s.bench, err = iobench.New(s.engine); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *setup) close(t testing.TB) {
	t.Helper()
	if err := errors.Join(s.bench.Close(), s.engine.Close(), drive.CloseAll(s.drives)); err != nil {
		t.Error(err)
	}
}

// Every byte of reads, writes and mixes is right, with one and several drives
// and queues, depths down to 2, and far more warps than queues.
func TestLoadIsRight(t *testing.T) {
	ctx := gpu(t)
	for _, c := range []struct {
		list                        string
		queues, depth, warps, bytes int
		lanes                       int
		share                       float64
		pattern                     iobench.Pattern
		first                       uint64
	}{
		{"mem:64MiB", 4, 64, 4, 4096, 32, 1, iobench.Random, 0},
		{"mem:64MiB", 1, 2, 3, 512, 32, 0.5, iobench.Random, 0},
		{"mem:64MiB", 2, 3, 40, 4096, 7, 0.5, iobench.Random, 1<<32 - 64},
		{"mem:64MiB,mem:64MiB,mem:64MiB", 6, 64, 24, 16384, 32, 0.7, iobench.Random, 1<<32 - 128},
		{"mem:64MiB", 8, 32, 64, 65536, 4, 1, iobench.Sequential, 0},
		{"mem:256MiB", 4, 16, 8, 1 << 20, 2, 0.5, iobench.Random, 0},
		{"mem:64MiB?block=4096", 4, 64, 128, 4096, 32, 0.9, iobench.Random, 0},
		{"mem:64MiB", 8, 64, 300, 512, 1, 0.9, iobench.Random, 0},
	} {
		t.Run(fmt.Sprintf("%s,queues=%d,depth=%d,warps=%d,bytes=%d", c.list, c.queues, c.depth, c.warps, c.bytes), func(t *testing.T) {
			size := max(c.bytes, 4096)
			s := open(t, ctx, c.list, 2, bamio.Options{Queues: c.queues, Depth: c.depth, BufferBytes: size,
				Buffers: (c.warps*c.lanes*c.bytes + size - 1) / size, FirstEntry: c.first})
			defer s.close(t)
			fill := min(c.bytes, 65536)
			if err := s.bench.Fill(t.Context(), fill, max(1, c.warps*c.lanes*c.bytes/fill/32), 0, 7); err != nil {
				t.Fatal(err)
			}
			r, err := s.bench.Run(t.Context(), iobench.Job{Bytes: c.bytes, ReadShare: c.share, Pattern: c.pattern, Warps: c.warps, Lanes: c.lanes,
				Commands: 20000, Seed: 11, Data: 7, Latency: true})
			if err != nil {
				t.Fatal(err)
			}
			if r.Errors != 0 || r.BadPieces != 0 || r.Reads+r.Writes < 20000 || (c.share < 1) != (r.Writes > 0) {
				t.Errorf("%+v", *r)
			}
			// Contents from another seed must be noticed, or nothing was checked.
			r, err = s.bench.Run(t.Context(), iobench.Job{Bytes: c.bytes, ReadShare: 1, Warps: c.warps, Lanes: c.lanes, Commands: 100, Data: 8})
			if err != nil || r.BadPieces == 0 {
				t.Errorf("a wrong seed: %+v, %v", r, err)
			}
		})
	}
}

// Data of another drive, at the same block, is noticed.
func TestSwappedDrivesGPU(t *testing.T) { testSwapped(t, gpu(t)) }

// TestRates prints what the software controller over memory gives, when RATES
// is set: the lines that docs/io-speed.md compares with the bare prototype's.
// Medians of five runs, spread in brackets.
func TestRates(t *testing.T) {
	if os.Getenv("RATES") == "" {
		t.Skip("set RATES=1 to measure")
	}
	ctx := gpu(t)
	for _, threads := range []int{8, 4, 2, 1} {
		t.Run(fmt.Sprintf("threads=%d", threads), func(t *testing.T) {
			s := open(t, ctx, "mem:8GiB", threads, bamio.Options{Queues: 128, Depth: 64, BufferBytes: 65536, Buffers: 128 * 32})
			defer s.close(t)
			if err := s.bench.Fill(t.Context(), 65536, 64, 0, 7); err != nil {
				t.Fatal(err)
			}
			if threads == 8 {
				latencies(t, s)
			}
			for _, bytes := range []int{512, 4096, 16384, 65536} {
				for _, warps := range []int{16, 32, 64, 128} {
					// About a third of a second each, of which five are made.
					rate(t, s, bytes, warps, uint64(min(4<<20, 100_000*threads*4096/bytes+50_000)), threads)
				}
			}
		})
	}
}

func rate(t *testing.T, s *setup, bytes, warps int, commands uint64, threads int) {
	t.Helper()
	var rates []float64
	sms := 0
	for i := range 5 {
		r, err := s.bench.Run(t.Context(), iobench.Job{Bytes: bytes, ReadShare: 1, Warps: warps, PerBlock: 8, Data: 7, Seed: uint64(i) << 40, Commands: commands})
		if err != nil {
			t.Fatal(err)
		}
		if r.Errors+r.BadPieces != 0 {
			t.Fatalf("%+v", *r)
		}
		rates, sms = append(rates, r.Rate()), r.SMs
	}
	slices.Sort(rates)
	m := rates[len(rates)/2]
	fmt.Printf("RATE %6d T%-2d warps %-3d | %.2f M (%.2f-%.2f) %.1f GB/s, %d GPU threads on %d SMs\n",
		bytes, threads, warps, m/1e6, rates[0]/1e6, rates[4]/1e6, m*float64(bytes)/1e9, 32*warps, sms)
}

// latencies prints the unloaded latency of one command beside the round trip of
// a mailbox.
func latencies(t *testing.T, s *setup) {
	t.Helper()
	for _, bytes := range []int{512, 4096} {
		r, err := s.bench.Run(t.Context(), iobench.Job{Bytes: bytes, ReadShare: 1, Warps: 1, PerBlock: 1, Lanes: 1, Data: 7, Commands: 20000, Latency: true})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("LATENCY %d bytes alone: p50 %v p99 %v; %.2f us a command with the payload pulled and checked\n",
			bytes, r.Percentile(0.5), r.Percentile(0.99), 1e6/r.Rate())
	}
	trip, err := s.bench.Mailbox(t.Context(), 20000)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("MAILBOX round trip GPU -> CPU -> GPU: %v\n", trip)
}
