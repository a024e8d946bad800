package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/libnvm/drive"
)

// benchIOFlags are the flags of tritier bench io.
type benchIOFlags struct {
	initiators []string
	ops        []string
	reads      int
	patterns   []string
	sizes      []string
	warps      []string
	threads    []string
	block      int
	lanes      int
	queues     []string
	depth      int
	service    []string
	area       units.Bytes
	runs       int
	seconds    float64
	ios        string
	seed       uint64
	gpu        string
	write      bool
	drive      driveFlags
	timeout    time.Duration
	model      string
	faults     string
	keep       bool
	dump       string
	json       bool
	plot       string
}

func newBenchIOCommand() *cobra.Command {
	f := &benchIOFlags{}
	c := &cobra.Command{
		Use:   "io DRIVE[,DRIVE...]",
		Short: "Measure I/O that GPU threads submit themselves, beside I/O that the CPU submits",
		Long: `Measure NVMe I/O whose commands GPU threads write, ring and poll themselves (--initiator gpu),
and the same I/O submitted by CPU threads (--initiator cpu), over all combinations of the
lists. Every combination runs --runs times; the figures are the medians of the runs. Lists may
hold ranges that double: 512B..1MiB. Several drives are measured together.

` + driveHelp + `

` + gpuHelp + `

What counts. Every I/O is a command that a drive has completed: there is no cache here, so that
a hit can never be counted. Every byte is verified: drives are first filled with contents that
follow from drive, block number and seed, and GPU threads compare all that they read, once they have
pulled it into GPU memory. What they write is new in each run, and read back afterwards by the
same sequence of blocks. Mixed loads put back what was there, and the area is read when they are
done, as it is after writes of the CPU. A wrong byte ends with status 1.

So what exists must be overwritten: that takes --write, and the part that is used (--area, from
its start) is lost. A drive with a file system, a partition table or a tritier volume is refused
even so, without --force. mem: drives, and files that ?size= creates, need no permission. Such a file
is removed in the end, also on Ctrl-C, unless --keep is given; one that was there before stays.

GPU threads are 32 a warp. A warp has --lanes commands in flight, submitted together, and goes on
when all are done: its latency is from before the submission to the last completion, in steps of
9 %. --warps 1 --lanes 1 is the unloaded latency; the report has the round trip of a mailbox
between GPU and CPU beside it. CPU seconds are those of the threads that serve software drives
("service"), and all others of the process. Doorbells are writes of submission doorbells. Errors
are counted by status. --model slows software drives down to those of a preset; every figure is
then labelled "modelled".

A drive that fails and I/O that stalls end with status 1 and the rows known until then, Ctrl-C
with those rows; --dump keeps the state of all queues of both sides.

` + faultsHelp,
		Example: `  tritier bench io mem:1GiB
  tritier bench io mem:8GiB --warps 1..128 --size 512B,4KiB,64KiB --service-threads 8 --plot io.svg
  tritier bench io mem:1GiB --warps 1 --lanes 1 --size 4KiB
  tritier bench io mem:1GiB,1GiB --initiator gpu,cpu --op read,write,mixed --reads 70 --json
  tritier bench io 'file:/data/new?size=8GiB' --initiator cpu --pattern sequential --size 4KiB..1MiB
  tritier bench io nvme:0000:01:00.0 --bind --write --area 16GiB
  tritier bench io mem:4GiB --model 4x980pro --size 4KiB --threads 2048
  tritier bench io mem:64MiB --faults error=0.001,delay:2ms=0.01 --op read,write`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("bench io takes one drive, or several separated by commas, not %d names; a drive is %s", len(args), drive.Forms)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	f.register(c)
	return c
}

func (f *benchIOFlags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.SortFlags = false // in groups: what, how, how long, output
	fs.StringSliceVar(&f.initiators, "initiator", nil, "`WHO` submits: gpu, cpu, a list (default: gpu where there is one, else cpu)")
	fs.StringSliceVar(&f.ops, "op", []string{opRead}, "`OPERATIONS`, a list of read, write, mixed")
	fs.IntVar(&f.reads, "reads", 70, "`PERCENT` of reads in mixed loads")
	fs.StringSliceVar(&f.patterns, "pattern", []string{patternRandom}, "`PATTERNS`, a list of random, sequential")
	fs.StringSliceVar(&f.sizes, "size", []string{"512B", "4KiB", "64KiB"}, "`SIZES` of one I/O, powers of two from 512B to 1MiB, a list with ranges")
	fs.StringSliceVar(&f.warps, "warps", []string{"8", "32", "128"}, "warps of the GPU, 32 threads each (`COUNTS`, a list with ranges)")
	fs.StringSliceVar(&f.threads, "threads", nil, "the same as GPU threads (`COUNTS`, multiples of 32)")
	fs.IntVar(&f.block, "block", 8, "`WARPS` in a thread block, which one SM runs")
	fs.IntVar(&f.lanes, "lanes", 0, "I/Os of a warp at once, 1 to 32 (default: 32, or as many as keep the payload below 256MiB)")
	fs.StringSliceVar(&f.queues, "queues", nil, "queue pairs of each drive; the CPU has a thread for each (`COUNTS`, a list with ranges; default: 128 in all for the GPU, 1 for the CPU)")
	fs.IntVar(&f.depth, "depth", 64, "`ENTRIES` of a queue; one less are in flight")
	fs.StringSliceVar(&f.service, "service-threads", []string{"1"}, "threads that serve each software drive (`COUNTS`, a list with ranges)")
	fs.Var(&f.area, "area", "use so much of each drive, from its start (default: all, at most 1GiB)")
	fs.BoolVar(&f.write, "write", false, "DESTRUCTIVE: allow overwriting files and drives that exist")
	fs.BoolVar(&f.keep, "keep", false, "leave a file that ?size= has made")
	f.drive.register(fs)
	fs.IntVar(&f.runs, "runs", 5, "runs of each combination, of which the median counts")
	fs.Float64Var(&f.seconds, "seconds", 0.5, "length of one run, about")
	fs.StringVar(&f.ios, "ios", "", "end a run after so many I/Os instead, failed ones too (`COUNT`, such as 1M)")
	fs.Uint64Var(&f.seed, "seed", 1, "seed of every random choice, and of the contents")
	fs.StringVar(&f.gpu, "gpu", "0", "which `GPU`: number, UUID or PCI address")
	fs.DurationVar(&f.timeout, "timeout", 5*time.Second, "deadline of one I/O")
	fs.StringVar(&f.model, "model", "", "pace software drives by a preset's `NAME` or a YAML file")
	fs.StringVar(&f.faults, "faults", "", "let software drives misbehave: `PLAN`, a list of KIND=PROBABILITY; kinds are "+faultNames())
	fs.StringVar(&f.dump, "dump", "", "when I/O stalls or a drive fails, write the queues' state to `FILE` (- is standard error)")
	fs.BoolVar(&f.json, "json", false, "JSON instead of the table")
	fs.StringVar(&f.plot, "plot", "", "also draw the rates over GPU threads to `FILE` (.svg or .png)")
}

// run checks everything that can be wrong with the flags before a GPU or a
// drive is used.
func (f *benchIOFlags) run(c *cobra.Command, list string) (err error) {
	set, err := f.settings(c, list)
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
	dump, err := openDump(f.dump, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dump.close()) }()
	b := &ioBench{ioSettings: set, stderr: c.ErrOrStderr(), dump: dump, report: newIOReport(set)}
	benchErr := b.measure(c.Context())
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
	return errors.Join(benchErr, b.report.verdict())
}
