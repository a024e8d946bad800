package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// runExamples runs every example of a command's help text beside the files that they
// name: those given, and a trace of page ids in ids.txt and trace.ids.zst.
func runExamples(t *testing.T, command *cobra.Command, least int, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	var ids strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&ids, "%d\n", i*i%1_003)
	}
	files["ids.txt"] = ids.String()
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if code := run([]string{"trace", "convert", "--format", "ids", "ids.txt", "trace.ids.zst"}, nil, io.Discard, io.Discard); code != 0 {
		t.Fatal("no input for the examples")
	}
	examples := strings.Split(strings.TrimSpace(command.Example), "\n")
	if len(examples) < least {
		t.Fatalf("%d examples", len(examples))
	}
	for _, e := range examples {
		words := strings.Fields(e)
		for i := range words {
			words[i] = strings.Trim(words[i], "'")
		}
		var out, errs bytes.Buffer
		if code := run(words[1:], strings.NewReader(""), &out, &errs); code != 0 || out.Len() == 0 || errs.Len() > 0 {
			t.Errorf("%s: status %d, %s", e, code, errs.String())
		}
	}
}

// TestReplayExamples runs every example of the help text.
func TestReplayExamples(t *testing.T) {
	runExamples(t, newReplayCommand(), 4, map[string]string{
		"trace.lis": "1 2 0 1\n1 3 0 2\n5 1 0 3\n1 4 0 4\n",
		"trace.csv": "time,page\n1,1\n2,2\n3,3\n4,1\n5,4\n6,2\n",
	})
	for _, made := range []string{"report.html", "curves.svg"} {
		if _, err := os.Stat(made); err != nil {
			t.Error(err)
		}
	}
}

// TestReplayJSON holds the documented shape: these names, one result for each
// trace, policy and size, and conserved counts.
func TestReplayJSON(t *testing.T) {
	var out, errs bytes.Buffer
	args := []string{"replay", "--json", "--policy", "lru,gmt-reuse{t1=lru}", "--gpu-frames", "1000,4000", "--host-frames", "8000"}
	if code := run(args, nil, &out, &errs); code != 0 {
		t.Fatal(code, errs.String())
	}
	var doc map[string][]map[string]any
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc) != 1 || len(doc["results"]) != 4 {
		t.Fatalf("%d keys, %d results", len(doc), len(doc["results"]))
	}
	for i, r := range doc["results"] {
		number := func(key string) float64 {
			n, ok := r[key].(float64)
			if !ok {
				t.Errorf("result %d has no number %s", i, key)
			}
			return n
		}
		for _, key := range []string{"gpu_frames", "host_frames", "demotions", "bypasses", "writebacks", "final_dirty", "modelled_seconds", "prefix_hits"} {
			number(key)
		}
		sum := number("t1_hits") + number("t2_hits") + number("t3_fetches") + number("overwrites") + number("errors")
		if sum != number("accesses") || sum != 288_500 {
			t.Errorf("result %d: accesses %v, parts add up to %v", i, r["accesses"], sum)
		}
		if number("ssd_reads") < number("bound_ssd_reads") {
			t.Errorf("result %d beats the bound", i)
		}
		if tr, ok := r["trace"].(map[string]any); !ok || tr["name"] != "mooncake_conversation" {
			t.Errorf("result %d: trace %v", i, r["trace"])
		}
		if want := []float64{1000, 4000}[i%2]; number("gpu_frames") != want {
			t.Errorf("result %d is out of order", i)
		}
		if p, _ := r["policy"].(string); strings.HasPrefix(p, "gmt-reuse{t1=lru,") != (i >= 2) {
			t.Errorf("result %d has policy %s", i, p)
		}
	}
}

// interrupted starts a replay of standard input, feeds it, sends it Ctrl-C
// while it waits for more, and returns what it wrote. The pipe stays open.
// The program is this test binary, which TestMain puts into PATH as tritier.
func interrupted(t *testing.T, input []byte, args ...string) (stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tritier", append([]string{"replay", "-"}, args...)...)
	cmd.Dir = t.TempDir()
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
	// When the write returns, all but a pipe's worth of input has been read, so
	// that the program is past its start.
	if _, err := pipe.Write(input); err != nil {
		t.Fatal(err)
	}
	waitUntilBlocked(t, cmd.Process.Pid)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Fatalf("%v, want exit status %d\n%s", err, exitInterrupted, errs.String())
	}
	left, err := os.ReadDir(cmd.Dir)
	if err != nil || len(left) > 0 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
	return out.String(), errs.String()
}

// waitUntilBlocked waits until a process has used no processor time for a
// while: it has done what it can do with its input.
func waitUntilBlocked(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for last, quiet := "", 0; quiet < 5; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the program does not come to rest")
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		used := strings.Join(strings.Fields(string(stat))[13:15], " ")
		if used == last {
			quiet++
		} else {
			quiet = 0
		}
		last = used
	}
}

func manyIDs(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "%d\n", i%50_000)
	}
	return b.Bytes()
}

// TestReplayInterrupted checks that Ctrl-C while streaming gives the counts so
// far, marked, and no files.
func TestReplayInterrupted(t *testing.T) {
	out, errs := interrupted(t, manyIDs(1_200_000), "--stream", "--format", "ids", "--gpu-frames", "100", "--host-frames", "200",
		"--policy", "lru", "--json", "--html", "page.html", "--plot", "plot.svg")
	var doc struct {
		Results []struct {
			Complete bool   `json:"complete"`
			Accesses uint64 `json:"accesses"`
			Fetches  uint64 `json:"t3_fetches"`
		} `json:"results"`
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Results) != 1 || doc.Results[0].Complete || doc.Results[0].Accesses < 100_000 || doc.Results[0].Fetches != doc.Results[0].Accesses {
		t.Errorf("results %+v", doc.Results)
	}
	if !strings.Contains(errs, "no page or chart was written: results are missing") || !strings.HasSuffix(errs, "tritier: interrupted\n") {
		t.Errorf("standard error: %s", errs)
	}
}

// TestReplayInterruptedTable checks that the table marks what is incomplete.
func TestReplayInterruptedTable(t *testing.T) {
	out, _ := interrupted(t, manyIDs(1_200_000), "--stream", "--format", "ids", "--gpu-frames", "100", "--host-frames", "0", "--policy", "lru")
	if !strings.Contains(out, "\nlru * ") || !strings.Contains(out, "incomplete: interrupted") {
		t.Errorf("not marked:\n%s", out)
	}
}

// TestReplayInterruptedLoading checks that Ctrl-C before anything ran leaves
// an empty, valid document.
func TestReplayInterruptedLoading(t *testing.T) {
	out, errs := interrupted(t, manyIDs(50_000), "--format", "ids", "--policy", "lru", "--json")
	if errs != "tritier: interrupted while reading standard input: no results yet\n" {
		t.Errorf("standard error: %s", errs)
	}
	if strings.Join(strings.Fields(out), "") != `{"results":[]}` {
		t.Errorf("got %s", out)
	}
}

// TestReplayBrokenPipe checks that a reader that leaves early is no error to
// report: the process ends by SIGPIPE, silently, as any filter does.
func TestReplayBrokenPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("tritier", "replay", "--policy", "lru", "--json", "--html", "page.html")
	cmd.Dir = t.TempDir()
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = w, &errs
	if err := errors.Join(r.Close(), cmd.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(interface{ Signal() unix.Signal }).Signal() != unix.SIGPIPE || errs.Len() > 0 {
		t.Errorf("%v, standard error %q", err, errs.String())
	}
	if _, err := os.Stat(filepath.Join(cmd.Dir, "page.html")); err != nil {
		t.Error("the page comes before standard output:", err)
	}
}

func TestSplitPolicies(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string // nil: an error
	}{
		{"lru", []string{"lru"}},
		{"lru, arc", []string{"lru", "arc"}},
		{"gmt-reuse{t1=clock,t2=s3-fifo(cap=3,small=0.1),k=16},lru", []string{"gmt-reuse{t1=clock,t2=s3-fifo(cap=3,small=0.1),k=16}", "lru"}},
		{"s3-fifo(cap=1,small=0.2),random{}", []string{"s3-fifo(cap=1,small=0.2)", "random{}"}},
		{"@file.yaml,lru", []string{"@file.yaml", "lru"}},
		{"", nil}, {",lru", nil}, {"lru,", nil},
	} {
		got, err := splitPolicies(c.in)
		if !slices.Equal(got, c.want) || (err != nil) != (c.want == nil) {
			t.Errorf("%q: %q, %v", c.in, got, err)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for in, want := range map[string]string{
		"lru": "lru", "--gpu-mem=5%,1GiB": "--gpu-mem=5%,1GiB", "": "''", "random{}": "'random{}'", "a b": "'a b'", "it's": `'it'\''s'`,
		"$(reboot)": "'$(reboot)'", "*": "'*'", "a\x1b'": `$'a\x1b\''`,
	} {
		if got := shellQuote(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// TestInterruptible checks that the reader hands everything on, errors in
// place, and that a blocked read ends with the context.
func TestInterruptible(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789"), 100_000)
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(text), "halves": iotest.HalfReader(bytes.NewReader(text)), "data with EOF": iotest.DataErrReader(bytes.NewReader(text)),
	} {
		if err := iotest.TestReader(interruptible(t.Context(), r), text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad := errors.New("bad")
	got, err := io.ReadAll(interruptible(t.Context(), io.MultiReader(bytes.NewReader(text), iotest.ErrReader(bad))))
	if !bytes.Equal(got, text) || !errors.Is(err, bad) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	pr, pw := io.Pipe()
	defer pw.Close()
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := interruptible(ctx, pr).Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("a blocked read gave %v", err)
	}
}
