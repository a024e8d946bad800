package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tritier/tritier/sim/timed"
)

func TestModelScript(t *testing.T) {
	testscript.Run(t, testscript.Params{Files: []string{"testdata/script/model.txtar"}})
}

// TestModelExamples runs every example of the help texts, up to a pipe.
func TestModelExamples(t *testing.T) {
	t.Chdir(t.TempDir())
	n := 0
	for _, c := range newModelCommand().Commands() {
		for _, e := range strings.Split(c.Example, "\n") {
			e, _, _ = strings.Cut(e, "|")
			var out, errs bytes.Buffer
			if code := run(strings.Fields(e)[1:], strings.NewReader(""), &out, &errs); code != 0 || out.Len() == 0 || errs.Len() > 0 {
				t.Errorf("%s: status %d, %s", e, code, errs.String())
			}
			n++
		}
	}
	if n < 8 {
		t.Errorf("%d examples", n)
	}
}

// TestModelOutputFails: a table that cannot be written is an error.
func TestModelOutputFails(t *testing.T) {
	for _, args := range [][]string{{"model", "list"}, {"model", "show", "4x980pro"}, {"model", "curve", "4x980pro", "--sizes", "4KiB"}} {
		var errs bytes.Buffer
		if code := run(args, strings.NewReader(""), brokenWriter{}, &errs); code == 0 {
			t.Errorf("%v: status 0", args)
		}
	}
}

// TestModelCurveInterrupted: what was not reached has no empty table.
func TestModelCurveInterrupted(t *testing.T) {
	f := &curveFlags{over: []string{overSize, overDrives}, size: 4 << 10}
	curves, loads, err := f.plan([]string{"4x980pro"})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.measure(t.Context(), curves[:1], [][]timed.Load{loads[0][:1]}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := f.print(&out, curves); err != nil || strings.Count(out.String(), "bottleneck") != 1 || !strings.Contains(out.String(), "over size") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
