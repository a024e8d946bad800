package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMRCScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/mrc*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	testscript.Run(t, testscript.Params{
		Files: scripts,
		Cmds:  map[string]func(ts *testscript.TestScript, neg bool, args []string){"nofiles": noFiles, "jsonhas": jsonHas},
	})
}

// TestMRCExamples runs every example of the help text.
func TestMRCExamples(t *testing.T) {
	var times strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&times, "%d,%d\n", i, i*i%1_003)
	}
	runExamples(t, newMRCCommand(), 5, map[string]string{"trace.lis": "1 200 0 1\n1 300 0 2\n", "trace.csv": "time,page\n" + times.String()})
}

// Ctrl-C in the middle of a stream prints the curve of what was read.
func TestMRCInterrupted(t *testing.T) {
	stdout, stderr := interruptedCurve(t, manyIDs(400_000), "--format", "ids", "--stream", "--exact", "--policy", "lru", "--bound=false", "--sizes", "1GiB", "--json")
	var doc struct {
		Curves []struct {
			Complete bool
			Trace    struct{ Accesses uint64 }
			Points   []struct {
				SSDReads uint64 `json:"ssd_reads"`
			}
		}
	}
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil || len(doc.Curves) != 1 {
		t.Fatalf("%v: %s", err, stdout)
	}
	c := doc.Curves[0]
	if c.Complete || c.Trace.Accesses == 0 || len(c.Points) != 1 || c.Points[0].SSDReads != c.Trace.Accesses || !strings.Contains(stderr, "interrupted") {
		t.Errorf("%+v, %s", c, stderr)
	}
}

// interruptedCurve measures standard input, feeds it, and sends Ctrl-C while more
// is awaited. The program is this test binary, which TestMain puts into PATH.
func interruptedCurve(t *testing.T, input []byte, args ...string) (stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tritier", append([]string{"mrc", "-"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	pipe, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := pipe.Write(input); err != nil {
		t.Fatal(err)
	}
	waitUntilBlocked(t, cmd.Process.Pid)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Fatalf("%v, want exit status %d\n%s", err, exitInterrupted, errs.String())
	}
	return out.String(), errs.String()
}
