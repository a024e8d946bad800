package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/sim/mrc"
)

// Curves are miss-ratio curves and what is needed to explain them. They are
// read-only to this package; several writers may use them at the same time.
type Curves struct {
	Traces      []TraceCurves
	About       string // in a sentence; may be empty
	Command     string // the command line that made them; may be empty
	Seed        uint64 // of the samples and of the policies
	Interrupted bool   // the run was cut short
}

// TraceCurves are the curves of one trace.
type TraceCurves struct {
	Curves   []mrc.Curve
	Labels   []string      // each curve's policy for people; as long as Curves
	Readings []mrc.Reading // what more memory buys; parallel to Curves, or nil
}

func (t *TraceCurves) info() sim.TraceInfo {
	if len(t.Curves) == 0 {
		return sim.TraceInfo{}
	}
	return t.Curves[0].Trace
}

// JSON writes {"curves": [...], "readings": [...]}, those of all traces in order,
// with the fields of mrc.Curve and mrc.Reading. Errors are those of w.
func (c *Curves) JSON(w io.Writer) error {
	doc := struct {
		Curves   []mrc.Curve   `json:"curves"`
		Readings []mrc.Reading `json:"readings,omitempty"`
	}{Curves: []mrc.Curve{}}
	for _, t := range c.Traces {
		doc.Curves = append(doc.Curves, t.Curves...)
		doc.Readings = append(doc.Readings, t.Readings...)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}

// Table writes the curves for a terminal: of each trace some of the sizes, one a
// line, and what more memory buys. Errors are those of w.
func (c *Curves) Table(w io.Writer) error {
	b := bufio.NewWriter(w)
	if c.About != "" {
		fmt.Fprintf(b, "%s\n\n", c.About)
	}
	for i, t := range c.Traces {
		if i > 0 {
			fmt.Fprintln(b)
		}
		c.tableOf(b, &t)
	}
	if c.Interrupted {
		fmt.Fprintln(b, "\ninterrupted: what is missing was not measured")
	}
	return b.Flush()
}

func (c *Curves) tableOf(b *bufio.Writer, t *TraceCurves) {
	info := t.info()
	fmt.Fprintf(b, "trace    %s (%s)\n         %s\n", Printable(info.Name), identity(info), volume(info))
	fmt.Fprintf(b, "seed     %d\n", c.Seed)
	for i, how := range t.methods() {
		fmt.Fprintf(b, "%-8s %s\n", map[bool]string{true: "method"}[i == 0], how)
	}
	for _, note := range t.warnings() {
		fmt.Fprintf(b, "note     %s\n", note)
	}
	rows, left := t.missRows(tableSizes), ""
	if all := len(t.pairs()); all > len(rows)-1 {
		left = fmt.Sprintf(" (%d of the %d measured; JSON has all)", len(rows)-1, all)
	}
	fmt.Fprintf(b, "\nSSD reads, %% of the accesses, by size of the tiers%s:\n", left)
	writeColumns(b, rows)
	for _, part := range t.readingRows() {
		fmt.Fprintln(b)
		fmt.Fprintln(b, part.title)
		writeColumns(b, part.rows)
	}
}

// tableSizes is how many sizes a table shows.
const tableSizes = 16

// methods say how the curves came about, curves with the same method together.
func (t *TraceCurves) methods() (out []string) {
	var order []string
	names := map[string][]string{}
	for i, c := range t.Curves {
		how := methodText(&c)
		if names[how] == nil {
			order = append(order, how)
		}
		names[how] = append(names[how], t.Labels[i])
	}
	for _, how := range order {
		out = append(out, strings.Join(names[how], ", ")+": "+how)
	}
	return out
}

// methodText says how a curve came about.
func methodText(c *mrc.Curve) string {
	pages := fmt.Sprintf("%s of %s pages (rate %.3g, correction %s); expected error at most %.2g",
		units.FormatCount(uint64(c.SampledPages)), units.FormatCount(uint64(c.Trace.Pages)), c.Rate, c.Correction, c.ExpectedError)
	switch {
	case c.Kind == mrc.Exact:
		return "exact stack distances"
	case c.Kind == mrc.Simulated:
		return "exact, each size simulated"
	case c.Kind == mrc.Miniature:
		return "simulated in miniature, " + pages
	case c.Whole():
		return "stack distances of all " + counted(uint64(c.SampledPages), "page")
	}
	return "stack distances of a sample, " + pages
}

// warnings are those of all curves, each once, with the policies concerned.
func (t *TraceCurves) warnings() (out []string) {
	of := map[string][]string{}
	for i, c := range t.Curves {
		for _, w := range c.Warnings {
			if of[w] == nil {
				out = append(out, w)
			}
			of[w] = append(of[w], t.Labels[i])
		}
		if !c.Complete {
			w := "incomplete: points are missing, or only the beginning of the trace was measured"
			if of[w] == nil {
				out = append(out, w)
			}
			of[w] = append(of[w], t.Labels[i])
		}
	}
	for i, w := range out {
		out[i] = strings.Join(of[w], ", ") + ": " + w
	}
	return out
}

// pairs are the sizes of all curves, in order.
func (t *TraceCurves) pairs() (out []mrc.Pair) {
	for _, c := range t.Curves {
		for _, p := range c.Points {
			if !slices.Contains(out, p.Pair) {
				out = append(out, p.Pair)
			}
		}
	}
	slices.SortFunc(out, func(a, b mrc.Pair) int {
		if d := a.Frames() - b.Frames(); d != 0 {
			return d
		}
		return a.GPU - b.GPU
	})
	return out
}

// missRows is the table of at most n sizes, its heading first.
func (t *TraceCurves) missRows(n int) [][]string {
	pairs, size := t.pairs(), t.info().PageSize
	host := slices.ContainsFunc(pairs, func(p mrc.Pair) bool { return p.Host > 0 })
	head := []string{"T1"}
	if host {
		head = []string{"T1 + T2", "T1", "T2"}
	}
	rows := [][]string{append(head, t.Labels...)}
	for i, p := range pairs {
		if len(pairs) > n && i*n/len(pairs) == (i+1)*n/len(pairs) {
			continue
		}
		row := []string{bytesText(uint64(p.GPU), size)}
		if host {
			row = []string{bytesText(uint64(p.Frames()), size), row[0], bytesText(uint64(p.Host), size)}
		}
		for _, c := range t.Curves {
			cell := none
			if pt, ok := c.At(p); ok {
				cell = fmt.Sprintf("%.2f", 100*pt.MissRatio)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return rows
}

// writeColumns writes rows with the first column to the left and the others to
// the right.
func writeColumns(b *bufio.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, r := range rows {
		for i, cell := range r {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				fmt.Fprint(b, cell+pad)
			} else {
				fmt.Fprint(b, "  "+pad+cell)
			}
		}
		fmt.Fprintln(b)
	}
}
