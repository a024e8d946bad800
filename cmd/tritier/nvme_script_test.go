package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

func TestNVMeScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/nvme_*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	testscript.Run(t, testscript.Params{
		Files: scripts,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"refuses": refuses, "disk": makeDisk, "jsonhas": jsonHas, "examples": checkExamples,
		},
	})
}

// makeDisk makes a file of so many bytes, with a mark at an offset: NAME BYTES [OFFSET MARK].
func makeDisk(ts *testscript.TestScript, _ bool, args []string) {
	size, err := strconv.Atoi(args[1])
	ts.Check(err)
	content := make([]byte, size)
	if len(args) > 2 {
		offset, err := strconv.Atoi(args[2])
		ts.Check(err)
		copy(content[offset:], args[3])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), content, 0o600))
}

// jsonHas checks values in the last command's output: PATH=VALUE..., where a
// path is keys and indices separated by points, and a value "*" is any.
func jsonHas(ts *testscript.TestScript, neg bool, args []string) {
	var doc any
	text := ts.ReadFile("stdout")
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		ts.Fatalf("%v in %s", err, text)
	}
	for _, arg := range args {
		path, want, _ := strings.Cut(arg, "=")
		got, ok := lookUp(doc, strings.Split(path, "."))
		if neg {
			if ok {
				ts.Fatalf("%s is there: %v", path, got)
			}
			continue
		}
		b, err := json.Marshal(got)
		if !ok || err != nil || want != "*" && string(b) != want {
			ts.Fatalf("%s is %s (there: %v), want %s", path, b, ok, want)
		}
	}
}

func lookUp(v any, path []string) (any, bool) {
	for _, p := range path {
		switch x := v.(type) {
		case map[string]any:
			inner, ok := x[p]
			if !ok {
				return nil, false
			}
			v = inner
		case []any:
			i, err := strconv.Atoi(p)
			if err != nil || i >= len(x) {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// checkExamples runs COMMAND --help and checks that each example is a command
// line that tritier parses: none of them may have an unknown flag or workload.
func checkExamples(ts *testscript.TestScript, _ bool, args []string) {
	root := newRootCommand()
	c, _, err := root.Find(args)
	ts.Check(err)
	if c.Name() != args[len(args)-1] {
		ts.Fatalf("no command %q", args)
	}
	lines := strings.Split(strings.TrimSpace(c.Example), "\n")
	if len(lines) < 2 {
		ts.Fatalf("%q has %d examples", args, len(lines))
	}
	for _, line := range lines {
		line, _, _ = strings.Cut(line, " | ")
		words := strings.Fields(strings.ReplaceAll(line, "'", ""))
		fresh := newRootCommand()
		found, rest, err := fresh.Find(words[1:])
		ts.Check(err)
		if err := found.ParseFlags(rest); err != nil {
			ts.Fatalf("%s: %v", line, err)
		}
		if err := found.ValidateArgs(found.Flags().Args()); err != nil {
			ts.Fatalf("%s: %v", line, err)
		}
	}
}

// A file that may not be read says so, and what to do, whoever runs the test:
// root gives up its rights on files for this thread alone.
func TestNVMePermission(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(path, make([]byte, 4096), 0o000), os.Chmod(filepath.Dir(path), 0o755), os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755)); err != nil {
		t.Fatal(err)
	}
	status := make(chan string, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		if os.Getuid() == 0 {
			if err := unix.Setfsuid(65534); err != nil {
				status <- err.Error()
				return
			}
		}
		var out, errOut bytes.Buffer
		code := run([]string{"nvme", "identify", "file:" + path}, nil, &out, &errOut)
		status <- strconv.Itoa(code) + out.String() + errOut.String()
	}()
	got := <-status
	if !strings.HasPrefix(got, "1tritier: file:") || !strings.Contains(got, "permission denied: run as its owner or as root") {
		t.Errorf("got %q", got)
	}
}
