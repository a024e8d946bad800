package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"

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
	if err := f.print(&out, curves, false); err != nil || strings.Count(out.String(), "bottleneck") != 1 || !strings.Contains(out.String(), "over size") {
		t.Errorf("%v\n%s", err, out.String())
	}
	f.json = true
	if err := f.print(&out, curves, false); err != nil || !strings.Contains(out.String(), `"complete": false`) {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestModelCurveLegend: every entry lies within the picture, on a line of its own
// place, and writes are held by the links that writes take.
func TestModelCurveLegend(t *testing.T) {
	f := &curveFlags{over: []string{overSize}, sizes: []string{"1MiB"}, size: 4 << 10, write: true, paths: []string{"bam"}}
	curves, loads, err := f.plan([]string{"v100-4x980pro"})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.measure(t.Context(), curves, loads); err != nil {
		t.Fatal(err)
	}
	if got := nearLinks(&curves[0]); len(got) != 1 || got[12.8] != "pcie-out" {
		t.Errorf("links of writes: %v", got)
	}
	paths := []string{"a", strings.Repeat("long", 100), "b", "c", "a path with a name", "another path with a name", "d"}
	entries := curveLegend(f, curves, paths, curveWidth)
	style := chartText(10, chartInk, text.XLeft)
	seen := map[vg.Point]bool{}
	for _, e := range entries {
		if e.at.X+29+style.Width(e.name) > curveWidth || seen[e.at] {
			t.Errorf("%+v of %+v", e, entries)
		}
		seen[e.at] = true
	}
	if len(entries) != len(paths)+1 || entries[0].at != (vg.Point{}) || entries[len(paths)].look != -1 {
		t.Errorf("%+v", entries)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
