package report

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files under testdata")

// golden compares what write writes with a file, or rewrites the file.
func golden(t *testing.T, name string, write func(w io.Writer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s differs; if that is right, run go test ./sim/report -update and read the difference (-want +got):\n%s", name, diff)
	}
}

func TestGolden(t *testing.T) {
	one, many := sample(t, oneSize), sample(t, manySizes)
	interrupted := sample(t, oneSize)
	interrupted.Interrupted = true
	cut := &interrupted.Results[1]
	cut.Complete, cut.Accesses, cut.BoundReads, cut.T1Hits, cut.T3Fetches = false, 250_000, nil, 60_000, 180_000
	cut.SSDReads = cut.T3Fetches
	bare := sample(t, oneSize) // the form of a placer's account is not this package's
	for i := range bare.Results {
		bare.Results[i].Placer = nil
	}
	twoTiers := sample(t, [][2]int{{10_000, 0}})
	for i := range twoTiers.Results {
		r := &twoTiers.Results[i]
		r.Trace.Requests, r.Trace.Writes, r.Writebacks, r.FinalDirty, r.PrefixHits = 0, 0, 0, 0, nil
		r.Model, r.ModelledSeconds, r.ModelledSerial, r.ModelledEdges = "", nil, nil, nil
		r.T3Fetches, r.Overwrites = r.T3Fetches+r.Overwrites, 0
		r.SSDReads = r.T3Fetches
	}
	twoTiers.Model = nil
	for _, c := range []struct {
		file  string
		write func(io.Writer) error
	}{
		{"one.txt", one.Table}, {"one.json", bare.JSON}, {"one.csv", one.CSV}, {"one.html", one.HTML},
		{"many.txt", many.Table}, {"many.html", many.HTML},
		{"interrupted.txt", interrupted.Table}, {"interrupted.html", interrupted.HTML},
		{"twotiers.txt", twoTiers.Table}, {"twotiers.csv", twoTiers.CSV},
		{"empty.txt", (&Report{}).Table}, {"empty.json", (&Report{}).JSON}, {"empty.csv", (&Report{}).CSV},
		{"one.svg", func(w io.Writer) error { return one.Plot(w, "svg") }},
		{"many.svg", func(w io.Writer) error { return many.Plot(w, "svg") }},
	} {
		t.Run(c.file, func(t *testing.T) { golden(t, c.file, c.write) })
	}
}
