package main

import (
	"encoding/csv"
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestReplayScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/r[eo]*_*.txtar") // replay_ and root_; run_gpu has a runner of its own
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	testscript.Run(t, testscript.Params{
		Files: scripts,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"cmpcolumns": cmpColumns, "maxwidth": maxWidth, "nofiles": noFiles, "fails": fails, "refuses": refuses, "jsonhas": jsonHas,
		},
	})
}

// cmpColumns compares columns of a CSV file with those of another, given as
// FILE COLUMNS OTHER.
func cmpColumns(ts *testscript.TestScript, neg bool, args []string) {
	columns := strings.Split(args[1], ",")
	got, want := pick(ts, args[0], columns), pick(ts, args[2], columns)
	if same := got == want; same == neg {
		ts.Fatalf("columns %s: got\n%swant%s\n%s", args[1], got, map[bool]string{true: " anything but"}[neg], want)
	}
}

func pick(ts *testscript.TestScript, file string, columns []string) string {
	lines, err := csv.NewReader(strings.NewReader(ts.ReadFile(file))).ReadAll()
	ts.Check(err)
	var b strings.Builder
	for i, line := range lines {
		for _, c := range columns {
			at := 0
			for at < len(line) && lines[0][at] != c {
				at++
			}
			if at == len(line) {
				ts.Fatalf("%s has no column %s", file, c)
			}
			b.WriteString(line[at] + " ")
		}
		if b.WriteByte('\n'); i == 0 && len(lines) == 1 {
			ts.Fatalf("%s has no results", file)
		}
	}
	return b.String()
}

// maxWidth checks a text's width up to a line: FILE WIDTH LINE.
func maxWidth(ts *testscript.TestScript, neg bool, args []string) {
	limit, err := strconv.Atoi(args[1])
	ts.Check(err)
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		line = strings.TrimSuffix(line, "\n")
		if line == strings.Join(args[2:], " ") {
			return
		}
		if n := utf8.RuneCountInString(line); n > limit {
			ts.Fatalf("%d columns: %s", n, line)
		}
	}
	ts.Fatalf("no line %q", strings.Join(args[2:], " "))
}

// noFiles checks that no file has a word in its name.
func noFiles(ts *testscript.TestScript, neg bool, args []string) {
	found, err := filepath.Glob(ts.MkAbs("*" + args[0] + "*"))
	ts.Check(err)
	hidden, err := filepath.Glob(ts.MkAbs(".*" + args[0] + "*"))
	ts.Check(err)
	for _, f := range append(found, hidden...) {
		if filepath.Base(f) != ".tmp" { // testscript's own
			ts.Fatalf("left behind: %s", f)
		}
	}
}

// fails checks that tritier replay with these arguments gives one line with a
// text on standard error, nothing on standard output, and status 1.
func fails(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec("tritier", append([]string{"replay"}, args[1:]...)...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		ts.Fatalf("%q: %v, want exit status 1", args[1:], err)
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("%q: on standard output: %s", args[1:], out)
	}
	line := ts.ReadFile("stderr")
	if !strings.HasPrefix(line, "tritier: ") || strings.Count(line, "\n") != 1 || !strings.Contains(line, args[0]) {
		ts.Fatalf("%q: want one line with %q, got %s", args[1:], args[0], line)
	}
}
