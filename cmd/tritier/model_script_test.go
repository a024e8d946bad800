package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
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

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
