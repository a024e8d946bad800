package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/internal/units"
)

// copyTiming is what the runs of one path took.
type copyTiming struct {
	path              copyeng.Path
	median, low, high time.Duration // the middle, a tenth and nine tenths
}

func timingOf(s *copyeng.Sample) copyTiming {
	low, high := s.Spread()
	return copyTiming{s.Path, s.Median(), low, high}
}

// copyRow is one measured cell.
type copyRow struct {
	copyCell
	chooser *copyTiming // nil when it was not measured
	paths   []copyTiming
}

// gbps is a rate in 10^9 bytes a second, of both directions together.
func (r *copyRow) gbps(t *copyTiming) float64 {
	moved := float64(r.page) * float64(r.pages)
	if r.direction == copyBoth {
		moved *= 2
	}
	return moved / max(1, float64(t.median))
}

// best is the fastest path, nil when none was measured by itself.
func (r *copyRow) best() *copyTiming {
	var best *copyTiming
	for i := range r.paths {
		if best == nil || r.paths[i].median < best.median {
			best = &r.paths[i]
		}
	}
	return best
}

// ratio is the chooser's time over the best path's.
func (r *copyRow) ratio() (float64, bool) {
	best := r.best()
	if best == nil || r.chooser == nil || best.median == 0 {
		return 0, false
	}
	return float64(r.chooser.median) / float64(best.median), true
}

// copyReport is what was measured.
type copyReport struct {
	*copySettings
	dev    *cuda.Device
	pcie   pcieState
	source string // of the chooser's curves
	date   time.Time
	took   time.Duration
	link   copyeng.Link
	small  []copyeng.Small
	rows   []copyRow

	interrupted, failed bool // rows are missing
}

func newCopyReport(s *copySettings, dev *cuda.Device) *copyReport {
	return &copyReport{copySettings: s, dev: dev, date: time.Now().UTC()}
}

// linkRate is what a direction's rates are held to.
func (r *copyReport) linkRate(d copyDirection) float64 {
	return []float64{r.link.ToDevice, r.link.ToHost, r.link.BothWays}[d]
}

// share is the chooser's part of the link's rate; 0 without either.
func (r *copyReport) share(x *copyRow) float64 {
	rate := r.linkRate(x.direction)
	if x.chooser == nil || rate == 0 {
		return 0
	}
	return x.gbps(x.chooser) / rate
}

// text writes the report for people.
func (r *copyReport) text(out io.Writer) error {
	w := bufio.NewWriter(out)
	r.head(w)
	for _, d := range r.directions {
		if err := r.table(w, d); err != nil {
			return err
		}
	}
	if err := r.smallTable(w); err != nil {
		return err
	}
	if err := r.summary(w); err != nil {
		return err
	}
	if r.interrupted || r.failed {
		_, _ = fmt.Fprintf(w, "\nended early: %d of %s are known\n", len(r.rows), plural(uint64(len(r.cells())), "row"))
	}
	return w.Flush()
}

// head says what was measured, on what and how. Flush reports errors of w.
func (r *copyReport) head(w io.Writer) {
	_, _ = fmt.Fprintf(w, "%s, %s\n", gpuLine(r.dev), r.pcie)
	_, _ = fmt.Fprintf(w, "chooser: %s\n", r.source)
	_, _ = fmt.Fprintf(w, "link, large pinned copies in this run: %.1f GB/s to the device, %.1f GB/s to the host, %.1f GB/s both ways at once\n",
		r.link.ToDevice, r.link.ToHost, r.link.BothWays)
	_, _ = fmt.Fprintf(w, "%s, %s over %s, seed %d, %s; every path of every row was compared with what was sent\n",
		r.date.Format("2006-01-02 15:04 UTC"), plural(uint64(r.f.runs), "alternating run"), units.FormatBytes(uint64(r.f.bytes)), r.f.seed,
		units.FormatDuration(r.took))
}

// table is one direction: a line for each page size and number of pages.
func (r *copyReport) table(w io.Writer, d copyDirection) error {
	var rows []*copyRow
	for i := range r.rows {
		if r.rows[i].direction == d {
			rows = append(rows, &r.rows[i])
		}
	}
	if len(rows) == 0 {
		return nil
	}
	_, _ = fmt.Fprintf(w, "\n%s: median us and GB/s (10^9 bytes a second) of each path, * the best", d.text())
	if rows[0].chooser != nil {
		_, _ = fmt.Fprint(w, "; of the chooser also 10-90 % of the runs, its time over the best path's, its share of the link")
	}
	_, _ = fmt.Fprint(w, "\n\n")
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	r.tableHead(t, rows[0])
	for _, x := range rows {
		r.line(t, x)
	}
	return t.Flush()
}

func (r *copyReport) tableHead(t io.Writer, x *copyRow) {
	top, low := "\t\t", "page\tpages\t"
	for _, p := range x.paths {
		top += string(p.path) + " \t"
		low += "us  GB/s \t"
	}
	if x.chooser != nil {
		top += "chooser\t\t\t\t\t\t"
		low += "takes\tus\t10-90 %\t/best\tGB/s\tof link\t"
	}
	_, _ = fmt.Fprintln(t, top) // Flush reports errors
	_, _ = fmt.Fprintln(t, low)
}

func (r *copyReport) line(t io.Writer, x *copyRow) {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "%s\t%s\t", shortBytes(x.page), units.FormatCount(uint64(x.pages)))
	best := x.best()
	for i := range x.paths {
		p, mark := &x.paths[i], " "
		if p == best && len(x.paths) > 1 {
			mark = "*"
		}
		_, _ = fmt.Fprintf(&b, "%s %5s%s\t", micros(p.median), rateText(x.gbps(p)), mark)
	}
	if c := x.chooser; c != nil {
		ratio := "-"
		if v, ok := x.ratio(); ok {
			ratio = fmt.Sprintf("%.3f", v)
		}
		_, _ = fmt.Fprintf(&b, "%s\t%s\t%s-%s\t%s\t%s\t%.2f\t", c.path, micros(c.median), micros(c.low), micros(c.high), ratio, rateText(x.gbps(c)), r.share(x))
	}
	_, _ = fmt.Fprintln(t, b.String())
}

// micros writes a time in microseconds.
func micros(d time.Duration) string { return fmt.Sprintf("%.1f", microseconds(d)) }

func microseconds(d time.Duration) float64 { return float64(d) / 1e3 }

// rateText writes GB/s with three significant digits.
func rateText(v float64) string {
	switch {
	case v < 0.995:
		return fmt.Sprintf("%.3f", v)
	case v < 9.95:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// smallTable is the latency of small batches beside the driver's own calls.
func (r *copyReport) smallTable(w io.Writer) error {
	if len(r.small) == 0 {
		return nil
	}
	_, _ = fmt.Fprint(w, "\nsmall batches: median us of the chooser, and of the driver's own calls: one a page, one for all\n\n")
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "direction\tpage\tpages\ttakes\tchooser\ta call each\tone call\tabove the best\t")
	for i := range r.small {
		s := &r.small[i]
		all := "-"
		if len(s.Raw) > 1 {
			all = micros(s.Raw[1].Median())
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%+.1f\t\n", s.Dir, shortBytes(s.Page), s.Pages, s.Queue.Path,
			micros(s.Queue.Median()), micros(s.Raw[0].Median()), all, microseconds(s.Excess()))
	}
	return t.Flush()
}

// summary is what the rows come to, and with --check how that compares.
func (r *copyReport) summary(w io.Writer) error {
	bars := r.bars()
	if len(bars) == 0 {
		return nil
	}
	_, _ = fmt.Fprint(w, "\nsummary\n\n")
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, b := range bars {
		if !b.Measured && !r.f.check {
			continue
		}
		line := []string{b.Name, b.valueText()}
		if r.f.check {
			line = append(line, b.limitText(), b.verdict())
		}
		if b.Where != "" {
			line = append(line, b.Where)
		}
		_, _ = fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	return t.Flush()
}
