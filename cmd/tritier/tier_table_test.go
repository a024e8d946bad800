package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tritier/tritier/workload/kernels/kernelsfake"
)

// tierTable runs scripts/tier-table.sh with variables in its environment.
func tierTable(t *testing.T, variables []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	const script = "../../scripts/tier-table.sh"
	if _, err := os.ReadFile(script); err != nil { // so that go test gives no old result once it has changed
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bash, append([]string{script}, args...)...)
	cmd.Env = append(os.Environ(), variables...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var ended *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// tinyTable are the settings of a table that is made in seconds.
var tinyTable = []string{"SIZE=256KiB", "T1=32KiB", "T2=64KiB", "PAGE=4KiB", "MODEL=none", "THREADS=1", "ITERATIONS=1", "SAMPLE=1",
	"WORKLOADS=hotspot bfs", "POLICIES=bypass{t1=clock,t2=fifo} gmt-reuse{t1=clock,t2=fifo}"}

// The script runs what is missing, keeps what has ended, and prints a table of it.
func TestTierTable(t *testing.T) {
	if !kernelsfake.Available {
		t.Skip("the kernels on a CPU need cgo")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "tritier")
	if err := os.Symlink(self, bin); err != nil { // as scripts run it
		t.Fatal(err)
	}
	variables := append(tinyTable, softwareGPU+"=1")
	out := filepath.Join(dir, "out")
	if status, stdout, stderr := tierTable(t, append(variables, "LIMIT=0"), "fill", bin, out); status != 3 || stderr != "" || !strings.Contains(stdout, "no cell has been run") {
		t.Fatalf("without time: status %d, %s, %s", status, stdout, stderr)
	}
	if status, stdout, stderr := tierTable(t, append(variables, "WORKLOADS=bfs", "REPEAT=0"), "fill", bin, out); status != 0 || stderr != "" || !regexp.MustCompile(`(?m)^bfs +gmt-reuse +recorded +[0-9.]+ .* verified$`).MatchString(stdout) {
		t.Fatalf("recorded alone: status %d, %s, %s", status, stdout, stderr)
	}
	if status, stdout, stderr := tierTable(t, append(variables, "WORKLOADS=bfs"), "fill", bin, out); status != 0 || stderr != "" || strings.Count(stdout, " verified\n") != 2 {
		t.Fatalf("one workload: status %d, %s, %s", status, stdout, stderr)
	}
	if status, stdout, _ := tierTable(t, variables, "missing", out); status != 0 || strings.Count(stdout, "\n") != 2 || !strings.Contains(stdout, "hotspot gmt-reuse{t1=clock,t2=fifo}: 1 timed, 1 recorded\n") {
		t.Fatalf("missing: status %d, %s", status, stdout)
	}
	// The rest, and one timed run more of each.
	status, stdout, stderr := tierTable(t, append(variables, "REPEAT=2"), "fill", bin, out)
	if status != 0 || stderr != "" || !strings.Contains(stdout, "== bfs: bypass{t1=clock,t2=fifo},gmt-reuse{t1=clock,t2=fifo}, 1 timed, 0 recorded") {
		t.Fatalf("the rest: status %d, %s, %s", status, stdout, stderr)
	}
	for _, row := range []string{
		`^workload +placer +runs +run s +least +most +kernel s +x bypass +T1 hits .* result$`,
		`^hotspot +bypass +2 +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +1\.00 +[0-9]+ +0 +[1-9][0-9]* .* [1-9][0-9]* +[1-9][0-9]* +[-+][0-9.]+ +1 +verified$`,
		`^hotspot +gmt-reuse +2 .* verified$`, `^bfs +bypass +2 .* verified$`, `^bfs +gmt-reuse +2 .* verified$`,
	} {
		if !regexp.MustCompile(`(?m)` + row).MatchString(stdout) {
			t.Errorf("no %q in\n%s", row, stdout)
		}
	}
	if status, again, _ := tierTable(t, append(variables, "REPEAT=2"), "fill", bin, out); status != 0 || strings.Contains(again, "==") || !strings.HasSuffix(stdout, again) {
		t.Errorf("nothing is missing: status %d, %s", status, again)
	}
	if status, _, stderr := tierTable(t, append(variables, "T1=64KiB"), "fill", bin, out); status != 2 || !strings.Contains(stderr, "has cells of other settings") {
		t.Errorf("other settings: status %d, %s", status, stderr)
	}
	if files, err := filepath.Glob(out + "/*.ttrc"); err != nil || len(files) > 0 {
		t.Errorf("traces are left: %v, %v", files, err)
	}
}

// What a program says that ends early: cells that have ended are kept, and no other.
func TestTierTableInterrupted(t *testing.T) {
	dir := t.TempDir()
	row := func(policy, runs string) string {
		return "    {\n      \"each_run\": [\n" + runs + "      ],\n      \"paths\": [\n        \"a\"\n      ],\n      \"policy\": \"" + policy + "\",\n      \"ssd_reads_with_setup\": 200,\n      \"verified\": true\n    }"
	}
	one := func(recorded, verified string) string {
		return "        {\n          \"modelled_run_seconds\": 1.5,\n          \"recorded\": " + recorded + ",\n          \"t3_fetches\": 12345678901,\n          \"verified\": " + verified + "\n        }\n"
	}
	doc := "{\n  \"interrupted\": true,\n  \"rows\": [\n" + row("bypass{t1=clock,t2=fifo}", one("false", "true")) + ",\n" + row("gmt-reuse{t1=clock,t2=fifo}", one("false", "false")) + "\n  ]\n}\n"
	if err := os.WriteFile(dir+"/doc", []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	program(t, dir+"/tritier", "cat "+dir+"/doc; exec sleep 60")
	status, stdout, stderr := tierTable(t, append(tinyTable, "WORKLOADS=bfs", "RECORD=0", "CELLS=1"), "fill", dir+"/tritier", dir+"/out")
	if status != 3 || stderr != "" {
		t.Errorf("status %d, %s, %s", status, stdout, stderr)
	}
	cells, err := os.ReadFile(dir + "/out/cells.tsv")
	if err != nil || strings.Count(string(cells), "\n") != 1 || !strings.HasPrefix(string(cells), "bfs\tbypass{t1=clock,t2=fifo}\ttimed\tverified\t1.5\t") || !strings.Contains(stdout, " 12345678901 ") {
		t.Errorf("%v: %s\n%s", err, cells, stdout)
	}
	// A program that fails is told of, and its words are shown.
	program(t, dir+"/tritier", "echo no memory >&2; exit 1")
	if status, stdout, _ := tierTable(t, append(tinyTable, "WORKLOADS=bfs", "RECORD=0"), "fill", dir+"/tritier", dir+"/out"); status != 1 || !strings.Contains(stdout, "status 1\nno memory\n") {
		t.Errorf("a failure: status %d, %s", status, stdout)
	}
}

// The step of the GPU check goes on where the last one ended, and is no failure when its
// time was up.
func TestGPUCheckTierTable(t *testing.T) {
	bin, out := t.TempDir(), t.TempDir()
	program(t, bin+"/tritier", "exit 9")
	variables := append(tinyTable, "STEPS=tier-table", "LIMIT=0", "TABLE="+out+"/cells")
	for range 2 {
		status, stdout, stderr := gpuCheck(t, append(variables, "RESUME=1"), "run", bin, out)
		if status != 0 || stderr != "" || !regexp.MustCompile(`(?m)^tier-table +\d+ s   time was up: run it again$`).MatchString(stdout) {
			t.Errorf("status %d, %s, %s", status, stderr, stdout)
		}
	}
	if status, stdout, _ := gpuCheck(t, append(variables, "LIMIT=60"), "run", bin, out); status != 1 || !strings.Contains(stdout, "FAILED (1)") {
		t.Errorf("a program that fails: status %d, %s", status, stdout)
	}
	if _, err := os.Stat(out + "/cells/settings"); err != nil {
		t.Error(err)
	}
}
