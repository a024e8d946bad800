package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/internal/units"
)

// benchCopyFlags are the flags of tritier bench copy.
type benchCopyFlags struct {
	gpu         string
	directions  []string
	pages       []string
	counts      []string
	paths       []string
	runs        int
	bytes       units.Bytes
	seed        uint64
	calibration string
	check       bool
	json        bool
	plot        string
}

func newBenchCopyCommand() *cobra.Command {
	f := &benchCopyFlags{bytes: 1 << 30}
	c := &cobra.Command{
		Use:   "copy",
		Short: "Measure copies of scattered pages between host and GPU memory, path by path",
		Long: `Measure copies of scattered pages between pinned host memory and GPU memory: every path by
itself, and the path that the chooser takes, beside large plain copies in the same run ("the
link"). Runs of the paths alternate, so that a disturbance hits all alike, on pages drawn anew
each time; the figures are medians. A time is from before the call until the host sees the
copies done. What each path copied is compared with what was sent, up to 64MiB of each batch
one way and 16MiB each way of an exchange; a difference ends the run.

` + gpuHelp + `

Paths: ` + pathNames() + `.
"chooser" is what programs get; "all" are all the others that this GPU and driver have. Small
batches are also timed beside the driver's own calls. Lists may hold ranges that double: 1..1024.

--check compares with the bars that tritier is held to, as far as the lists cover them, and
ends with status 1 if one is missed: chooser at most 1.10 times the best single path;
pages of 64KiB at least 0.88 of the link from 256 on and 0.92 from 1,024 on, both ways at
once 0.85 from 256 on; small batches at most 2 us above the driver's own calls. Ctrl-C ends
with what is known until then.`,
		Example: `  tritier bench copy
  tritier bench copy --gpu 0 --json
  tritier bench copy --plot copies.svg
  tritier bench copy --page 64KiB --pages 256,1024 --check
  tritier bench copy --direction to-host --page 512B..2MiB --pages 64 --paths chooser,zero-copy
  tritier bench copy --calibration h200.yaml --runs 31`,
		Args: noArguments("bench copy"),
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	fs := c.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.gpu, "gpu", "0", "which `GPU`: number, UUID or PCI address")
	fs.StringSliceVar(&f.directions, "direction", []string{"to-device", "to-host", "both"}, "`DIRECTIONS`, a list")
	fs.StringSliceVar(&f.pages, "page", []string{"4KiB", "16KiB", "64KiB", "256KiB"}, "page `SIZES`, a list with ranges")
	fs.StringSliceVar(&f.counts, "pages", []string{"1..1024"}, "pages in one batch (`COUNTS`, a list with ranges)")
	fs.StringSliceVar(&f.paths, "paths", []string{"chooser", "all"}, "`PATHS`, a list")
	fs.IntVar(&f.runs, "runs", 9, "runs of each path, of which the median counts; five times as many of at most 1MiB, up to 101")
	fs.Var(&f.bytes, "bytes", "pinned host memory, and as much device memory, to copy between")
	fs.Uint64Var(&f.seed, "seed", 1, "seed of the page numbers and of the data")
	fs.StringVar(&f.calibration, "calibration", "", "choose by this `FILE`, or by the built-in curves (\"builtin\"), instead of the GPU's own calibration")
	fs.BoolVar(&f.check, "check", false, "compare with the bars, and fail if one is missed")
	fs.BoolVar(&f.json, "json", false, "JSON instead of the table")
	fs.StringVar(&f.plot, "plot", "", "also draw the rates to `FILE` (.svg or .png)")
	return c
}

// copyBench is a checked command line at work.
type copyBench struct {
	*copySettings
	stderr io.Writer
	gpu    *copyeng.GPU
	bench  *copyeng.Bench
	report *copyReport
	done   atomic.Int64 // steps, for the progress bar
}

// run checks everything that can be wrong with the flags before the GPU is used.
func (f *benchCopyFlags) run(c *cobra.Command) (err error) {
	set, err := f.settings(c.Flags().Changed)
	if err != nil {
		return err
	}
	devices, err := namedGPUs("bench copy", f.gpu)
	if err != nil {
		return err
	}
	plot, err := openPlot(f.plot)
	if err != nil {
		return err
	}
	defer func() {
		if plot != nil {
			_ = plot.discard() // what failed before it is what the user hears of
		}
	}()
	b := &copyBench{copySettings: set, stderr: c.ErrOrStderr(), report: newCopyReport(set, devices[0])}
	benchErr := inContext(devices[0], func(x *cuda.Context) error { return b.open(c.Context(), x) })
	b.report.interrupted = benchErr != nil && c.Context().Err() != nil
	if b.report.interrupted {
		benchErr = context.Canceled // however the GPU's package words it
	}
	if benchErr != nil && len(b.report.rows) == 0 {
		return benchErr
	}
	b.report.failed = benchErr != nil
	if plot != nil && benchErr == nil {
		o := plot
		plot = nil
		if err := finish(o, func(w io.Writer) error { return b.report.draw(w, plotFormat(f.plot)) }); err != nil {
			return fmt.Errorf("--plot: %w", err)
		}
	}
	write := b.report.text
	if f.json {
		write = b.report.json
	}
	if err := write(c.OutOrStdout()); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	if benchErr == nil && f.check {
		benchErr = verdictOf(b.report.bars())
	}
	return benchErr
}

// open makes engine and bench, and measures.
func (b *copyBench) open(ctx context.Context, c *cuda.Context) (err error) {
	opts := copyeng.GPUOptions{Calibration: b.cal}
	if b.gpu, err = copyeng.OpenGPU(c, opts); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.gpu.Close()) }()
	b.report.source = b.calSource
	if b.cal == nil {
		b.report.source = b.gpu.Source()
	}
	if err := b.checkPaths(b.gpu.Paths()); err != nil {
		return err
	}
	if b.bench, err = copyeng.NewBench(ctx, b.gpu, uint64(b.f.bytes), b.f.seed); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.bench.Close()) }()
	begun := time.Now()
	err = b.measure(ctx)
	b.report.took = time.Since(begun)
	return err
}

// measure fills the report. What is known stays there when it ends early.
func (b *copyBench) measure(ctx context.Context) (err error) {
	cells := b.cells()
	total := int64(len(cells) + 1 + len(b.smallCells()))
	defer startProgress(b.stderr, "measuring", func() (int64, int64) { return b.done.Load(), total })()
	if b.report.link, err = b.bench.Link(ctx, b.f.runs); err != nil {
		return err
	}
	b.report.pcie = pcieLink(ctx, b.report.dev.PCIAddress()) // while the link is awake
	b.done.Add(1)
	for _, x := range b.smallCells() {
		list, err := b.bench.Small(ctx, x.direction.oneWay(), x.page, max(b.f.runs, smallRuns))
		if err != nil {
			return err
		}
		b.report.small = append(b.report.small, list...)
		b.done.Add(1)
	}
	for _, x := range cells {
		row, err := b.cell(ctx, x)
		if err != nil {
			return err
		}
		b.report.rows = append(b.report.rows, row)
		b.done.Add(1)
	}
	return nil
}

// smallRuns is the least number of runs of a small batch: they are short, and
// microseconds are what is looked for.
const smallRuns = 101

// smallCells are the directions and page sizes that small batches are measured
// with: those one way that the lists name.
func (b *copyBench) smallCells() (list []copyCell) {
	if !b.chooser {
		return nil
	}
	for _, p := range b.pages {
		for _, d := range b.directions {
			if d != copyBoth && p <= 64<<10 {
				list = append(list, copyCell{direction: d, page: p})
			}
		}
	}
	return list
}

// runsOf is how often a cell's paths run. Small batches differ by a fifth from themselves, and
// the least of seven medians is less than any of them is.
func (b *copyBench) runsOf(x copyCell) int {
	if x.page*x.pages <= 1<<20 {
		return max(b.f.runs, min(5*b.f.runs, smallRuns))
	}
	return b.f.runs
}

// cell measures one row.
func (b *copyBench) cell(ctx context.Context, x copyCell) (copyRow, error) {
	row := copyRow{copyCell: x}
	paths := b.pathsFor(x.direction)
	if b.chooser {
		paths = append([]copyeng.Path{""}, paths...)
	}
	var samples []copyeng.Sample
	var err error
	runs := b.runsOf(x)
	if x.direction == copyBoth {
		if err = b.bench.VerifyExchange(ctx, x.page, x.pages, paths); err == nil {
			samples, err = b.bench.Exchange(ctx, x.page, x.pages, paths, runs)
		}
	} else {
		samples, err = b.bench.Cell(ctx, x.direction.oneWay(), x.page, x.pages, paths, runs)
	}
	if err != nil {
		return row, err
	}
	for i := range samples {
		t := timingOf(&samples[i])
		if b.chooser && i == 0 {
			row.chooser = &t
		} else {
			row.paths = append(row.paths, t)
		}
	}
	return row, nil
}
