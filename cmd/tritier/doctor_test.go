package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/internal/doctor"
	"github.com/tritier/tritier/internal/gpuinfo"
	"github.com/tritier/tritier/internal/pci"
)

func TestDoctorScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Files: []string{"testdata/script/doctor.txtar"},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"doctor": runDoctor, "jsonhas": jsonHas,
		},
	})
}

// doctorRoot is the command tree with doctor in it.
func doctorRoot() *cobra.Command {
	root := newRootCommand()
	if c, _, err := root.Find([]string{"doctor"}); err != nil || c.Name() != "doctor" {
		root.AddCommand(newDoctorCommand())
	}
	return root
}

func runDoctor(ts *testscript.TestScript, neg bool, args []string) {
	root := doctorRoot()
	root.SetArgs(append([]string{"doctor"}, args...))
	root.SetOut(ts.Stdout())
	root.SetErr(ts.Stderr())
	err := root.Execute()
	if err != nil {
		if _, err := io.WriteString(ts.Stderr(), oneLine(err)); err != nil {
			ts.Fatalf("%v", err)
		}
	}
	if neg == (err == nil) {
		ts.Fatalf("doctor %v: %v", args, err)
	}
}

func TestDoctorExamples(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(newDoctorCommand().Example), "\n")
	for _, line := range lines {
		line, _, _ = strings.Cut(line, " | ")
		root := doctorRoot()
		c, rest, err := root.Find(strings.Fields(line)[1:])
		if err != nil || c.Name() != "doctor" || errors.Join(c.ParseFlags(rest), c.ValidateArgs(c.Flags().Args())) != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// The kernels that the doctor compares with the driver are those that this program has.
func TestDoctorKernels(t *testing.T) {
	ptx, err := os.ReadFile("../../copyeng/copy.ptx")
	if err != nil {
		t.Fatal(err)
	}
	for form, want := range map[string]int{`(?m)^\.version (\d)\.(\d)`: doctorKernels.PTX, `(?m)^\.target sm_(\d+)()`: doctorKernels.Compute} {
		m := regexp.MustCompile(form).FindSubmatch(ptx)
		if m == nil {
			t.Fatalf("no %s", form)
		}
		got := 0
		for _, digit := range string(m[1]) + string(m[2]) {
			got = 10*got + int(digit-'0')
		}
		if got != want {
			t.Errorf("%s: the kernels have %d, the doctor compares %d", form, got, want)
		}
	}
}

func TestDoctorDrives(t *testing.T) {
	probe := func(address string) error {
		if address == "0000:04:00.0" {
			return errors.New("no IOMMU group")
		}
		return nil
	}
	drives, err := doctorDrives(fakeMachine(t), probe)
	if err != nil || len(drives) != 5 {
		t.Fatal(drives, err)
	}
	for i, want := range []doctor.DriveState{doctor.DriveInUse, doctor.DriveFree, doctor.DriveReady, doctor.DriveBlocked, doctor.DriveFree} {
		if drives[i].State != want {
			t.Errorf("%+v, want %s", drives[i], want)
		}
	}
	if d := drives[0]; d.Model != "MODEL X" || len(d.InUse) != 1 || d.Advice == "" {
		t.Errorf("%+v", d)
	}
	if d := drives[1]; d.NUMANode == nil || *d.NUMANode != 1 {
		t.Errorf("%+v", d)
	}
	if _, err := doctorDrives(pci.Tree{Sys: "/dev/null"}, probe); err == nil {
		t.Error("a tree that cannot be read is an error")
	}
}

// The doctor says of this program what package bamio says of itself: GPU threads
// may write requests where there is a GPU, and no drive writes into its memory.
func TestDoctorFeatures(t *testing.T) {
	requests := func() map[string]string {
		r, err := thisMachine(t.TempDir(), gpuinfo.OpenWithoutNVML(t.TempDir())).Collect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m := map[string]string{}
		for _, p := range r.Paths {
			m[p.ID] = p.Requests
			if p.ID == "nvme-p2p" && (p.Status != doctor.Missing || !strings.Contains(p.Notes[0], "this version of tritier has no such path: ")) {
				t.Errorf("%+v", p)
			}
		}
		return m
	}
	withoutGPU(t, errors.New("no driver"))
	for id, text := range requests() {
		if !strings.HasPrefix(text, "a CPU thread, served by ") {
			t.Errorf("without a GPU, %s: requests written by %s", id, text)
		}
	}
	withFakeGPU(t)
	for id, text := range requests() {
		if !strings.HasPrefix(text, "GPU threads or a CPU thread, served by ") {
			t.Errorf("with a GPU, %s: requests written by %s", id, text)
		}
	}
}

func TestCalibrationState(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	const uuid = "GPU-00000000-0000-0000-0000-000000000001"
	if s, text := calibrationState(uuid, "13.0"); s != doctor.Missing {
		t.Errorf("none: %s, %s", s, text)
	}
	if s, text := calibrationState("../x", "13.0"); s != doctor.Unknown || text == "" {
		t.Errorf("no UUID: %s, %s", s, text)
	}
	file, err := copyeng.CalibrationFile(uuid, "13.0")
	if err != nil {
		t.Fatal(err)
	}
	c, err := copyeng.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	c.Measured = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	if err := c.Save(file); err != nil {
		t.Fatal(err)
	}
	if s, text := calibrationState(uuid, "13.0"); s != doctor.Limited || !strings.Contains(text, file) || !strings.Contains(text, "not on "+uuid) {
		t.Errorf("another GPU's: %s, %s", s, text)
	}
	c.GPU.UUID = uuid
	if err := c.Save(file); err != nil {
		t.Fatal(err)
	}
	if s, text := calibrationState(uuid, "13.0"); s != doctor.OK || !strings.Contains(text, "measured 2026-03-01") || !strings.Contains(text, file) {
		t.Errorf("%s, %s", s, text)
	}
	if err := os.WriteFile(file, []byte("version: 99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, text := calibrationState(uuid, "13.0"); s != doctor.Limited || !strings.Contains(text, "version") {
		t.Errorf("a damaged file: %s, %s", s, text)
	}
}

func TestPrintReport(t *testing.T) {
	r := &doctor.Report{
		Counts: map[doctor.Status]int{doctor.OK: 2, doctor.Missing: 1},
		Sections: []doctor.Section{
			{ID: "gpu", Title: "GPU 0: \x1b[31mRed", Device: "GPU-1", Items: []doctor.Item{{ID: "a", Name: "short", Status: doctor.OK, Value: "yes"}}},
			{ID: "sharing", Title: "Sharing", Items: []doctor.Item{
				{ID: "b", Name: "a longer name", Status: doctor.Missing, Value: "first\nsecond", Cost: "time", Remedy: "patience"},
			}},
		},
		Peers: &doctor.Peers{GPUs: []string{"x", "y", "z"}, Access: [][]bool{{true, true, false}, {true, true, true}, {false, true, true}}},
		Paths: []doctor.Path{
			{ID: "file", Name: "file:", Status: doctor.OK, Requests: "a CPU thread", Payload: []string{"drive", "GPU memory"}},
			{ID: "nvme", Name: "nvme:", Status: doctor.Missing, Requests: "a CPU thread", Notes: []string{"no drive"}, Remedy: "buy one"},
		},
	}
	const want = `1 GPU: 2 ok, 1 missing

GPU 0: \x1b[31mRed
  ok       short          yes

Sharing
  missing  a longer name  first; second
                          costs: time
                          get it: patience
           from GPU (row) to GPU      0     1     2
                       0      -   yes    no
                       1    yes     -   yes
                       2     no   yes     -

Ways for data
  ok       file:          drive -> GPU memory
                          requests: written by a CPU thread
  missing  nvme:          not here
                          note: no drive
                          get it: buy one
`
	var out bytes.Buffer
	if err := printReport(&out, r); err != nil || out.String() != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, &out, want)
	}
	full := errors.New("full")
	if err := printReport(failingWriter{full}, r); !errors.Is(err, full) {
		t.Errorf("a full disk: %v", err)
	}
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }

// TestDoctorGPU runs on this machine's GPUs: everything that CUDA answers must be known.
func TestDoctorGPU(t *testing.T) {
	gpus := 0
	r, err := thisMachine(".", gpuinfo.OpenWithoutNVML("/none")).Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Sections {
		if s.ID != "gpu" {
			continue
		}
		gpus++
		for _, i := range s.Items {
			if i.ID != "link" && i.Status == doctor.Unknown {
				t.Errorf("%s: %+v", s.Title, i)
			}
		}
	}
	if gpus > 0 {
		return
	}
	if strings.Contains(os.Getenv("REQUIRE"), "gpu") {
		t.Fatalf("no GPU: %+v", r.Item("driver", "", "cuda"))
	}
	t.Skip("no GPU")
}
