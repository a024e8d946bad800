package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/internal/units"
)

// ioFigures are what one run measured.
type ioFigures struct {
	iops, gbps           float64 // I/Os and 10^9 bytes a second
	p50, p99, p999       float64 // ns
	doorbells            float64 // of submission queues, for each I/O
	serviceCPU, otherCPU float64 // seconds
	seconds              float64 // how long it took
	serviceKnown         bool    // serviceCPU is; otherwise it is within otherCPU
}

// ioRow is a cell with its runs.
type ioRow struct {
	ioCell
	runs     []ioFigures
	sms      int    // SMs that ran a warp, the most of any run
	ios      uint64 // that succeeded, of all runs
	verified uint64 // bytes compared
	checked  bool   // all that was read or written was compared
	wrong    uint64 // what was found to be something else, in pieces
	mismatch string // the first of it
	errors   map[string]uint64
}

// fail counts I/Os that ended with an error.
func (r *ioRow) fail(kind string, n uint64) {
	if n == 0 {
		return
	}
	if r.errors == nil {
		r.errors = map[string]uint64{}
	}
	r.errors[kind] += n
}

// mistake notes wrong data.
func (r *ioRow) mistake(pieces uint64, what string) {
	r.wrong += pieces
	if r.mismatch == "" {
		r.mismatch = what
	}
}

// failures is the number of I/Os that ended with an error.
func (r *ioRow) failures() (n uint64) {
	for _, k := range r.errors {
		n += k
	}
	return n
}

// median of one figure over the runs; of an even number the mean of the middle two.
func (r *ioRow) median(pick func(f *ioFigures) float64) float64 {
	if len(r.runs) == 0 {
		return 0
	}
	var v []float64
	for i := range r.runs {
		v = append(v, pick(&r.runs[i]))
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// serviceKnown says whether the processor time of service threads is.
func (r *ioRow) serviceKnown() bool {
	return !slices.ContainsFunc(r.runs, func(f ioFigures) bool { return !f.serviceKnown })
}

// ioColumns are the figures in the order of the table, with their names in JSON.
var ioColumns = []struct {
	head, name string
	pick       func(f *ioFigures) float64
	text       func(v float64) string
}{
	{"IOPS", "iops", func(f *ioFigures) float64 { return f.iops }, func(v float64) string { return units.FormatCount(uint64(v + 0.5)) }},
	{"GB/s", "gb_per_s", func(f *ioFigures) float64 { return f.gbps }, rateText},
	{"p50", "p50_ns", func(f *ioFigures) float64 { return f.p50 }, latencyText},
	{"p99", "p99_ns", func(f *ioFigures) float64 { return f.p99 }, latencyText},
	{"p99.9", "p999_ns", func(f *ioFigures) float64 { return f.p999 }, latencyText},
	{"doorbells/IO", "doorbells_per_io", func(f *ioFigures) float64 { return f.doorbells }, func(v float64) string { return fmt.Sprintf("%.3f", v) }},
	{"service CPU s", serviceColumn, func(f *ioFigures) float64 { return f.serviceCPU }, cpuText},
	{"other CPU s", "other_cpu_seconds", func(f *ioFigures) float64 { return f.otherCPU }, cpuText},
}

const serviceColumn = "service_cpu_seconds"

func cpuText(v float64) string { return fmt.Sprintf("%.2f", v) }

// ioReport is what was measured.
type ioReport struct {
	*ioSettings
	about    []string // drives
	model    string   // name of what paces them
	area     uint64   // bytes of each drive
	pcie     pcieState
	path     bamio.Path
	havePath bool          // a GPU has submitted
	mailbox  time.Duration // a round trip, 0 when it was not measured
	date     time.Time
	rows     []ioRow

	mailboxErr error // why it was not

	interrupted, failed bool // rows are missing
}

func newIOReport(s *ioSettings) *ioReport { return &ioReport{ioSettings: s, date: time.Now().UTC()} }

// opened takes over what is known once the drives are open.
func (r *ioReport) opened(b *ioBench) {
	r.about, r.area = nil, b.cpu.area
	for _, d := range b.cpu.drives {
		r.about = append(r.about, d.URI.String()+": "+d.Describe())
		r.model = d.Model
	}
}

// label is what every figure of a paced drive bears.
func (r *ioReport) label() string {
	if r.model == "" {
		return ""
	}
	return "modelled"
}

// verdict is the error that wrong data is, and failures other than those that were
// asked for.
func (r *ioReport) verdict() error {
	for i := range r.rows {
		if x := &r.rows[i]; x.wrong > 0 {
			return fmt.Errorf("verification failed: %s by the %s, %s %s: %s", x.op, strings.ToUpper(x.initiator), x.pattern, shortBytes(x.size), x.mismatch)
		}
	}
	if r.faults == nil || r.failed || r.interrupted {
		return nil
	}
	return r.faults.judge(r.errorsSeen(), r.f.timeout, r.f.depth-1)
}

// errorsSeen counts the I/Os of all rows that failed, by status.
func (r *ioReport) errorsSeen() map[string]uint64 {
	seen := map[string]uint64{}
	for i := range r.rows {
		for k, n := range r.rows[i].errors {
			seen[k] += n
		}
	}
	return seen
}

// whole counts the rows that have all their runs.
func (r *ioReport) whole() (n int) {
	for i := range r.rows {
		if len(r.rows[i].runs) == r.f.runs {
			n++
		}
	}
	return n
}

// text writes the report for people.
func (r *ioReport) text(out io.Writer) error {
	w := bufio.NewWriter(out)
	r.head(w)
	_, _ = fmt.Fprintln(w) // Flush reports errors
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	r.tableHead(t)
	for i := range r.rows {
		r.line(t, &r.rows[i])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	r.foot(w)
	return w.Flush()
}

// head says what was measured, on what and how.
func (r *ioReport) head(w io.Writer) {
	if r.dev != nil {
		_, _ = fmt.Fprintf(w, "%s, %s\n", gpuLine(r.dev), r.pcie)
	}
	if r.why != "" {
		_, _ = fmt.Fprintln(w, r.why)
	}
	for _, d := range r.about {
		_, _ = fmt.Fprintln(w, d)
	}
	if r.havePath {
		_, _ = fmt.Fprintln(w, r.path)
		for _, b := range r.path.Blockers {
			_, _ = fmt.Fprintf(w, "  no %s\n", b)
		}
	}
	if r.mailbox > 0 {
		_, _ = fmt.Fprintf(w, "mailbox, GPU to CPU and back, in this run: %s us\n", micros2(r.mailbox))
	} else if r.mailboxErr != nil {
		_, _ = fmt.Fprintf(w, "mailbox, GPU to CPU and back: not measured: %v\n", r.mailboxErr)
	}
	_, _ = fmt.Fprintf(w, "%s, the first %s of each drive, medians of %s of %s, seed %d\n", r.date.Format("2006-01-02 15:04 UTC"),
		units.FormatBytes(r.area), plural(uint64(r.f.runs), "run"), r.bound(), r.f.seed)
	if r.model == "" {
		_, _ = fmt.Fprintln(w, "figures are measured; there is no cache, every I/O is a command that a drive has completed")
	} else {
		_, _ = fmt.Fprintf(w, "figures are modelled by %s, not measured on such drives\n", r.model)
	}
}

// micros2 writes microseconds to a hundredth.
func micros2(d time.Duration) string { return fmt.Sprintf("%.2f", microseconds(d)) }

// bound says how long a run is.
func (r *ioReport) bound() string {
	if r.ios > 0 {
		return plural(r.ios, "I/O")
	}
	return fmt.Sprintf("%g s", r.f.seconds)
}

// ioKeys are the columns that say what a row is.
var ioKeys = []string{"by", "op", "pattern", "size", "service threads", "queues", "GPU threads", "lanes", "SMs"}

func (r *ioReport) tableHead(t io.Writer) {
	if p := r.label(); p != "" {
		_, _ = fmt.Fprintln(t, strings.Repeat("\t", len(ioKeys))+strings.Repeat(p+"\t", len(ioColumns)))
	}
	names := slices.Clone(ioKeys)
	for _, c := range ioColumns {
		names = append(names, c.head)
	}
	_, _ = fmt.Fprintln(t, strings.Join(names, "\t")+"\terrors\t")
}

func (r *ioReport) line(t io.Writer, x *ioRow) {
	cells := []string{x.initiator, x.op, x.pattern, shortBytes(x.size), fmt.Sprint(x.service), fmt.Sprint(x.queues), "-", "-", "-"}
	if !slices.ContainsFunc(r.drives, isSoft) {
		cells[4] = "-"
	}
	if x.op == opMixed {
		cells[1] = fmt.Sprintf("%s, %d %% read", opMixed, r.f.reads)
	}
	if x.initiator == byGPU {
		cells[6], cells[7], cells[8] = units.FormatCount(uint64(x.threads())), fmt.Sprint(x.lanes), fmt.Sprint(x.sms)
	}
	for _, c := range ioColumns {
		if len(x.runs) == 0 || c.name == serviceColumn && !x.serviceKnown() {
			cells = append(cells, "-")
			continue
		}
		cells = append(cells, c.text(x.median(c.pick)))
	}
	_, _ = fmt.Fprintln(t, strings.Join(append(cells, units.FormatCount(x.failures())), "\t")+"\t")
}

// foot says what became of the data, and what else happened.
func (r *ioReport) foot(w io.Writer) {
	failures := r.errorsSeen()
	_, _ = fmt.Fprintf(w, "\nverified: %s\n", r.verification())
	if r.faults != nil {
		_, _ = fmt.Fprintf(w, "faults injected: %s; errors seen: %s\n", counts(r.faults.fired()), counts(failures))
	} else if len(failures) > 0 {
		_, _ = fmt.Fprintf(w, "errors: %s\n", counts(failures))
	}
	switch n := r.whole(); {
	case r.interrupted || r.failed:
		_, _ = fmt.Fprintf(w, "ended early: %d of %s are known\n", n, plural(uint64(len(r.cells)), "row"))
	case n < len(r.cells) && len(failures) > 0:
		_, _ = fmt.Fprintf(w, "%d of %s are known; in runs of the others no I/O succeeded\n", n, plural(uint64(len(r.cells)), "row"))
	case n < len(r.cells):
		_, _ = fmt.Fprintf(w, "%d of %s are known; in runs of the others no I/O ended: give more --seconds\n", n, plural(uint64(len(r.cells)), "row"))
	}
}
