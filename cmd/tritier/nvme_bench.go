package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/drive"
)

// benchFlags are the flags of tritier nvme bench.
type benchFlags struct {
	drive     driveFlags
	workloads []string
	sizes     []string
	depths    []string
	queues    []string
	reads     int
	seconds   float64
	warmup    float64
	ios       string
	runs      int
	area      units.Bytes
	threads   int
	batch     int
	seed      uint64
	timeout   time.Duration
	verify    bool
	keep      bool
	write     bool
	model     string
	faults    string
	json      bool
}

func newNVMeBenchCommand() *cobra.Command {
	f := &benchFlags{}
	c := &cobra.Command{
		Use:   "bench DRIVE[,DRIVE...]",
		Short: "Measure drives: IOPS, bandwidth, latency, doorbell writes, CPU time",
		Long: `Measure drives over all combinations of workload, I/O size, depth and queues. Every
combination runs --runs times; the figures are the medians of the runs. Lists may hold
ranges that double: 512B..1MiB. Several drives are measured together.

Workloads: ` + workloadNames() + `.

` + driveHelp + `

What exists is only read, unless --write allows overwriting it; then the part of it that is
used (--area, from its start) is lost. A drive with a file system, a partition table or a
tritier volume is refused even so, without --force. mem: drives, and files that ?size= creates,
are filled before anything is measured, since reading nothing costs nothing. A file that was made
is removed in the end, also on Ctrl-C, unless --keep is given; one that was there before stays.

--verify first writes a pattern made of block number and seed, and then compares every byte
that is read. --model slows software drives down to those of a preset, striped; the figures
are then labelled "modelled". I/Os that time out count in the percentiles, with the time that
they took until then, but not in IOPS; those that end with an error count in neither. CPU seconds are those of the threads that drive the queues, and of
all others, which are mainly the threads that serve software drives. Ctrl-C ends with
what is known until then.

` + faultsHelp,
		Example: `  tritier nvme bench mem:1GiB
  tritier nvme bench mem:1GiB --workload randread --size 512B..1MiB --depth 1..256 --json
  tritier nvme bench file:/data/disk --size 4KiB --depth 32 --queues 1,4
  tritier nvme bench 'file:/data/new?size=8GiB' --workload randwrite,randread --verify
  tritier nvme bench nvme:0000:01:00.0 --bind --write --workload randmixed --reads 70
  tritier nvme bench mem:1GiB --model 4x980pro --size 4KiB --depth 512
  tritier nvme bench mem:64MiB --verify --faults error=0.001,delay:2ms=0.01,reorder=0.05`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("nvme bench takes one drive, or several separated by commas, not %d names; a drive is %s", len(args), drive.Forms)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	f.register(c)
	return c
}

func (f *benchFlags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.SortFlags = false // in groups: what, how long, how, output
	fs.StringSliceVar(&f.workloads, "workload", []string{"randread", "seqread"}, "`WORKLOADS`, a list")
	fs.StringSliceVar(&f.sizes, "size", []string{"4KiB", "64KiB"}, "`SIZES` of one I/O, a list with ranges")
	fs.StringSliceVar(&f.depths, "depth", []string{"1", "32"}, "I/Os in flight in each queue (`DEPTHS`, a list with ranges)")
	fs.StringSliceVar(&f.queues, "queues", []string{"1"}, "queue pairs of each drive, each with its own thread (`COUNTS`, a list with ranges)")
	fs.IntVar(&f.reads, "reads", 70, "`PERCENT` of reads in mixed workloads")
	fs.Float64Var(&f.seconds, "seconds", 1, "length of one run")
	fs.StringVar(&f.ios, "ios", "", "end a run after so many I/Os, failed ones too (`COUNT`, such as 1M); without --seconds it may take up to 10 minutes")
	fs.Float64Var(&f.warmup, "warmup", 0.2, "`SECONDS` of I/O before each run that do not count")
	fs.IntVar(&f.runs, "runs", 3, "runs of each combination")
	fs.Var(&f.area, "area", "use so much of each drive, from its start (default: all; 1GiB where it must be filled first)")
	fs.BoolVar(&f.verify, "verify", false, "fill the area with a pattern first, and compare every byte read")
	fs.BoolVar(&f.write, "write", false, "DESTRUCTIVE: allow overwriting files and drives that exist")
	fs.BoolVar(&f.keep, "keep", false, "leave a file that ?size= has made")
	f.drive.register(fs)
	fs.IntVar(&f.threads, "threads", 1, "service threads of each software drive")
	fs.IntVar(&f.batch, "batch", 0, "I/Os submitted with one doorbell write, at most (default: a quarter of the depth)")
	fs.DurationVar(&f.timeout, "timeout", 10*time.Second, "deadline of one I/O")
	fs.Uint64Var(&f.seed, "seed", 1, "seed of every random choice, and of the pattern")
	fs.StringVar(&f.model, "model", "", "pace software drives by a preset's `NAME` or a YAML file")
	fs.StringVar(&f.faults, "faults", "", "let software drives misbehave: `PLAN`, a list of KIND=PROBABILITY; kinds are "+faultNames())
	fs.BoolVar(&f.json, "json", false, "JSON instead of the table")
}

// run checks everything that can be wrong with the flags before a drive is opened.
func (f *benchFlags) run(c *cobra.Command, list string) (err error) {
	b, err := f.settings(c, list)
	if err != nil {
		return err
	}
	if err := b.open(c); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drive.CloseAll(b.drives)) }()
	discardUnless(f.keep, b.drives)
	benchErr := b.prepare(c.Context())
	if benchErr == nil {
		benchErr = b.sweep(c.Context())
	} else {
		discardUnless(false, b.drives) // a file half filled is of no use
	}
	benchErr = b.explain(benchErr)
	interrupted := benchErr != nil && errors.Is(benchErr, context.Canceled) && c.Context().Err() != nil
	if benchErr != nil && !interrupted && len(b.rows) == 0 {
		return benchErr
	}
	r := b.report(interrupted)
	write := r.table
	if f.json {
		write = r.json
	}
	if err := write(c.OutOrStdout()); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return errors.Join(benchErr, b.verdict(benchErr == nil))
}

// discardUnless has files removed that were made for a bench, when its drives are closed.
func discardUnless(keep bool, drives []*drive.Drive) {
	for _, d := range drives {
		if !keep {
			d.Discard()
		}
	}
}

// open opens the drives with the least access that the workloads need.
func (b *bench) open(c *cobra.Command) error {
	o, err := b.f.drive.options(b.stderr)
	if err != nil {
		return err
	}
	o.Threads, o.Model, o.Seed, o.Driver.IOTimeout = b.f.threads, b.model, b.f.seed, b.f.timeout
	if b.faults != nil {
		o.Faults = b.faults.plan
	}
	switch {
	case b.writes && b.f.write:
		o.Access = drive.ReadWrite
	case b.writes:
		o.Access = drive.FreshOnly
	}
	// Ctrl-C must not end the service threads: I/Os in flight are waited for.
	b.drives, err = drive.OpenList(context.WithoutCancel(c.Context()), b.list, o)
	var exists *drive.ExistsError
	if errors.As(err, &exists) {
		return fmt.Errorf("%w: add --write if what it holds may be lost", err)
	}
	var holds *drive.HoldsError
	if errors.As(err, &holds) {
		return notForced(holds)
	}
	return err
}

// explain adds what the host says to an error of a drive that is a file.
func (b *bench) explain(err error) error {
	var se *libnvm.StatusError
	if !errors.As(err, &se) {
		return err
	}
	for _, d := range b.drives {
		if host := d.HostError(); host != nil {
			return fmt.Errorf("%w; the host says: %w", err, host)
		}
	}
	return err
}

// verdict is the error that the rows add up to, and of a sweep that ended as it was
// to, failures other than those that were asked for.
func (b *bench) verdict(whole bool) error {
	for _, r := range b.rows {
		if r.mismatch != nil {
			return fmt.Errorf("verification failed: %w", r.mismatch)
		}
	}
	if whole && b.faults != nil {
		return b.faults.judge(b.seen, b.f.timeout, 0)
	}
	return nil
}

// loadModel finds the preset that paces the drives.
func (f *benchFlags) loadModel() (*servicetime.Model, error) {
	m, err := servicetime.Load(f.model)
	if err == nil {
		return m, nil
	}
	// A YAML error quotes the file, which may be no model at all: its first line
	// says where and what.
	text, _, quotes := strings.Cut(err.Error(), "\n")
	if len(text) > maxModelError {
		text, quotes = text[:maxModelError]+"...", true
	}
	if quotes {
		return nil, fmt.Errorf("--model: %s", text)
	}
	return nil, fmt.Errorf("--model: %w", err)
}

// maxModelError bounds the bytes of an error about a model file.
const maxModelError = 400
