package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tritier/tritier/internal/units"
)

// figures are what one run measured.
type figures struct {
	iops, gbps         float64 // I/Os and 10^9 bytes a second
	p50, p99, p999     float64 // ns
	mmio               float64 // doorbell writes for each I/O
	driverCPU, restCPU float64 // seconds
}

// row is a cell with its runs.
type row struct {
	cell     cell
	runs     []figures
	ios      uint64 // of all runs
	verified uint64 // bytes compared
	errors   map[string]uint64
	resets   int
	mismatch *mismatchError // the first
}

// add takes a run over that measured at least one I/O.
func (r *row) add(x *runResult) {
	s := x.elapsed.Seconds()
	r.runs = append(r.runs, figures{
		iops: float64(x.ios) / s, gbps: float64(x.bytes) / s / 1e9, mmio: float64(x.doorbells) / float64(x.ios),
		p50: float64(x.latency.percentile(0.5)), p99: float64(x.latency.percentile(0.99)), p999: float64(x.latency.percentile(0.999)),
		driverCPU: x.driverCPU.Seconds(), restCPU: x.otherCPU.Seconds(),
	})
	r.ios += x.ios
	r.verified += x.verified
	r.resets += x.resets
	if r.errors == nil {
		r.errors = map[string]uint64{}
	}
	for k, n := range x.errors {
		r.errors[k] += n
	}
	if r.mismatch == nil {
		r.mismatch = x.mismatch
	}
}

// median of one figure over the runs; of an even number the mean of the middle two.
func (r *row) median(pick func(f *figures) float64) float64 {
	var v []float64
	for i := range r.runs {
		v = append(v, pick(&r.runs[i]))
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// columns are the figures in the order of the table, with their names in JSON.
var columns = []struct {
	head, name string
	pick       func(f *figures) float64
	text       func(v float64) string
}{
	{"IOPS", "iops", func(f *figures) float64 { return f.iops }, func(v float64) string { return units.FormatCount(uint64(v + 0.5)) }},
	{"GB/s", "gb_per_s", func(f *figures) float64 { return f.gbps }, func(v float64) string { return fmt.Sprintf("%.3f", v) }},
	{"p50", "p50_ns", func(f *figures) float64 { return f.p50 }, latencyText},
	{"p99", "p99_ns", func(f *figures) float64 { return f.p99 }, latencyText},
	{"p99.9", "p999_ns", func(f *figures) float64 { return f.p999 }, latencyText},
	{"MMIO/IO", "mmio_writes_per_io", func(f *figures) float64 { return f.mmio }, func(v float64) string { return fmt.Sprintf("%.2f", v) }},
	{"driver CPU s", "driver_cpu_seconds", func(f *figures) float64 { return f.driverCPU }, func(v float64) string { return fmt.Sprintf("%.2f", v) }},
	{"service CPU s", "service_cpu_seconds", func(f *figures) float64 { return f.restCPU }, func(v float64) string { return fmt.Sprintf("%.2f", v) }},
}

func latencyText(v float64) string { return units.FormatDuration(time.Duration(v)) }

// benchReport is what the bench writes.
type benchReport struct {
	b           *bench
	drives      []string
	model       string
	interrupted bool
}

func (b *bench) report(interrupted bool) *benchReport {
	r := &benchReport{b: b, interrupted: interrupted}
	for _, d := range b.drives {
		r.drives = append(r.drives, d.URI.String()+": "+d.Describe())
		r.model = d.Model
	}
	return r
}

// prefix labels every figure of a paced drive.
func (r *benchReport) prefix() string {
	if r.model == "" {
		return ""
	}
	return "modelled"
}

// json writes one document. Figures of paced drives have names that begin with modelled_.
func (r *benchReport) json(w io.Writer) error {
	b := r.b
	doc := map[string]any{
		"drives": r.drives, "seed": b.f.seed, "area_bytes": b.area, "run_seconds": b.length.Seconds(), "run_ios": b.ios,
		"warmup_seconds": b.warmup.Seconds(), "modelled": r.model != "", "verify": b.f.verify, "interrupted": r.interrupted,
	}
	if r.model != "" {
		doc["model"] = r.model
	}
	if b.faults != nil {
		doc["faults"], doc["fault_hits"] = b.f.faults, b.faults.fired()
		doc["errors_as_injected"] = b.faults.judge(b.seen, b.f.timeout, 0) == nil
	}
	rows := []map[string]any{}
	for i := range b.rows {
		rows = append(rows, r.jsonRow(&b.rows[i]))
	}
	doc["rows"] = rows
	return writeJSON(w, doc)
}

func (r *benchReport) jsonRow(x *row) map[string]any {
	m := map[string]any{
		"workload": x.cell.work.name, "io_bytes": x.cell.size, "depth": x.cell.depth, "queues": x.cell.queues, "drives": len(r.b.drives),
		"runs": len(x.runs), "ios": x.ios, "errors": x.errors, "queue_resets": x.resets,
	}
	if x.cell.work.mix {
		m["read_percent"] = r.b.f.reads
	}
	if r.b.f.verify {
		m["verified_bytes"], m["verified"] = x.verified, x.mismatch == nil
	}
	if x.mismatch != nil {
		m["first_mismatch"] = x.mismatch.Error()
	}
	prefix := r.prefix()
	if prefix != "" {
		prefix += "_"
	}
	for _, c := range columns {
		m[prefix+c.name] = x.median(c.pick)
	}
	var each []float64
	for _, f := range x.runs {
		each = append(each, f.iops)
	}
	m[prefix+"iops_of_runs"] = each
	return m
}

// table writes the rows for people.
func (r *benchReport) table(out io.Writer) error {
	w := bufio.NewWriter(out)
	b := r.b
	for _, d := range r.drives {
		_, _ = fmt.Fprintln(w, d) // Flush reports errors
	}
	_, _ = fmt.Fprintf(w, "the first %s of each drive, medians of %s of %s, seed %d\n", units.FormatBytes(b.area), plural(uint64(b.f.runs), "run"), b.bound(), b.f.seed)
	if r.model != "" {
		_, _ = fmt.Fprintf(w, "figures are modelled by %s, not measured on such drives\n", r.model)
	}
	_, _ = fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	r.head(t)
	for i := range b.rows {
		r.line(t, &b.rows[i])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	r.foot(w)
	return w.Flush()
}

// bound says how a run ends.
func (b *bench) bound() string {
	s := fmt.Sprintf("%g s", b.length.Seconds())
	if b.ios > 0 {
		s = plural(b.ios, "I/O") + " or " + s
	}
	return s
}

func (r *benchReport) head(t io.Writer) {
	if p := r.prefix(); p != "" {
		_, _ = fmt.Fprintln(t, "\t\t\t\t"+strings.Repeat(p+"\t", len(columns)))
	}
	var names []string
	for _, c := range columns {
		names = append(names, c.head)
	}
	_, _ = fmt.Fprintln(t, "workload\tsize\tdepth\tqueues\t"+strings.Join(names, "\t")+"\t")
}

func (r *benchReport) line(t io.Writer, x *row) {
	var cells []string
	for _, c := range columns {
		cells = append(cells, c.text(x.median(c.pick)))
	}
	_, _ = fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t\n", x.cell.work.name, units.ExactBytes(uint64(x.cell.size)), x.cell.depth, x.cell.queues, strings.Join(cells, "\t"))
}

// foot says what else happened.
func (r *benchReport) foot(w io.Writer) {
	b := r.b
	var verified uint64
	wrong := 0
	for i := range b.rows {
		x := &b.rows[i]
		verified += x.verified
		if x.mismatch != nil {
			wrong++
		}
	}
	if b.f.verify {
		switch compared := units.FormatCount(verified) + " bytes compared"; {
		case wrong > 0:
			_, _ = fmt.Fprintf(w, "\nverified: %s, WRONG in %d of %s\n", compared, wrong, plural(uint64(len(b.rows)), "row"))
		case verified == 0:
			_, _ = fmt.Fprintln(w, "\nverified: NOTHING: no byte was read and compared")
		default:
			_, _ = fmt.Fprintf(w, "\nverified: %s, all as written\n", compared)
		}
	}
	if b.faults != nil {
		_, _ = fmt.Fprintf(w, "\nfaults injected: %s; errors seen: %s; queue resets: %d\n", counts(b.faults.fired()), counts(b.seen), b.resets)
		_, _ = fmt.Fprintln(w, "time-outs count in the percentiles and not in IOPS; other errors count in neither")
	}
	if r.interrupted {
		_, _ = fmt.Fprintf(w, "\ninterrupted: %d of %s are known\n", len(b.rows), plural(uint64(len(b.cells)), "row"))
	}
}

// counts writes a map in the order of its keys.
func counts(m map[string]uint64) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %s", units.FormatCount(m[k]), k))
	}
	return orNone(strings.Join(parts, ", "))
}
