package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/tritier/tritier/internal/doctor"
)

// reportPrinter writes a report in columns: verdict, name, what was found; lines about an item stand below what was found. The first error
// of the writer stays.
type reportPrinter struct {
	w    io.Writer
	name int // width of the names
	err  error
}

// printReport writes a report for people.
func printReport(w io.Writer, r *doctor.Report) error {
	p := &reportPrinter{w: w}
	for _, s := range r.Sections {
		for _, i := range s.Items {
			p.name = max(p.name, utf8.RuneCountInString(i.Name))
		}
	}
	p.line("%s", reportSummary(r))
	for _, s := range r.Sections {
		p.line("")
		p.line("%s", escaped(s.Title))
		for _, i := range s.Items {
			p.item(i.Status, i.Name, i.Value)
			p.below("costs", i.Cost)
			p.below("get it", i.Remedy)
		}
		if s.ID == "sharing" && r.Peers != nil {
			p.matrix(r.Peers)
		}
	}
	p.line("")
	p.line("Ways for data")
	for _, way := range r.Paths {
		p.path(way)
	}
	return p.err
}

// reportSummary is the line at the top.
func reportSummary(r *doctor.Report) string {
	var counts []string
	for _, s := range doctor.Statuses() {
		if n := r.Counts[s]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, s))
		}
	}
	gpus := 0
	for _, s := range r.Sections {
		if s.ID == "gpu" {
			gpus++
		}
	}
	who := "no GPU"
	switch {
	case gpus == 1:
		who = "1 GPU"
	case gpus > 1:
		who = fmt.Sprintf("%d GPUs", gpus)
	}
	return who + ": " + strings.Join(counts, ", ")
}

func (p *reportPrinter) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
}

func (p *reportPrinter) item(s doctor.Status, name, value string) {
	p.line("  %-8s %-*s  %s", s, p.name, escaped(name), oneLineText(value))
}

// below is a line under an item's value.
func (p *reportPrinter) below(what, text string) {
	if text != "" {
		p.line("  %-8s %-*s  %s: %s", "", p.name, "", what, oneLineText(text))
	}
}

// matrix says which GPU, by row, reaches which.
func (p *reportPrinter) matrix(m *doctor.Peers) {
	if len(m.GPUs) < 3 {
		return // the sum says it all
	}
	head := ""
	for j := range m.GPUs {
		head += fmt.Sprintf(" %5d", j)
	}
	p.line("  %-8s %-*s %s", "", p.name, "from GPU (row) to GPU", head)
	for i, row := range m.Access {
		cells := ""
		for j, yes := range row {
			word := "no"
			switch {
			case i == j:
				word = "-"
			case yes:
				word = "yes"
			}
			cells += fmt.Sprintf(" %5s", word)
		}
		p.line("  %-8s %*d %s", "", p.name, i, cells)
	}
}

func (p *reportPrinter) path(way doctor.Path) {
	value := "not here"
	if len(way.Payload) > 0 {
		value = strings.Join(way.Payload, " -> ")
	}
	p.item(way.Status, way.Name, value)
	if len(way.Payload) > 0 {
		p.below("requests", "written by "+way.Requests)
	}
	for _, n := range way.Notes {
		p.below("note", n)
	}
	p.below("get it", way.Remedy)
}

// oneLineText keeps what a driver or a drive says of itself to one line of printable text.
func oneLineText(s string) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, l := range lines {
		lines[i] = escaped(l)
	}
	return strings.Join(lines, "; ")
}
