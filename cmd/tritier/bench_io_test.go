package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/bamio/iobench/iobenchfake"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/libnvm/drive"
)

// withIOGPU is withFakeGPU with the kernels of bench io.
func withIOGPU(t *testing.T, opts ...cudafake.Option) *cudafake.GPU {
	t.Helper()
	f := withFakeGPU(t, opts...)
	iobenchfake.Register(f)
	return f
}

// ioDoc is the report of bench io --json.
type ioDoc struct {
	Drives      []string
	Date        string
	Seed        uint64
	Area        uint64 `json:"area_bytes"`
	Modelled    bool
	Model       string
	Verified    bool
	Interrupted bool
	Complete    bool
	Note        string
	GPU         gpuIdentity
	CUDA        string
	Mailbox     float64 `json:"mailbox_round_trip_ns"`
	Path        struct {
		Rings, Doorbells, Payload string
		Blockers                  []struct{ Of, On, Reason, Remedy string }
	}
	Faults map[string]uint64 `json:"fault_hits"`
	Rows   []ioDocRow
}

type ioDocRow struct {
	Initiator, Op, Pattern string
	IOBytes                int       `json:"io_bytes"`
	Reads                  int       `json:"read_percent"`
	Drives                 int       `json:"drives"`
	Queues                 int       `json:"queues"`
	Entries                int       `json:"queue_entries"`
	Service                int       `json:"service_threads"`
	Threads                int       `json:"gpu_threads"`
	Warps                  int       `json:"warps"`
	Lanes                  int       `json:"lanes"`
	SMs                    int       `json:"sms"`
	Runs                   int       `json:"runs"`
	IOs                    uint64    `json:"ios"`
	VerifiedBytes          uint64    `json:"verified_bytes"`
	Verified               bool      `json:"verified"`
	IOPS                   float64   `json:"iops"`
	GBps                   float64   `json:"gb_per_s"`
	P50                    float64   `json:"p50_ns"`
	P99                    float64   `json:"p99_ns"`
	P999                   float64   `json:"p999_ns"`
	Doorbells              float64   `json:"doorbells_per_io"`
	ServiceCPU             float64   `json:"service_cpu_seconds"`
	OtherCPU               float64   `json:"other_cpu_seconds"`
	Each                   []float64 `json:"iops_of_runs"`
	Wrong                  uint64    `json:"wrong_pieces"`
	Mismatch               string    `json:"first_mismatch"`
	Errors                 map[string]uint64
}

func decodeIO(t *testing.T, text string) *ioDoc {
	t.Helper()
	doc := &ioDoc{}
	if err := json.Unmarshal([]byte(text), doc); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return doc
}

// Both initiators, every operation and pattern, over several drives: each row
// has done what it says, with every byte compared, and figures that agree.
func TestBenchIORun(t *testing.T) {
	withIOGPU(t)
	out, errs, err := tritier(t.Context(), "bench", "io", "mem:1MiB,mem:1MiB", "--initiator", "gpu,cpu", "--op", "read,write,mixed", "--reads", "60",
		"--pattern", "random,sequential", "--size", "512B,16KiB", "--warps", "2..8", "--block", "2", "--lanes", "3", "--queues", "2", "--depth", "5",
		"--ios", "100", "--runs", "3", "--seed", "9", "--json")
	if err != nil || errs != "" {
		t.Fatal(err, errs)
	}
	doc := decodeIO(t, out)
	if len(doc.Rows) != 3*2*2*(3+1) || !doc.Verified || !doc.Complete || doc.Interrupted || doc.Modelled || doc.Seed != 9 || doc.Area != 1<<20 || doc.GPU.Name != "Software GPU" || doc.CUDA != "13.0" || doc.Mailbox <= 0 {
		t.Fatalf("%d rows: %.1500s", len(doc.Rows), out)
	}
	if doc.Path.Payload != "pinned host memory" || !strings.Contains(doc.Path.Rings, "shared with the software controller") || len(doc.Path.Blockers) < 2 {
		t.Errorf("path %+v", doc.Path)
	}
	for _, x := range doc.Rows {
		checkIORow(t, &x)
	}
	if first, last := doc.Rows[0], doc.Rows[len(doc.Rows)-1]; first.Initiator != "gpu" || first.Threads != 64 || last.Initiator != "cpu" || last.Op != "mixed" {
		t.Errorf("order: %+v, %+v", first, last)
	}
}

func checkIORow(t *testing.T, x *ioDocRow) {
	t.Helper()
	if x.Runs != 3 || x.Queues != 2 || x.Entries != 5 || x.Drives != 2 || x.Service != 1 || !x.Verified || len(x.Errors) != 0 || (x.Op == "mixed") != (x.Reads == 60) {
		t.Errorf("%+v", *x)
	}
	least := uint64(300)
	if x.IOs < least || x.VerifiedBytes == 0 {
		t.Errorf("%d I/Os, %d bytes verified in %+v", x.IOs, x.VerifiedBytes, *x)
	}
	// What a read-only or a write-only load verifies is what it has moved: a
	// GPU's writes by reading the same blocks.
	if moved := x.IOs * uint64(x.IOBytes); x.Initiator == "gpu" && x.Op != "mixed" && x.VerifiedBytes != moved {
		t.Errorf("%d bytes verified of %d moved in %+v", x.VerifiedBytes, moved, *x)
	}
	if x.Op == "mixed" && x.VerifiedBytes < 2<<20 { // both areas at the end
		t.Errorf("only %d bytes verified in %+v", x.VerifiedBytes, *x)
	}
	if x.IOPS <= 0 || math.Abs(x.GBps-x.IOPS*float64(x.IOBytes)/1e9) > 1e-6*x.GBps+1e-12 || x.P50 <= 0 || x.P50 > x.P99 || x.P99 > x.P999 || x.Doorbells <= 0 || x.Doorbells > 1 {
		t.Errorf("figures of %+v", *x)
	}
	each := slices.Sorted(slices.Values(x.Each))
	if len(each) != 3 || each[1] != x.IOPS {
		t.Errorf("%g is not the median of %v", x.IOPS, x.Each)
	}
	if x.Initiator == "cpu" {
		if x.Threads+x.Warps+x.Lanes+x.SMs != 0 {
			t.Errorf("GPU columns of the CPU: %+v", *x)
		}
		return
	}
	if x.Threads != 32*x.Warps || x.Lanes != 3 || x.SMs != (x.Warps+1)/2 {
		t.Errorf("GPU columns: %+v", *x)
	}
}

// The table names machine, path and what every figure is; the picture is drawn.
func TestBenchIOTable(t *testing.T) {
	withIOGPU(t)
	picture := filepath.Join(t.TempDir(), "io.png")
	out, _, err := tritier(t.Context(), "bench", "io", "mem:1MiB", "--initiator", "gpu,cpu", "--size", "4KiB,64KiB", "--threads", "32..128", "--lanes", "2", "--queues", "1",
		"--op", "read,mixed", "--seconds", "0.02", "--runs", "2", "--plot", picture)
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out, "GPU 0 (Software GPU), GPU-", "CUDA 13.0, PCIe Gen4 x16 (can be Gen5 x16)\n", "mem:1MiB: namespace 1: memory",
		"queues in host memory shared with the software controller, ", "payload through pinned host memory\n", "  no payload into GPU memory: mem:1MiB: ",
		"mailbox, GPU to CPU and back, in this run: ", " us\n", "the first 1MiB of each drive, medians of 2 runs of 0.02 s, seed 1\n",
		"figures are measured; there is no cache", "verified: every byte; ", " bytes compared, all as written\n", "mixed, 70 % read")
	if strings.Contains(out, "modelled") || strings.Contains(out, "ended early") {
		t.Error(out)
	}
	b, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if img, err := png.Decode(bytes.NewReader(b)); err != nil || img.Bounds().Dx() < 1000 {
		t.Error(err)
	}
}

// A run that is too short for a single I/O leaves its row without figures, and the
// report says so.
func TestBenchIOTooShort(t *testing.T) {
	args := []string{"bench", "io", "mem:1MiB", "--initiator", "cpu", "--size", "4KiB,64KiB", "--runs", "2", "--seconds", "1e-9"}
	out, _, err := tritier(t.Context(), append(args, "--json")...)
	if err != nil {
		t.Fatal(err)
	}
	doc := decodeIO(t, out)
	if len(doc.Rows) != 2 {
		t.Fatalf("%d rows: %s", len(doc.Rows), out)
	}
	for _, x := range doc.Rows {
		if x.Runs == 2 || x.IOs == 0 && x.IOPS != 0 || doc.Complete {
			t.Errorf("%+v, complete %v", x, doc.Complete)
		}
	}
	if out, _, err = tritier(t.Context(), args...); err != nil {
		t.Fatal(err)
	}
	wantLines(t, out, "0 of 2 rows are known; in runs of the others no I/O ended: give more --seconds\n", "  64KiB  ")
}

// Under a model every figure says so, in each format.
func TestBenchIOModelled(t *testing.T) {
	withIOGPU(t)
	picture := filepath.Join(t.TempDir(), "io.svg")
	args := []string{"bench", "io", "mem:1MiB", "--size", "4KiB", "--warps", "2", "--lanes", "4", "--ios", "40", "--runs", "1", "--model", "4x980pro"}
	out, _, err := tritier(t.Context(), append(args, "--json", "--plot", picture)...)
	if err != nil {
		t.Fatal(err)
	}
	doc := decodeIO(t, out)
	if !doc.Modelled || doc.Model != "4x980pro" || doc.Rows[0].IOPS != 0 || !doc.Verified {
		t.Errorf("%s", out)
	}
	for _, c := range ioColumns {
		if !strings.Contains(out, `"modelled_`+c.name+`"`) || strings.Contains(out, `"`+c.name+`"`) {
			t.Errorf("%s without its label: %s", c.name, out)
		}
	}
	text, err := os.ReadFile(picture)
	if err != nil || !bytes.Contains(text, []byte("modelled by 4x980pro")) || !bytes.Contains(text, []byte("modelled million IOPS")) || !bytes.Contains(text, []byte("modelled GB/s")) {
		t.Errorf("picture: %v", err)
	}
	if out, _, err = tritier(t.Context(), args...); err != nil {
		t.Fatal(err)
	}
	wantLines(t, out, "figures are modelled by 4x980pro, not measured on such drives\n")
	if strings.Count(out, " modelled") < len(ioColumns) || strings.Contains(out, "figures are measured") {
		t.Error(out)
	}
}

// What is in flight stays small by default, every drive has a warp, and what
// was asked for is not changed.
func TestBenchIOCells(t *testing.T) {
	for _, c := range []struct {
		args    string
		drives  string
		want    []int // warps and lanes of each cell
		refused string
	}{
		{"--size 64KiB --warps 64..512", "mem:1MiB", []int{64, 32, 128, 32, 256, 16, 512, 8}, ""},
		{"--size 1MiB --warps 256", "mem:1MiB", []int{256, 1}, ""},
		{"--size 1MiB --warps 128 --lanes 32", "mem:1MiB", []int{128, 32}, ""},
		{"--size 1MiB --warps 256 --lanes 32", "mem:1MiB", nil, "256 warps of 32 I/Os of 1MiB need 8GiB of pinned memory"},
		{"--size 512B --threads 64,1024", "mem:1MiB", []int{2, 32, 32, 32}, ""},
		{"--size 4KiB", strings.Repeat("mem:1MiB,", 8) + "mem:1MiB", []int{32, 32, 128, 32}, ""},
		{"--size 4KiB --warps 2", "mem:1MiB,mem:1MiB,mem:1MiB", nil, "2 warps cannot load 3 drives"},
		{"--size 4KiB --warps 2 --initiator cpu", "mem:1MiB,mem:1MiB,mem:1MiB", []int{0, 0}, ""},
	} {
		checkIOCells(t, c.args, c.drives, c.want, c.refused)
	}
}

// ioCommand is the command with its flags parsed, for tests of its parts.
func ioCommand(t *testing.T, args ...string) (*cobra.Command, *benchIOFlags) {
	t.Helper()
	cmd, f := newBenchIOCommand(), &benchIOFlags{}
	cmd.ResetFlags()
	f.register(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return cmd, f
}

func checkIOCells(t *testing.T, args, drives string, want []int, refused string) {
	t.Helper()
	cmd, f := ioCommand(t, strings.Fields(args)...)
	s := &ioSettings{f: f, chosen: cmd.Flags().Changed("warps") || cmd.Flags().Changed("threads")}
	var err error
	if s.drives, err = drive.ParseList(drives); err != nil {
		t.Fatal(err)
	}
	err = s.combinations()
	if refused != "" {
		if err == nil || !strings.Contains(err.Error(), refused) {
			t.Errorf("%s: %v", args, err)
		}
		return
	}
	var got []int
	for _, x := range s.cells {
		got = append(got, x.warps, x.lanes)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%s: %v, %v, want %v", args, got, err, want)
	}
}

// A drive that fails under the GPU is named, with what helps to find out why.
func TestBenchIODriveError(t *testing.T) {
	s := &ioGPU{ioBench: &ioBench{dump: &ioDump{}}}
	cause := errors.New("it does not answer")
	err := s.broken(fmt.Errorf("bench: %w", &bamio.DriveError{Drive: "nvme:0000:01:00.0", Status: bamio.DeviceGone, Err: cause}))
	if want := "nvme:0000:01:00.0 failed while the GPU used it: it does not answer; --dump FILE keeps the queues' state"; err.Error() != want || !errors.Is(err, cause) || s.left {
		t.Errorf("%v, want %s", err, want)
	}
}
