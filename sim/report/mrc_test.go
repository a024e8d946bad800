package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/sim/mrc"
)

// sampleCurves are curves of a made-up trace: two policies and the bound.
func sampleCurves(name string, points int, host bool) TraceCurves {
	t := TraceCurves{Labels: []string{"lru", "clock", "bound"}}
	for i := range t.Labels {
		c := mrc.Curve{Trace: sim.TraceInfo{Name: name, Format: "ids", PageSize: 65536, Accesses: 1000, Pages: 500}, Policy: "policy-" + t.Labels[i],
			Bound: i == 2, Kind: mrc.Exact, Complete: true, SampledPages: 500}
		for k := 1; k <= points; k++ {
			hits, none := uint64(k*10), uint64(0)
			p := mrc.Point{Pair: mrc.Pair{GPU: k * k}, SSDReads: uint64(900 - 10*k - i), MissRatio: float64(900-10*k-i) / 1000, T1Hits: &hits, T2Hits: &none, Overwrites: &none}
			if host {
				p.Host = 4 * k * k
			}
			if c.Bound {
				p.T1Hits, p.T2Hits, p.Overwrites = nil, nil, nil
			}
			p.Bytes = uint64(p.Frames()) * 65536
			c.Points = append(c.Points, p)
		}
		t.Curves = append(t.Curves, c)
	}
	return t
}

func writeAll(t *testing.T, c *Curves) (table, page string) {
	t.Helper()
	var b, svg, img, html bytes.Buffer
	for _, err := range []error{c.Table(&b), c.HTML(&html), c.Plot(&svg, "svg"), c.Plot(&img, "png")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := png.Decode(&img); err != nil {
		t.Error(err)
	}
	for dec := xml.NewDecoder(&svg); ; {
		if _, err := dec.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return b.String(), html.String()
}

// Every point of a short curve is in the table and on the page, to the digit.
func TestCurvesShown(t *testing.T) {
	tc := sampleCurves("a<b>.ids", 9, true)
	for i := range tc.Curves {
		r, _ := tc.Curves[i].Read(mrc.Pair{GPU: 4, Host: 16}, []mrc.Pair{{GPU: 5, Host: 20}})
		tc.Readings = append(tc.Readings, r)
	}
	table, page := writeAll(t, &Curves{Traces: []TraceCurves{tc}, Seed: 42, Command: "tritier mrc a", About: "About this."})
	for _, want := range []string{"trace    a<b>.ids", "seed     42", "lru, clock, bound: exact stack distances", "Now: T1 4 frames (256KiB), T2 16 frames (1MiB)",
		"With 320KiB more GPU memory and 1.25MiB more host memory: T1 9 frames", "About this."} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if !strings.Contains(page, "a&lt;b&gt;.ids") || strings.Contains(page, "a<b>") || !strings.Contains(page, "Seed 42.") || !strings.Contains(page, "tritier mrc a") {
		t.Error("the page does not name trace, seed and command, or not safely")
	}
	for _, c := range tc.Curves {
		for _, p := range c.Points {
			if cell := fmt.Sprintf("%.2f", 100*p.MissRatio); !strings.Contains(table, cell) || !strings.Contains(page, "<td>"+cell+"</td>") {
				t.Errorf("%s: %s is missing", c.Policy, cell)
			}
		}
	}
	if r := tc.Readings[0]; r.Offers[0].Saved != 10 || !strings.Contains(table, " 10 ") && !strings.Contains(table, " 10  ") {
		t.Errorf("%+v\n%s", r, table)
	}
}

// Long curves are thinned out in the table, ends included, and not in JSON.
func TestCurvesThinned(t *testing.T) {
	c := &Curves{Traces: []TraceCurves{sampleCurves("x", 60, false), sampleCurves("y", 1, false)}}
	table, _ := writeAll(t, c)
	rows := 0
	for line := range strings.Lines(table) {
		if strings.Contains(line, "iB  ") && strings.Count(line, ".") >= 3 {
			rows++
		}
	}
	if !strings.Contains(table, "(16 of the ") {
		t.Error("the table does not say that it leaves sizes out")
	}
	if rows != tableSizes+1 || !strings.Contains(table, "225MiB") {
		t.Errorf("%d rows\n%s", rows, table)
	}
	var out bytes.Buffer
	if err := c.JSON(&out); err != nil {
		t.Fatal(err)
	}
	var doc struct{ Curves []mrc.Curve }
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil || len(doc.Curves) != 6 || len(doc.Curves[0].Points) != 60 {
		t.Errorf("%v, %d curves", err, len(doc.Curves))
	}
}

// What is wrong with a curve is said wherever it is shown.
func TestCurvesWarn(t *testing.T) {
	tc := sampleCurves("x", 5, false)
	tc.Curves[1].Kind, tc.Curves[1].ExpectedError, tc.Curves[1].SampledPages, tc.Curves[1].Rate = mrc.Miniature, 0.05, 50, 0.1
	tc.Curves[1].Warnings = []string{"only a few pages"}
	tc.Curves[2].Complete, tc.Curves[2].Points = false, nil
	table, page := writeAll(t, &Curves{Traces: []TraceCurves{tc}, Interrupted: true})
	for _, want := range []string{"clock: only a few pages", "bound: incomplete", "clock: simulated in miniature, 50 of 500 pages", "expected error at most 0.05", "nterrupted"} {
		if !strings.Contains(table, want) || !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if !strings.Contains(page, "from only 50 sampled pages: off by 5 percentage points or more") {
		t.Error("the figure does not say how right it is")
	}
	tc.Curves[1].SampledPages = mrc.MinSampled
	if text := tc.precision(); !strings.Contains(text, "right to 5 percentage points on average") {
		t.Error(text)
	}
}

// A single size stands in the middle, once.
func TestOneSize(t *testing.T) {
	if ticks := sizeTicks(1<<20, 1<<20); len(ticks) != 1 || ticks[0].Label != "1MiB" {
		t.Errorf("%+v", ticks)
	}
	for _, x := range []struct{ lo, hi float64 }{{1 << 20, 3 << 20}, {1 << 20, 1 << 30}} {
		if ticks := sizeTicks(x.lo, x.hi); len(ticks) < 3 {
			t.Errorf("%+v: %+v", x, ticks)
		}
	}
}

func TestCurvesNothing(t *testing.T) {
	none := &Curves{}
	if err := none.Plot(io.Discard, "svg"); err == nil {
		t.Error("no curves were drawn")
	}
	one := &Curves{Traces: []TraceCurves{sampleCurves("x", 3, false)}}
	if err := one.Plot(io.Discard, "pdf"); err == nil {
		t.Error("a PDF was drawn")
	}
	var b bytes.Buffer
	if err := none.JSON(&b); err != nil || !strings.Contains(b.String(), `"curves": []`) {
		t.Errorf("%v %s", err, b.String())
	}
}
