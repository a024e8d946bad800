package main

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

// A run over the software GPU: every row, with figures that agree with each other.
func TestBenchCopyRun(t *testing.T) {
	withFakeGPU(t)
	picture := filepath.Join(t.TempDir(), "copies.svg")
	out, _, err := tritier(t.Context(), "bench", "copy", "--bytes", "16MiB", "--runs", "3", "--page", "512B,16KiB", "--pages", "1..4,64", "--seed", "9", "--json", "--plot", picture)
	if err != nil {
		t.Fatal(err)
	}
	doc := decodeCopy(t, out)
	if len(doc.Rows) != 3*2*4 || len(doc.Small) != 2*2*4 || !doc.Verified || doc.Interrupted || doc.Seed != 9 || doc.Runs != 3 || doc.Bytes != 16<<20 {
		t.Fatalf("%d rows, %d small: %s", len(doc.Rows), len(doc.Small), out[:800])
	}
	if doc.GPU.Name != "Software GPU" || doc.Driver != "13.0" || doc.PCIe.Now.Generation != 4 || !strings.Contains(doc.Calibration, "this GPU is not calibrated") {
		t.Errorf("%+v, %s, %+v, %s", doc.GPU, doc.Driver, doc.PCIe, doc.Calibration)
	}
	for _, x := range doc.Rows {
		want, rate, ways := batchPaths, doc.Link.ToDevice, 1.0
		switch x.Direction {
		case "to-host":
			rate = doc.Link.ToHost
		case "both":
			want, rate, ways = bothPaths, doc.Link.BothWays, 2
		}
		best := math.Inf(1)
		for _, p := range want {
			v, ok := x.Paths[p]
			if !ok || v.Median <= 0 || v.Low > v.Median || v.High < v.Median {
				t.Errorf("%s %d x %d by %s: %+v", x.Direction, x.PageBytes, x.Pages, p, v)
			}
			best = min(best, v.Median)
		}
		c := x.Chooser
		if len(x.Paths) != len(want) || x.Paths[x.BestPath].Median != best || !slices.Contains(want, c.Path) {
			t.Errorf("%s %d x %d: %+v", x.Direction, x.PageBytes, x.Pages, x)
		}
		gbps := ways * float64(x.PageBytes*x.Pages) / c.Median / 1e3
		if math.Abs(c.OverBest*best-c.Median) > 1e-6*c.Median || math.Abs(c.GBps-gbps) > 1e-6*gbps || math.Abs(c.LinkShare*rate-gbps) > 1e-6*gbps {
			t.Errorf("%s %d x %d: chooser %+v, best %g us, %g GB/s of %g", x.Direction, x.PageBytes, x.Pages, c, best, gbps, rate)
		}
	}
	for _, s := range doc.Small {
		if s.Runs < smallRuns || (s.Pages == 1) != (len(s.Driver) == 1) {
			t.Errorf("small: %+v", s)
		}
	}
	if text, err := os.ReadFile(picture); err != nil || !bytes.Contains(text, []byte("16KiB pages, both ways at once")) {
		t.Errorf("picture: %v", err)
	}
}

// The lists choose what is measured: directions without a path of their own
// are left out, and the chooser's curves may be given.
func TestBenchCopySelection(t *testing.T) {
	withFakeGPU(t, cudafake.Version(12040))
	file := slowCalibration(t)
	out, errs, err := tritier(t.Context(), "bench", "copy", "--bytes", "8MiB", "--runs", "1", "--page", "4KiB", "--pages", "2", "--paths", "memcpy-async,zero-copy")
	if err != nil || errs != "" {
		t.Fatal(err, errs)
	}
	wantLines(t, out, "to the device: ", "to the host: ", "memcpy-async", "zero-copy")
	for _, not := range []string{"both ways at once: median", "chooser\n", "takes", "small batches", "summary", "hybrid"} {
		if strings.Contains(out, not) {
			t.Errorf("%q in\n%s", not, out)
		}
	}
	out, _, err = tritier(t.Context(), "bench", "copy", "--bytes", "8MiB", "--runs", "1", "--page", "4KiB", "--pages", "2", "--direction", "to-host", "--calibration", file)
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out, "chooser: slow.yaml: NVIDIA H200, 2026-11-30, CUDA 13.0\n", "zero-copy")
	if strings.Contains(out, "batch-2") || strings.Contains(out, "to the device: median") {
		t.Errorf("paths that the driver lacks, or a direction not asked for:\n%s", out)
	}
	_, _, err = tritier(t.Context(), "bench", "copy", "--bytes", "8MiB", "--paths", "hybrid-50", "--pages", "2")
	if err == nil || !strings.Contains(err.Error(), "this GPU and driver have no path hybrid-50 (they have memcpy-async, zero-copy)") {
		t.Error(err)
	}
}

// Pages go where the row says.
func TestBenchCopyDirection(t *testing.T) {
	f := withFakeGPU(t)
	var launches, toDevice atomic.Int64
	f.RegisterKernel("copy_inline", func(l *cudafake.Launch) error {
		launches.Add(1)
		toDevice.Add(int64(l.U32(504)))
		return copyInline(l)
	})
	for _, c := range []struct {
		direction string
		want      int64 // of five times 3 runs and one that is verified
	}{{"to-host", 0}, {"to-device", 16}} {
		launches.Store(0)
		toDevice.Store(0)
		if _, _, err := tritier(t.Context(), "bench", "copy", "--bytes", "8MiB", "--runs", "3", "--page", "4KiB", "--pages", "2", "--paths", "zero-copy", "--direction", c.direction); err != nil {
			t.Fatal(err)
		}
		if launches.Load() != 16 || toDevice.Load() != c.want {
			t.Errorf("%s: %d launches, %d of them to the device", c.direction, launches.Load(), toDevice.Load())
		}
	}
}

// Small batches are measured only the ways that were asked for.
func TestBenchCopySmallDirection(t *testing.T) {
	withFakeGPU(t)
	for direction, want := range map[string][]string{"to-host": {"to-host"}, "to-device": {"to-device"}, "both": nil, "both,to-host": {"to-host"}} {
		out, _, err := tritier(t.Context(), "bench", "copy", "--bytes", "8MiB", "--runs", "1", "--page", "4KiB", "--pages", "2", "--direction", direction, "--json")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range decodeCopy(t, out).Small {
			if !slices.Contains(got, s.Direction) {
				got = append(got, s.Direction)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("--direction %s: small batches %v", direction, got)
		}
	}
}

// slowCalibration is curves by which zero-copy is always best.
func slowCalibration(t *testing.T) string {
	t.Helper()
	c, err := copyeng.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	c.Measured = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for i := range c.Curves {
		if times := c.Curves[i].Micros[copyeng.PathZeroCopy]; times != nil {
			for k := range times {
				times[k] = 0.5
			}
		}
	}
	file := filepath.Join(t.TempDir(), "slow.yaml")
	if err := c.Save(file); err != nil {
		t.Fatal(err)
	}
	return file
}

// --check fails when the chooser is led to a path that is slow, and says so
// after the table.
func TestBenchCopyCheckFails(t *testing.T) {
	f := withFakeGPU(t)
	f.RegisterKernel("copy_inline", func(l *cudafake.Launch) error {
		time.Sleep(20 * time.Millisecond)
		return copyInline(l)
	})
	args := []string{"bench", "copy", "--bytes", "8MiB", "--runs", "3", "--page", "128KiB", "--pages", "1", "--direction", "to-device",
		"--paths", "chooser,memcpy-async", "--calibration", slowCalibration(t)}
	if _, _, err := tritier(t.Context(), args...); err != nil {
		t.Errorf("without --check: %v", err)
	}
	out, _, err := tritier(t.Context(), append(args, "--check")...)
	if err == nil || !strings.Contains(err.Error(), "--check: 1 of 1 bar missed: chooser over the best path, one way, worst: ") {
		t.Error(err)
	}
	wantLines(t, out, "MISSED", "not measured")
}

// A path that copies wrongly ends the run with what was known before.
func TestBenchCopyVerifies(t *testing.T) {
	f := withFakeGPU(t)
	f.RegisterKernel("exchange", func(*cudafake.Launch) error { return nil })
	out, _, err := tritier(t.Context(), "bench", "copy", "--bytes", "8MiB", "--runs", "1", "--page", "4KiB", "--pages", "2,4", "--plot", filepath.Join(t.TempDir(), "x.svg"))
	if err == nil || !strings.Contains(err.Error(), "exchange") || !strings.Contains(err.Error(), "differ after the copy") {
		t.Error(err)
	}
	wantLines(t, out, "to the host: ", "ended early: 4 of 6 rows are known\n")
	f.RegisterKernel("copy_inline", func(*cudafake.Launch) error { return nil })
	out, _, err = tritier(t.Context(), "bench", "copy", "--bytes", "8MiB", "--runs", "1", "--page", "4KiB", "--pages", "2", "--paths", "zero-copy")
	if err == nil || !strings.Contains(err.Error(), "zero-copy") || out != "" {
		t.Errorf("%v, output %q", err, out)
	}
}

// A real Ctrl-C ends with what is known, without a picture.
func TestBenchCopyInterrupted(t *testing.T) {
	f := withFakeGPU(t)
	dir := t.TempDir()
	var out, errs bytes.Buffer
	status := make(chan int, 1)
	go func() {
		status <- run([]string{"bench", "copy", "--bytes", "8MiB", "--runs", "50", "--page", "128KiB", "--pages", "1..16", "--json",
			"--plot", dir + "/x.svg", "--check"}, nil, &out, &errs)
	}()
	awaitCopies(t, f, 400) // past the link and the first row
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case s := <-status:
		if s != exitInterrupted || errs.String() != "tritier: interrupted\n" {
			t.Errorf("status %d, %q", s, errs.String())
		}
	case <-time.After(time.Minute):
		t.Fatal("still running a minute after Ctrl-C")
	}
	if doc := decodeCopy(t, out.String()); !doc.Interrupted || len(doc.Rows) == 0 || len(doc.Rows) >= 15 {
		t.Errorf("%d rows, interrupted %v", len(doc.Rows), doc.Interrupted)
	}
	if n := filesBelow(t, dir); len(n) != 0 {
		t.Errorf("left behind: %v", n)
	}
}

// Ctrl-C before anything is known says so alone, in every format.
func TestBenchCopyInterruptedEarly(t *testing.T) {
	for _, format := range []string{"--json=false", "--json"} {
		f := withFakeGPU(t)
		dir := t.TempDir()
		var out, errs bytes.Buffer
		status := make(chan int, 1)
		begun := f.Calls(cuda.SymMemcpyHtoDAsync)
		go func() {
			status <- run([]string{"bench", "copy", "--bytes", "8MiB", "--page", "4KiB", "--pages", "2", "--runs", "1000", format, "--plot", dir + "/x.svg", "--check"}, nil, &out, &errs)
		}()
		awaitCopies(t, f, begun+8) // the link is being measured
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		select {
		case s := <-status:
			if s != exitInterrupted || errs.String() != "tritier: interrupted\n" || out.String() != "" {
				t.Errorf("%s: status %d, %q, output %q", format, s, errs.String(), out.String())
			}
		case <-time.After(time.Minute):
			t.Fatal("still running a minute after Ctrl-C")
		}
		if n := filesBelow(t, dir); len(n) != 0 {
			t.Errorf("left behind: %v", n)
		}
	}
}

// A GPU that is lost in the middle is an error that says so.
func TestBenchCopyLostGPU(t *testing.T) {
	f := withFakeGPU(t)
	f.FailAsync(cuda.IllegalAddress)
	_, _, err := tritier(t.Context(), "bench", "copy", "--bytes", "8MiB", "--runs", "1", "--page", "4KiB", "--pages", "2", "--paths", "zero-copy")
	if !errors.Is(err, cuda.ErrSticky) || !errors.Is(err, cuda.IllegalAddress) {
		t.Error(err)
	}
}

func TestBenchCopyRefuses(t *testing.T) {
	f := withFakeGPU(t)
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args string
		want string
	}{
		{"x", `bench copy takes no argument, not "x"`},
		{"--gpu all", "bench copy measures one GPU at a time"},
		{"--gpu 7", "--gpu: "},
		{"--direction up", `--direction: unknown direction "up"; valid are to-device, to-host, both`},
		{"--page 3KiB", "--page 3KiB is no power of two"},
		{"--page 256B", "--page 256B is not within 512B to 2MiB"},
		{"--page 4MiB", "--page 4MiB is not within"},
		{"--pages 0", "--pages 0 is not within"},
		{"--pages 8..2", "--pages 8..2 is reversed: write 2..8"},
		{"--pages 1..0", "--pages 1..0 is not within 1 to 1048576"},
		{"--page 64KiB..4KiB", "--page 64KiB..4KiB is reversed: write 4KiB..64KiB"},
		{"--page 4MiB..4KiB", "--page 4MiB..4KiB is not within 512B to 2MiB"},
		{"--paths fast", `--paths: unknown path "fast"; valid are chooser, all, memcpy-async`},
		{"--paths memcpy-async --direction both", "none of --paths memcpy-async copies both ways at once"},
		{"--paths exchange --direction to-host,both", "none of --paths exchange copies to the host"},
		{"--runs 0", "--runs 0 is not from 1"},
		{"--bytes 64MiB", "1024 pages of 256KiB, each way, must fit twice: give at least 1GiB"},
		{"--bytes 256MiB --direction to-host", "1024 pages of 256KiB must fit twice: give at least 512MiB"},
		{"--calibration none.yaml", "--calibration: "},
		{"--check --paths memcpy-async", "--check is about the chooser"},
		{"--plot -", "--plot writes a file"},
		{"--plot x.pdf", "--plot x.pdf: the name must end in .svg or .png"},
		{"--plot no/such/x.svg", "--plot: no/such/x.svg: cannot be created"},
	} {
		out, _, err := tritier(t.Context(), append([]string{"bench", "copy"}, strings.Fields(c.args)...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) || out != "" {
			t.Errorf("%s: %v, output %q", c.args, err, out)
		}
	}
	if n := f.Calls(cuda.SymMemHostAlloc); n > 0 {
		t.Errorf("%d allocations for flags that are refused", n)
	}
	if n := filesBelow(t, "."); len(n) != 0 {
		t.Errorf("left behind: %v", n)
	}
}
