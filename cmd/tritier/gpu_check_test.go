package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// gpuCheck runs scripts/gpu-check.sh with variables in its environment.
func gpuCheck(t *testing.T, variables []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	const script = "../../scripts/gpu-check.sh"
	if _, err := os.ReadFile(script); err != nil { // so that go test gives no old result once it has changed
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bash, append([]string{script}, args...)...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "STEPS=") || strings.HasPrefix(v, "RESUME=") }), variables...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var ended *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// program writes a shell script.
func program(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// A step that there is not ends the check before anything is built or run, and the
// steps are listed.
func TestGPUCheckUnknownStep(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"run", dir}, {"build", dir + "/new"}, {}} {
		status, stdout, stderr := gpuCheck(t, []string{"STEPS=doctor test-cpoyeng"}, args...)
		if status != 2 || stdout != "" || !strings.Contains(stderr, "there is no step test-cpoyeng; the steps are doctor nvcc test-cuda ") || !strings.HasSuffix(stderr, " soak\n") {
			t.Errorf("%q: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
	if names := filesBelow(t, dir); len(names) > 0 {
		t.Errorf("files %v", names)
	}
	if _, err := os.Stat(dir + "/new"); err == nil {
		t.Error("a folder was made")
	}
	if status, stdout, stderr := gpuCheck(t, nil, "what"); status != 2 || stdout != "" || !strings.Contains(stderr, "scripts/gpu-check.sh run DIR [OUT]") {
		t.Errorf("another word: status %d, %q, %q", status, stdout, stderr)
	}
}

// Every package whose tests may be required to have a GPU has a step.
func TestGPUCheckHasAllPackages(t *testing.T) {
	status, stdout, _ := gpuCheck(t, nil, "steps")
	steps := strings.Fields(stdout)
	if status != 0 || len(steps) < 10 {
		t.Fatalf("status %d, %q", status, stdout)
	}
	requires := regexp.MustCompile(`Getenv\("REQUIRE"\), "gpu"\)`)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "../.." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !requires.Match(text) {
			return err
		}
		name := strings.ReplaceAll(filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), "../../")), "/", "-")
		if name == "../.." || name == "..-.." {
			name = "root"
		}
		if !slices.Contains(steps, "test-"+name) {
			t.Errorf("%s needs a GPU, and scripts/gpu-check.sh has no step test-%s", path, name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Steps run in their folders, the outcome of each is in the table, and what
// succeeded is not repeated on request.
func TestGPUCheckRun(t *testing.T) {
	bin, out := t.TempDir(), t.TempDir()
	note := `echo "$(basename "$0") $* in $(pwd) requires $REQUIRE" >>` + out + `/calls`
	program(t, bin+"/tritier", note)
	program(t, bin+"/internal-gpuinfo.test", note)
	program(t, bin+"/cmd-tritier.test", note+"; exit 5")
	program(t, bin+"/copyeng.test", note+"; exec sleep 60")
	variables := []string{"STEPS=test-internal-gpuinfo test-cmd-tritier test-internal-gpuinfo-cgo doctor test-copyeng", "STEP_LIMIT=2"}
	status, stdout, stderr := gpuCheck(t, variables, "run", bin, out)
	if status != 1 || stderr != "" {
		t.Errorf("status %d, %q", status, stderr)
	}
	for _, line := range []string{`doctor +\d+ s   ok`, `test-internal-gpuinfo +\d+ s   ok`, `test-copyeng +\d+ s   FAILED: over 2 s`, `test-cmd-tritier +\d+ s   FAILED \(5\)`,
		`test-internal-gpuinfo-cgo +\d+ s   skipped`} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).MatchString(stdout) {
			t.Errorf("no %q in\n%s", line, stdout)
		}
	}
	calls, err := os.ReadFile(out + "/calls")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, string(calls), "tritier doctor in "+out+" requires gpu\n",
		"internal-gpuinfo.test -test.run . -test.timeout 280s in "+root+"/internal/gpuinfo requires gpu\n",
		"cmd-tritier.test -test.run ^(TestGPUScripts|TestDoctorGPU)$ -test.timeout 280s in "+root+"/cmd/tritier requires gpu\n")
	if n := strings.Count(string(calls), "\n"); n != 4 {
		t.Errorf("%d calls:\n%s", n, calls)
	}

	program(t, bin+"/cmd-tritier.test", note)
	program(t, bin+"/copyeng.test", note)
	status, stdout, stderr = gpuCheck(t, append(variables, "RESUME=1"), "run", bin, out)
	if status != 0 || stderr != "" || strings.Count(stdout, "ok before") != 2 || strings.Contains(stdout, "FAILED") {
		t.Errorf("again: status %d, %q\n%s", status, stderr, stdout)
	}
	if calls, err = os.ReadFile(out + "/calls"); err != nil || strings.Count(string(calls), "\n") != 6 {
		t.Errorf("%v: calls\n%s", err, calls)
	}
	if status, stdout, _ = gpuCheck(t, variables[:1], "run", bin, out); status != 0 || strings.Contains(stdout, "ok before") {
		t.Errorf("all anew: status %d\n%s", status, stdout)
	}
	// A failure is not hidden by a success before it.
	program(t, bin+"/copyeng.test", "exit 3")
	for _, more := range [][]string{nil, {"RESUME=1"}} {
		if status, stdout, _ = gpuCheck(t, append(more, "STEPS=test-copyeng"), "run", bin, out); status != 1 || !strings.Contains(stdout, "FAILED (3)") {
			t.Errorf("a failure after a success, %q: status %d\n%s", more, status, stdout)
		}
	}
}

// The table of all ways to do I/O has the rows of every step, below one head.
func TestGPUCheckTable(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, out := t.TempDir(), t.TempDir()
	if err := os.Symlink(self, bin+"/tritier"); err != nil { // as scripts run it
		t.Fatal(err)
	}
	withIOGPU(t)
	text, _, err := tritier(t.Context(), "bench", "io", "mem:1MiB", "--size", "4KiB,64KiB", "--warps", "2", "--lanes", "2", "--ios", "20", "--runs", "1", "--op", "read,mixed")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(out+"/io-gpu-8.log", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := gpuCheck(t, []string{"STEPS=io-cpu-1 io-cpu-2 io-table", "IO_DRIVE=mem:4MiB", "IO_SECONDS=0.02"}, "run", bin, out)
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, %q, %s", status, stderr, stdout)
	}
	table, err := os.ReadFile(out + "/io-table.log")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(string(table), "\n"), "\n")
	measured := 0
	for _, name := range []string{"io-gpu-8", "io-cpu-1", "io-cpu-2"} {
		log, err := os.ReadFile(out + "/" + name + ".log")
		n := len(regexp.MustCompile(`(?m)^ +[cg]pu  .*$`).FindAll(log, -1))
		if err != nil || n == 0 {
			t.Errorf("%s: %d rows, %v", name, n, err)
		}
		measured += n
	}
	if len(lines) != 1+measured || !strings.Contains(lines[0], "by  ") || !strings.Contains(lines[0], "service threads  queues  GPU threads") {
		t.Fatalf("%d lines:\n%s", len(lines), table)
	}
	for i, line := range lines {
		if len(line) != len(lines[0]) || strings.Contains(line, "µ") { // whose bytes are not its characters
			t.Errorf("line %d is %d characters wide, the head %d:\n%s", i, len(line), len(lines[0]), table)
		}
	}
	for _, want := range []string{`^ +gpu +mixed, 70 % read +random +64KiB +1 `, `^ +cpu +read +random +4KiB +2 +4 `, `^ +cpu +read +random +512B +1 +1 `} {
		if !slices.ContainsFunc(lines, regexp.MustCompile(want).MatchString) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if status, stdout, _ := gpuCheck(t, []string{"STEPS=io-table"}, "run", bin, t.TempDir()); status != 0 || !regexp.MustCompile(`io-table +\d+ s   skipped`).MatchString(stdout) {
		t.Errorf("nothing was measured: status %d\n%s", status, stdout)
	}
	empty := t.TempDir()
	if err := os.WriteFile(empty+"/io-cpu-1.log", []byte("tritier: no memory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, stdout, _ := gpuCheck(t, []string{"STEPS=io-table"}, "run", bin, empty); status != 1 || !strings.Contains(stdout, "no row was measured") {
		t.Errorf("a step that measured nothing: status %d\n%s", status, stdout)
	}
}
