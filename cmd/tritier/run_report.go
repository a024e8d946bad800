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

	lib "github.com/tritier/tritier"
	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/tier"
)

// runColumn is a figure of a run, with its names in the table and in JSON.
type runColumn struct {
	head, name string
	pick       func(x *runOnce) float64
	text       func(v float64) string
	timed      bool // a time: modelled when a model paces, and its spread is told
}

func countText(v float64) string { return units.FormatCount(uint64(v)) }
func bytesText(v float64) string { return units.FormatBytes(uint64(v)) }
func timeText(v float64) string {
	return units.FormatDuration(time.Duration(v * float64(time.Second)))
}
func cpuSeconds(v float64) string { return fmt.Sprintf("%.2f", v) }

// counter is a column of a counter during the run.
func counter(head, name string, pick func(*tier.Counters) uint64) runColumn {
	return runColumn{head, name, func(x *runOnce) float64 { return float64(x.during(pick)) }, countText, false}
}

// traffic is a column of the bytes that passed an edge during the run.
func traffic(head, name, edge string) runColumn {
	return runColumn{head, name, func(x *runOnce) float64 { _, n := x.edge(edge); return float64(n) }, bytesText, false}
}

// kernelColumn is there when the program ran as kernels.
var kernelColumn = runColumn{"kernel time", "kernel_seconds", func(x *runOnce) float64 { return x.span.Seconds() }, timeText, true}

// columns are those that the runs have.
func (r *runner) columns() []runColumn {
	if r.rows[0].runs[0].form != programKernel {
		return runColumns
	}
	return slices.Insert(slices.Clone(runColumns), 1, kernelColumn)
}

var runColumns = []runColumn{
	{"run time", "run_seconds", func(x *runOnce) float64 { return x.took.Seconds() }, timeText, true},
	counter("accesses", "accesses", func(c *tier.Counters) uint64 { return c.Accesses }),
	counter("T1 hits", "t1_hits", func(c *tier.Counters) uint64 { return c.T1Hits }),
	counter("T2 hits", "t2_hits", func(c *tier.Counters) uint64 { return c.T2Hits }),
	counter("T3 fetches", "t3_fetches", func(c *tier.Counters) uint64 { return c.T3Fetches }),
	counter("overwrites", "overwrites", func(c *tier.Counters) uint64 { return c.Overwrites }),
	traffic("SSD read", "ssd_read_bytes", "t3-t2"),
	traffic("SSD written", "ssd_written_bytes", "t2-t3"),
	{"flushed", "flushed_bytes", func(x *runOnce) float64 { return float64(x.end.Flushed-x.after.Flushed) * float64(x.about.PageSize) }, bytesText, false},
	{"CPU s", "cpu_seconds", func(x *runOnce) float64 { return x.cpu.Seconds() }, cpuSeconds, false},
	{"drives' CPU s", "service_cpu_seconds", func(x *runOnce) float64 { return x.service.Seconds() }, cpuSeconds, false},
}

// serviceCPUColumn is left out where nobody knows it.
const serviceCPUColumn = "service_cpu_seconds"

// figures are a column's values over the runs, in order.
func (x *runRow) figures(c runColumn) []float64 {
	v := make([]float64, len(x.runs))
	for i, one := range x.runs {
		v[i] = c.pick(one)
	}
	slices.Sort(v)
	return v
}

// middle is the median.
func middle(sorted []float64) float64 { return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2 }

// known says whether a column has a meaning.
func (x *runRow) known(c runColumn) bool { return c.name != serviceCPUColumn || x.runs[0].serviceSaid }

// modelled is the model that paced the runs, or "".
func (r *runner) modelled() string { return r.rows[0].runs[0].about.Modelled }

// text writes the report for people.
func (r *runner) text(out io.Writer) error {
	w := bufio.NewWriter(out)
	r.head(w)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	r.table(t)
	if err := t.Flush(); err != nil {
		return err
	}
	r.foot(w)
	return w.Flush()
}

// head says what ran, and on what.
func (r *runner) head(w io.Writer) {
	one := r.rows[0].runs[0]
	d := one.about
	_, _ = fmt.Fprintf(w, "%s: %s\n", r.name, one.what) // Flush reports errors
	_, _ = fmt.Fprintf(w, "arrays of %s, seed %d, %s\n", units.FormatBytes(one.bytes), r.f.seed, plural(uint64(r.f.repeat), "run")+" of each policy, counts and times without filling and flushing")
	tier := func(name string, pages int, bytes fmt.Stringer, where, why string) {
		if why != "" {
			why = " (" + why + ")"
		}
		_, _ = fmt.Fprintf(w, "%s  %s, %s of %v, %s%s\n", name, bytes, plural(uint64(pages), "page"), d.PageSize, where, why)
	}
	tier("T1", d.T1.Pages, d.T1.Bytes, d.T1.Where, d.T1.Why)
	if d.T2.Pages > 0 {
		tier("T2", d.T2.Pages, d.T2.Bytes, d.T2.Where, "")
	} else {
		_, _ = fmt.Fprintln(w, "T2  none")
	}
	for _, x := range d.Drives {
		_, _ = fmt.Fprintf(w, "T3  %s, %s\n", x.Name, x.Path)
	}
	_, _ = fmt.Fprintf(w, "%s\n%s\n", d.Engine, one.formText())
	if d.Moves != nil {
		_, _ = fmt.Fprintln(w, d.Moves)
	}
	if d.Modelled != "" {
		_, _ = fmt.Fprintf(w, "times are modelled by %s, not measured on such drives\n", d.Modelled)
	}
	_, _ = fmt.Fprintln(w)
}

// table writes a row for each policy.
func (r *runner) table(t io.Writer) {
	names := []string{"policy"}
	for _, c := range r.columns() {
		head := c.head
		if c.timed && r.modelled() != "" {
			head = "modelled " + head
		}
		names = append(names, head)
	}
	simulated := r.rows[0].runs[0].simulated != nil
	if simulated {
		names = append(names, "SSD reads in all", "simulated")
	}
	_, _ = fmt.Fprintln(t, strings.Join(append(names, "result"), "\t")+"\t")
	for i := range r.rows {
		x := &r.rows[i]
		cells := []string{x.policy.label}
		for _, c := range r.columns() {
			if !x.known(c) {
				cells = append(cells, "-")
				continue
			}
			v := x.figures(c)
			text := c.text(middle(v))
			if c.timed && len(v) > 1 {
				text += fmt.Sprintf(" (%s to %s)", c.text(v[0]), c.text(v[len(v)-1]))
			}
			cells = append(cells, text)
		}
		if one := x.runs[0]; simulated {
			cells = append(cells, countText(float64(one.after.Counters.SSDReads())), countText(float64(one.simulated.SSDReads())))
		}
		_, _ = fmt.Fprintln(t, strings.Join(append(cells, x.result(r.f.verify)), "\t")+"\t")
	}
}

// result says what became of the verification.
func (x *runRow) result(asked bool) string {
	switch {
	case x.failed:
		return "FAILED"
	case !asked:
		return "not verified"
	}
	for _, one := range x.runs {
		if !one.verified {
			return "FAILED"
		}
	}
	return "verified"
}

// foot says which way bytes went, and what else is worth knowing.
func (r *runner) foot(w io.Writer) {
	_, _ = fmt.Fprintln(w, "\nhow bytes moved, filling and flushing included")
	for _, x := range r.rows {
		for _, line := range x.runs[0].paths() {
			_, _ = fmt.Fprintf(w, "  %s: %s\n", x.policy.label, line)
		}
		if s := &x.runs[0].end; s.MovesCPU > 0 {
			_, _ = fmt.Fprintf(w, "  %s: copies on request of kernels took %.2f s of CPU time\n", x.policy.label, s.MovesCPU.Seconds())
			if s.MovesError != nil {
				_, _ = fmt.Fprintf(w, "  %s: not all of them could be made: %v\n", x.policy.label, s.MovesError)
			}
		}
	}
	for _, x := range r.rows {
		if full := x.runs[0].about.Policy; full != x.policy.label {
			_, _ = fmt.Fprintf(w, "%s is %s\n", x.policy.label, full)
		}
		for _, c := range runColumns[1:6] {
			if v := x.figures(c); v[0] != v[len(v)-1] {
				_, _ = fmt.Fprintf(w, "note: %s of %s differ from run to run, %s to %s\n", c.head, x.policy.label, c.text(v[0]), c.text(v[len(v)-1]))
			}
		}
		r.recorded(w, &x)
		if one := x.runs[0]; one.timelineLacks != "" {
			_, _ = fmt.Fprintf(w, "the timeline is not complete: %s\n", one.timelineLacks)
		}
	}
	if r.interrupted {
		_, _ = fmt.Fprintln(w, "ended early: figures are those of the runs that ended")
	}
}

// asSimulated says whether the simulator counts the same. With kernels that decide,
// nobody counts what is dirty meanwhile, and delays are a matter of time.
func (x *runOnce) asSimulated(warps bool) bool {
	live, sim := x.after.Counters, *x.simulated
	if warps {
		live.FinalDirty, sim.FinalDirty, live.Delayed, sim.Delayed = 0, 0, 0, 0
	}
	return live == sim
}

// recorded says what was recorded of a policy's first run.
func (r *runner) recorded(w io.Writer, x *runRow) {
	one := x.runs[0]
	if r.f.record == "" {
		return
	}
	_, _ = fmt.Fprintf(w, "recorded %s accesses of %s", units.FormatCount(one.records), x.policy.label)
	if one.lost > 0 {
		_, _ = fmt.Fprintf(w, ", %s MISSING: the recording was too slow for them", units.FormatCount(one.lost))
	}
	if one.simulated != nil {
		_, _ = fmt.Fprintf(w, "; replayed by the simulator, %s", one.parity(r.f.engine == lib.EngineGPU))
	}
	if live := float64(one.after.Counters.SSDReads()); one.sample > 1 && live > 0 {
		_, _ = fmt.Fprintf(w, " to 1 in %d pages; by a simulation of them, SSD reads are %+.1f %%", one.sample, 100*(float64(one.estimate)/live-1))
	}
	_, _ = fmt.Fprintln(w)
}

// parity compares the simulator's counts with the live ones. Where many warps make
// accesses at once they need not be equal.
func (x *runOnce) parity(warps bool) string {
	if x.asSimulated(warps) {
		return "every count is the same"
	}
	if live, sim := x.after.Counters.SSDReads(), x.simulated.SSDReads(); warps && live > 0 {
		return fmt.Sprintf("SSD reads are %+.1f %%", 100*(float64(sim)/float64(live)-1))
	}
	return fmt.Sprintf("COUNTS DIFFER: live %+v, simulated %+v", x.after.Counters, *x.simulated)
}

// paths lists what moved between neighbours, by the way it took.
func (x *runOnce) paths() []string {
	var list []string
	drives := map[string]bool{}
	for _, d := range x.about.Drives {
		drives[d.Path] = true
	}
	way := strings.Join(slices.Sorted(maps.Keys(drives)), " and ")
	for i, name := range []string{"T3 to host memory", "host memory to T3"} {
		if e := x.end.Edges[i]; e.Bytes > 0 {
			list = append(list, fmt.Sprintf("%s  %s  %s", name, units.FormatBytes(e.Bytes), way))
		}
	}
	for _, d := range []struct {
		name string
		by   map[copyeng.Path]copyeng.PathStats
	}{{"T1 to host memory", x.end.Copies.ToHost}, {"host memory to T1", x.end.Copies.ToDevice}} {
		for _, p := range slices.Sorted(maps.Keys(d.by)) {
			if s := d.by[p]; s.Bytes > 0 {
				list = append(list, fmt.Sprintf("%s  %s  %s", d.name, units.FormatBytes(uint64(s.Bytes)), p))
			}
		}
	}
	return list
}
