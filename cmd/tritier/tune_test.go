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

	root "github.com/tritier/tritier"
	"github.com/tritier/tritier/placement"
)

func TestTuneScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/tune*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	testscript.Run(t, testscript.Params{
		Files: scripts,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"refuses": refuses, "jsonhas": jsonHas, "nofiles": noFiles, "examples": checkExamples, "maxwidth": maxWidth,
		},
	})
}

// TestTuneInterrupted checks that Ctrl-C gives what is known so far, status 130
// and no files but the state, from which the search goes on.
func TestTuneInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	cmd := exec.CommandContext(ctx, "tritier", "tune", "--candidates", "3000", "--seeds", "500", "--json", "--state", "state", "--out", "best.yaml", "--html", "page.html")
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for { // until something is known; ctx ends the program, and with it the wait
		raw, _ := os.ReadFile(state)
		if bytes.Count(raw, []byte("\n")) > 60 || ctx.Err() != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Fatalf("%v, want exit status %d\n%s", err, exitInterrupted, errs.String())
	}
	var doc struct {
		Interrupted bool
		Ranking     []struct{ Policy string }
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil || !doc.Interrupted || len(doc.Ranking) < 20 {
		t.Errorf("%v: %s", err, out.String())
	}
	if !strings.Contains(errs.String(), "no policy or page was written") || !strings.HasSuffix(errs.String(), "tritier: interrupted\n") {
		t.Errorf("standard error: %s", errs.String())
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
	again := exec.CommandContext(ctx, "tritier", "tune", "--candidates", "12", "--placers", "bypass", "--t1", "lru,clock", "--seeds", "2", "--state", "state")
	again.Dir = dir
	text, err := again.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "state: going on from") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestTunedPolicyIsLive checks that the live system loads what tune saved.
func TestTunedPolicyIsLive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "best.yaml")
	var out, errs bytes.Buffer
	args := []string{"tune", "--objective", "ssd-reads", "--candidates", "20", "--finalists", "2", "--seeds", "1", "--placers", "gmt-reuse,random",
		"--gpu-frames", "1000", "--host-frames", "3000", "--out", path}
	if status := run(args, strings.NewReader(""), &out, &errs); status != exitOK {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	want, err := placement.LoadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := root.Open(t.Context(), root.Config{Store: "mem:16MiB", Create: true, PageSize: 4096, T1: 64 << 10, T2: 256 << 10, GPU: "none", Policy: "@" + path})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	a, err := root.NewArray[uint32](t.Context(), m, "a", 1<<18)
	if err != nil {
		t.Fatal(err)
	}
	index := make([]uint64, 1<<14)
	for i := range index {
		index[i] = placement.Hash(1, uint64(i), 0) % (1 << 18)
	}
	if err := a.Gather(t.Context(), index, make([]uint32, len(index))); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(m.Describe()); !strings.Contains(got, want.String()) {
		t.Errorf("the memory runs %s, saved was %s", got, want)
	}
}
