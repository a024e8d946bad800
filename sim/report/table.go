package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/tritier/tritier/internal/units"
)

// Table writes the report for a terminal, or any place with a fixed-width
// font: for each trace what it is, and for each pair of sizes one line per
// policy. Errors are those of w.
func (r *Report) Table(w io.Writer) error {
	b := bufio.NewWriter(w)
	if r.About != "" {
		fmt.Fprintf(b, "%s\n\n", r.About)
	}
	for i, g := range r.groups() {
		if i > 0 {
			fmt.Fprintln(b)
		}
		r.tableHead(b, &g)
		writeGroup(b, &g)
	}
	r.tableFoot(b)
	return b.Flush()
}

// tableHead says what the lines below are about.
func (r *Report) tableHead(b *bufio.Writer, g *traceGroup) {
	fmt.Fprintf(b, "trace    %s (%s)\n", Printable(g.info.Name), identity(g.info))
	fmt.Fprintf(b, "         %s\n", volume(g.info))
	fmt.Fprintf(b, "seed     %s\n", r.seeds())
	if name := r.modelName(); name != "" {
		fmt.Fprintf(b, "model    %s", name)
		if r.Model != nil && r.Model.Description != "" {
			fmt.Fprintf(b, ": %s", r.Model.Description)
		}
		fmt.Fprint(b, "\n         times are modelled from its figures, not measured\n")
		if timed := r.timedHead(); timed != "" {
			fmt.Fprintf(b, "         %s\n", timed)
		}
		if r.drivesOnly() {
			fmt.Fprintf(b, "         %s\n", drivesOnlyText)
		}
	}
}

// writeGroup writes the tables of one trace, with the same column widths.
func writeGroup(b *bufio.Writer, g *traceGroup) {
	cols := shown(g.rows())
	lines := [][]string{{""}, {"policy"}}
	for _, c := range cols {
		lines[0] = append(lines[0], c.head[0])
		lines[1] = append(lines[1], c.head[1])
	}
	for _, s := range g.sizes {
		for _, r := range s.rows {
			lines = append(lines, cells(r, cols))
		}
	}
	widths := columnWidths(lines)
	next := 2
	for _, s := range g.sizes {
		fmt.Fprintf(b, "\nT1 GPU memory %s, T2 host memory %s\n", tierText(s.gpu, g.info.PageSize), tierText(s.host, g.info.PageSize))
		writeLine(b, lines[0], widths)
		writeLine(b, lines[1], widths)
		for range s.rows {
			writeLine(b, lines[next], widths)
			next++
		}
	}
}

// cells are the texts of one line; a cut-short result is marked.
func cells(r row, cols []column) []string {
	name := r.label
	if !r.Complete {
		name += " *"
	}
	out := []string{name}
	for _, c := range cols {
		out = append(out, c.cell(r.Result))
	}
	return out
}

func columnWidths(lines [][]string) []int {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, s := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(s))
		}
	}
	return widths
}

// writeLine aligns names to the left and figures to the right.
func writeLine(b *bufio.Writer, line []string, widths []int) {
	var s strings.Builder
	for i, text := range line {
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
		if i == 0 {
			s.WriteString(text + pad)
		} else {
			s.WriteString("  " + pad + text)
		}
	}
	fmt.Fprintln(b, strings.TrimRight(s.String(), " "))
}

// tableFoot explains marks and short names.
func (r *Report) tableFoot(b *bufio.Writer) {
	if r.incomplete() {
		fmt.Fprint(b, "\n* incomplete: interrupted, counts so far")
		for _, p := range r.cut() {
			fmt.Fprintf(b, "\n  %s", p)
		}
		fmt.Fprintln(b)
	}
	r.timedDetail(b)
	for _, n := range r.notes() {
		fmt.Fprintf(b, "\nnote: %s\n", n)
	}
	var full []policy
	width := 0
	for _, p := range r.policies() {
		if p.Label != p.Canonical {
			full = append(full, p)
			width = max(width, utf8.RuneCountInString(p.Label))
		}
	}
	if len(full) > 0 {
		fmt.Fprint(b, "\npolicies in full\n")
	}
	for _, p := range full {
		fmt.Fprintf(b, "  %s%s  %s\n", p.Label, strings.Repeat(" ", width-utf8.RuneCountInString(p.Label)), p.Canonical)
	}
}

// cut lists how far each incomplete result came.
func (r *Report) cut() []string {
	var out []string
	labels := r.labels()
	for i := range r.Results {
		if res := &r.Results[i]; !res.Complete {
			done := "after " + accesses(res.Accesses)
			if res.Trace.Accesses > res.Accesses {
				done = "after " + units.FormatCount(res.Accesses) + " of " + accesses(res.Trace.Accesses)
			}
			out = append(out, fmt.Sprintf("%s at %s: %s", labels[i], sizeShort(res), done))
		}
	}
	return out
}
