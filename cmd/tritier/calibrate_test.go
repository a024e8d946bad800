package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/internal/servicetime"
)

// calibrateDoc is what a program reads of tritier calibrate --json.
type calibrateDoc struct {
	GPUs []struct {
		GPU    gpuIdentity
		Driver string
		File   string
		Bytes  uint64
		Link   struct {
			ToDevice float64 `json:"to_device_gbps"`
		}
		Curves []struct {
			Direction string
			PageBytes int `json:"page_bytes"`
			Pages     []int
			US        map[copyeng.Path][]float64
			Chosen    []pathSpan
		}
	}
}

// Without --gpu every GPU is calibrated, into a file of its own that programs find.
func TestCalibrateAll(t *testing.T) {
	withFakeGPU(t, cudafake.Devices(2))
	out, _, err := tritier(t.Context(), "calibrate", "--bytes", "8MiB", "--runs", "1", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var doc calibrateDoc
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.GPUs) != 2 || doc.GPUs[0].GPU.UUID == doc.GPUs[1].GPU.UUID {
		t.Fatalf("%d GPUs: %s", len(doc.GPUs), out)
	}
	for i, g := range doc.GPUs {
		want, err := copyeng.CalibrationFile(g.GPU.UUID, g.Driver)
		if err != nil || g.File != want || g.GPU.Ordinal != i || g.Bytes != 8<<20 {
			t.Errorf("%+v saved to %s, want %s, %v", g.GPU, g.File, want, err)
		}
		cal, err := copyeng.LoadCalibration(g.File)
		if err != nil {
			t.Fatal(err)
		}
		if cal.GPU.UUID != g.GPU.UUID || math.Abs(cal.Link.ToDevice-g.Link.ToDevice) > 0.1 || len(cal.Curves) != len(g.Curves) {
			t.Errorf("the file says %+v, %+v, %d curves", cal.GPU, cal.Link, len(cal.Curves))
		}
		for _, c := range g.Curves {
			next := c.Pages[0]
			for _, s := range c.Chosen {
				if s.From != next || s.To < s.From || len(c.US[s.Path]) == 0 {
					t.Errorf("%s %d: spans %+v", c.Direction, c.PageBytes, c.Chosen)
				}
				next = s.To + 1
			}
			if next != c.Pages[len(c.Pages)-1]+1 {
				t.Errorf("%s %d: spans %+v do not end with %v", c.Direction, c.PageBytes, c.Chosen, c.Pages)
			}
		}
	}
	dir := os.Getenv("XDG_CONFIG_HOME")
	if n := filesBelow(t, dir); len(n) != 2 {
		t.Errorf("left in the settings: %v", n)
	}
}

// --output and --preset go where they are told, and the preset is the base's
// drives with what was measured.
func TestCalibrateFiles(t *testing.T) {
	withFakeGPU(t, cudafake.Devices(2))
	d, err := openCUDA()
	if err != nil {
		t.Fatal(err)
	}
	dev, err := d.Device("1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, preset := filepath.Join(dir, "cal.yaml"), filepath.Join(dir, "own machine.yaml")
	out, _, err := tritier(t.Context(), "calibrate", "--gpu", dev.UUID(), "--bytes", "8MiB", "--runs", "1", "-o", file, "--preset", preset, "--preset-base", "v100-4x980pro")
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out, gpuLine(dev), "link: ", "medians of 1 run over 8MiB, seed 1", "to-device  512B", "both-ways  2MiB", "saved to "+file, "--calibration "+file, "preset own-machine: tritier replay --model '"+preset+"'")
	if n := filesBelow(t, os.Getenv("XDG_CONFIG_HOME")); len(n) != 0 {
		t.Errorf("left in the settings: %v", n)
	}
	if n := filesBelow(t, dir); !slices.Equal(n, []string{"cal.yaml", "own machine.yaml"}) {
		t.Errorf("files: %v", n)
	}
	cal, err := copyeng.LoadCalibration(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := servicetime.Load(preset)
	if err != nil {
		t.Fatal(err)
	}
	checkPreset(t, m, cal, dev)
	for _, path := range m.PathNames() { // those of the base, over the links measured here
		out, _, err := tritier(t.Context(), "replay", "--model", preset, "--in-flight", "32", "--path", path, "--policy", "lru", "--no-bound")
		if err != nil {
			t.Fatal(err)
		}
		wantLines(t, out, "model    own-machine: ", "         modelled time: closed form, the busiest part; virtual time: simulated, 32 accesses in flight by path "+path)
	}

	// Both may be written again, and nothing else may be written over.
	for _, flag := range []string{"--output", "--preset"} {
		other := filepath.Join(dir, "other.yaml")
		if err := os.WriteFile(other, []byte("precious: true\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err = tritier(t.Context(), "calibrate", "--gpu", "0", flag, other)
		if err == nil || !strings.Contains(err.Error(), "exists and is no .yaml") {
			t.Errorf("%s over another file: %v", flag, err)
		}
	}
	if err := errors.Join(calibrationDocument.check(file), presetDocument.check(preset)); err != nil {
		t.Errorf("its own files: %v", err)
	}
}

func checkPreset(t *testing.T, m *servicetime.Model, cal *copyeng.Calibration, dev *cuda.Device) {
	t.Helper()
	base, err := servicetime.Load("v100-4x980pro")
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "own-machine" || m.Drives.Name != base.Drives.Name || m.Drives.Count != base.Drives.Count || m.Drives.Read.IOPS.Value != base.Drives.Read.IOPS.Value {
		t.Errorf("%s with %+v", m.Name, m.Drives)
	}
	near := func(what string, got servicetime.Figure, want float64) {
		if math.Abs(got.Value-want) > 0.02*want || got.Kind != servicetime.Measured {
			t.Errorf("%s is %v (%s), want %g", what, got.Value, got.Kind, want)
		}
		for _, part := range []string{dev.Name(), "CUDA " + cal.Driver, cal.Measured.Format(time.DateOnly), "tritier calibrate --gpu " + dev.UUID() + " --runs 1 --bytes 8MiB --seed 1"} {
			if !strings.Contains(got.Source, part) {
				t.Errorf("%s: no %q in its source %q", what, part, got.Source)
			}
		}
	}
	near("pcie-in", m.Links["pcie-in"].Bandwidth, cal.Link.ToDevice*1e9)
	near("pcie-out", m.Links["pcie-out"].Bandwidth, cal.Link.ToHost*1e9)
	near("pcie-both", m.Links["pcie-both"].Bandwidth, cal.Link.BothWays*1e9)
	for _, e := range []struct {
		direction string
		edge      servicetime.Edge
	}{{"to-device", m.GPU.T2T1}, {"to-host", m.GPU.T1T2}} {
		var fastestPages float64
		for _, c := range cal.Curves {
			if c.Direction != e.direction {
				continue
			}
			last := len(c.Pages) - 1
			_, first := fastest(&c, 0)
			_, most := fastest(&c, last)
			fastestPages = max(fastestPages, float64(c.Pages[last])/most*1e6)
			if c.Page == 64<<10 {
				near(e.direction+" latency", e.edge.LatencyNS, first*1e3)
				near(e.direction+" bandwidth", e.edge.Bandwidth, float64(c.Pages[last]*c.Page)/most*1e6)
			}
		}
		near(e.direction+" concurrency", e.edge.Concurrency, max(1, fastestPages*e.edge.LatencyNS.Value/1e9))
	}
	if m.GPU.T1.Bandwidth.Kind != servicetime.Measured || m.GPU.T1.Bandwidth.Value < 1e8 {
		t.Errorf("device memory: %+v", m.GPU.T1.Bandwidth)
	}
}

// A real Ctrl-C ends with the status that shells know it by, and leaves nothing.
func TestCalibrateInterrupted(t *testing.T) {
	f := withFakeGPU(t)
	dir := t.TempDir()
	var out, errs bytes.Buffer
	status := make(chan int, 1)
	go func() {
		status <- run([]string{"calibrate", "--bytes", "8MiB", "--runs", "1000", "--preset", dir + "/preset.yaml"}, nil, &out, &errs)
	}()
	awaitCopies(t, f, 200)
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case s := <-status:
		if s != exitInterrupted || out.String() != "" {
			t.Errorf("status %d, output %q", s, out.String())
		}
	case <-time.After(time.Minute):
		t.Fatal("still running a minute after Ctrl-C")
	}
	wantLines(t, errs.String(), "tritier: interrupted while calibrating GPU 0 (Software GPU): nothing of it was saved\n")
	if n := slices.Concat(filesBelow(t, dir), filesBelow(t, os.Getenv("XDG_CONFIG_HOME"))); len(n) != 0 {
		t.Errorf("left behind: %v", n)
	}
}

// awaitCopies waits until the command has begun to measure, so that a signal
// meets its handler.
func awaitCopies(t *testing.T, f *cudafake.GPU, n int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); f.Calls(cuda.SymMemcpyHtoDAsync) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("too few copies in five minutes")
		}
	}
}

// A GPU that fails in the middle leaves no file; what another one gave stays
// and is said.
func TestCalibrateFailure(t *testing.T) {
	f := withFakeGPU(t, cudafake.Devices(2))
	f.RegisterKernel("copy_inline", func(l *cudafake.Launch) error {
		if l.Device == 1 {
			return nil // copies nothing
		}
		return copyInline(l)
	})
	out, _, err := tritier(t.Context(), "calibrate", "--bytes", "8MiB", "--runs", "1")
	if err == nil || !strings.Contains(err.Error(), "calibrate GPU 1") || !strings.Contains(err.Error(), "differ after the copy") {
		t.Error(err)
	}
	n := filesBelow(t, os.Getenv("XDG_CONFIG_HOME"))
	if len(n) != 1 || !strings.Contains(out, n[0]) || !strings.Contains(out, "GPU 0 (") || strings.Contains(out, "GPU 1 (") {
		t.Errorf("files %v, output\n%s", n, out)
	}
}

// copyInline is what the kernel of that name does.
func copyInline(l *cudafake.Launch) error {
	size := uint64(1) << l.U32(500)
	for i := range int(l.U32(496)) {
		pair := l.Params[16+8*i:]
		host, err := l.Memory(l.U64(0)+uint64(binary.LittleEndian.Uint32(pair))*size, size)
		if err != nil {
			return err
		}
		device, err := l.Memory(l.U64(8)+uint64(binary.LittleEndian.Uint32(pair[4:]))*size, size)
		if err != nil {
			return err
		}
		if l.U32(504) != 0 {
			copy(device, host)
		} else {
			copy(host, device)
		}
	}
	return nil
}

// A place that cannot be written is found before anything is measured.
func TestCalibrateNoPlace(t *testing.T) {
	f := withFakeGPU(t)
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CONFIG_HOME", blocked)
	for _, args := range [][]string{{"calibrate"}, {"calibrate", "-o", blocked + "/x.yaml"}, {"calibrate", "--preset", blocked + "/x.yaml"}} {
		_, _, err := tritier(t.Context(), args...)
		if err == nil || f.Calls(cuda.SymMemcpyHtoDAsync) > 0 {
			t.Errorf("%q: %v after %d copies", args, err, f.Calls(cuda.SymMemcpyHtoDAsync))
		}
	}
}

func TestCalibrateRefuses(t *testing.T) {
	f := withFakeGPU(t, cudafake.Devices(2))
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args string
		want string
	}{
		{"x", `calibrate takes no argument, not "x"`},
		{"--runs 0", "--runs 0 is not from 1 to 1000"},
		{"--bytes 1MiB", "--bytes 1MiB is not a multiple of 4MiB from 8MiB"},
		{"--bytes 513MiB", "--bytes 513MiB is not a multiple"},
		{"--gpu 2", "--gpu: "},
		{"--gpu all -o c.yaml", "this machine has 2 GPUs, and --output and --preset write one"},
		{"--preset p.yaml", "this machine has 2 GPUs"},
		{"--gpu 0 -o -", "--output and --preset write files"},
		{"--gpu 0 -o c.json", "--output c.json: the name must end in .yaml or .yml"},
		{"--gpu 0 -o c.yaml --preset ./c.yaml", "both write c.yaml"},
		{"--gpu 0 --preset .yaml", "the file's name is the preset's"},
		{"--gpu 0 --preset p.yaml --preset-base 4x980pro", "4x980pro has drives alone"},
		{"--gpu 0 --preset p.yaml --preset-base nothing", `--preset-base: servicetime: no preset "nothing"`},
		{"--gpu 0 --preset-base h200-4xgen5", "name the preset's file by --preset"},
	} {
		out, _, err := tritier(t.Context(), append([]string{"calibrate"}, strings.Fields(c.args)...)...)
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

// Without a driver, or without a GPU, every command says what is missing.
func TestNoGPU(t *testing.T) {
	missing := &cuda.MissingLibraryError{Tried: []string{"libcuda.so.1"}, Reason: "cannot open shared object file"}
	for _, command := range []string{"calibrate", "bench copy"} {
		withoutGPU(t, missing)
		out, _, err := tritier(t.Context(), strings.Fields(command)...)
		if err == nil || !errors.Is(err, error(missing)) || out != "" {
			t.Errorf("%s: %v, output %q", command, err, out)
		}
		wantLines(t, fmt.Sprint(err), command+" needs an NVIDIA GPU: the CUDA driver is missing", "install the NVIDIA driver", "tritier doctor")
	}
	f := cudafake.New(cudafake.Devices(0))
	defer f.Close() //nolint:errcheck // nothing was done with it
	d, err := cuda.OpenBackend(f)
	if err == nil {
		_, err = d.Devices()
	}
	if !errors.Is(err, cuda.ErrNoDevice) {
		t.Fatal(err)
	}
	withoutGPU(t, err)
	_, _, err = tritier(context.Background(), "calibrate")
	wantLines(t, fmt.Sprint(err), "calibrate needs an NVIDIA GPU: ", "nvidia-smi")
}

func TestChosenText(t *testing.T) {
	for _, c := range []struct {
		spans []pathSpan
		want  string
	}{
		{[]pathSpan{{1, 64, "batch"}}, "batch"},
		{[]pathSpan{{1, 3, "memcpy-async"}, {4, 4, "batch"}, {5, 1024, "zero-copy"}}, "1-3 memcpy-async, 4 batch, from 5 zero-copy"},
		{[]pathSpan{{1, 1023, "batch"}, {1024, 1024, "zero-copy"}}, "1-1023 batch, from 1,024 zero-copy"},
	} {
		x := chosenCurve{spans: c.spans}
		if got := x.text(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
