package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	lib "github.com/tritier/tritier"
	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/metrics"
	"github.com/tritier/tritier/workload"
)

// runFlags are the flags of tritier run.
type runFlags struct {
	size        units.Bytes
	scale       int
	iterations  int
	batch       int
	prefetch    bool
	policies    []string
	t1, t2      string
	page        units.Bytes
	store       string
	checksums   bool
	model       string
	engine      string
	program     string
	gpu         string
	threads     int
	moves       string
	seed        uint64
	repeat      int
	verify      bool
	keep        bool
	replace     bool
	record      string
	sample      int
	traceOut    string
	traceSample int
	metrics     string
	json        bool

	given func(name string) bool // whether a flag was on the command line
}

func newRunCommand() *cobra.Command {
	f := &runFlags{}
	c := &cobra.Command{
		Use:   "run WORKLOAD",
		Short: "Run a program over arrays larger than GPU memory, and count what the tiers did",
		Long: `Run a workload whose arrays live in three tiers, T1 (GPU memory, or ordinary memory on a machine
without a GPU), T2 (host memory) and T3 (the store), and report times, hits, traffic and CPU
time of each policy, a row each. What it computed is compared with a reference result that is
computed in ordinary memory, bit by bit; a difference ends with status 1.

Workloads:
` + workloadHelp() + `
Each program has two forms (--program). As kernels, with --engine gpu, it is a CUDA program whose
kernels use the arrays themselves; "kernel time" is what the GPU's own events say. As batches, with
either engine, the page traffic is that of the GPU programs: launches, wave fronts, stencils and
frontiers are the originals', and a batch is what the resident threads of a GPU touch at a time
(--batch); but the arithmetic runs on the CPU, so that times are those of moving data and of the CPU.

Sizes. --size is what all arrays take together. T1 and T2 are by default a tenth and four tenths of
that, the proportions of the GMT paper. Counts, times, SSD bytes and CPU seconds are those of the
run alone: filling the arrays comes before, writing back what is dirty after it ("flush").
--json says where the rest of the first run's time went: setup, flush, verify (the reference, which
is computed once, included) and other seconds, which are for opening, closing and
simulating what was recorded above all.
CPU seconds are those of the whole process, and of the threads that serve software drives.

--record writes every page access, of filling and of the run, for tritier replay. The simulator
then runs over it with the same sizes, policy and seed, and its count of SSD fetches stands beside
the live one. With --engine gpu, where many warps make accesses at once, the trace has each warp's
in its order, and the simulator's counts differ by a little; accesses that the recording was too slow
for are counted, and the trace's source says how many are missing. --trace-out writes a timeline for Perfetto (ui.perfetto.dev) or chrome://tracing:
kernel launches, misses, reads, writes and copies. With --engine gpu these are single ones, each miss
in a row of its multiprocessor with its read or copy in, and those of its victims out, which a read
may have begun before and lasts until after, and the counts
of each tier come after every launch; --trace-sample draws one in so many misses, which a long run
needs, since a timeline has at most ` + units.FormatCount(mostMoves) + ` events: what it lacks is counted, in the report and
in the file ("otherData"). Kernels do not wait for it, and their clock is compared with the host's:
"clock_off_ns" says by how much times may be off. --model paces the store's drives as a preset of
others; every time is then labelled "modelled".

The store is made when it holds nothing; by default it is memory (mem:). The arrays are dropped from
it after each run, also on Ctrl-C, unless --keep is given.`,
		Example: `  tritier run pathfinder
  tritier run multi-vector-add --size 256MiB --policy 'bypass,tier-order,random{},gmt-reuse'
  tritier run bfs --scale 18 --t1 4MiB --t2 16MiB --repeat 3
  tritier run pagerank --size 128MiB --record pagerank.ttrc --trace-out pagerank.json
  tritier run hotspot --size 1GiB --store 'file:/data/a?size=2GiB,file:/data/b?size=2GiB'
  tritier run embedding-gather --size 512MiB --model 4x980pro --threads 2 --json
  tritier run bfs --size 20GiB --engine gpu --t1 2GiB --t2 8GiB --policy 'bypass{t1=clock},gmt-reuse'
  tritier run hotspot --engine gpu --program batch`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("run takes one workload, not %d; valid are %s", len(args), strings.Join(workload.Names(), ", "))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	f.register(c)
	return c
}

// workloadHelp lists the workloads for the help text.
func workloadHelp() string {
	var b strings.Builder
	for _, k := range workload.Kinds() {
		fmt.Fprintf(&b, "  %s (iteration: %s)\n", k.Name, k.Unit)
		for _, line := range folded(k.Doc, 92) {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	return b.String()
}

// prefetchers are the workloads that know their next batch.
func prefetchers() (names []string) {
	for _, k := range workload.Kinds() {
		if k.Prefetches {
			names = append(names, k.Name)
		}
	}
	return names
}

// folded breaks a text into lines of at most width bytes, at spaces.
func folded(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

func (f *runFlags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.SortFlags = false // in groups: the program, the tiers, the store, how often, output
	fs.Var(&f.size, "size", "size of all arrays together (default: 64MiB, unless --scale is given)")
	fs.IntVar(&f.scale, "scale", 0, "instead of --size: 2^`SCALE` elements in the largest array, or vertices")
	fs.IntVar(&f.iterations, "iterations", 0, "`COUNT` of iterations (default: the workload's)")
	fs.IntVar(&f.batch, "batch", workload.DefaultBatch, "`THREADS` that are resident at a time, an element each")
	fs.BoolVar(&f.prefetch, "prefetch", false, "bring the pages of the next batch into T1 before they are accessed ("+strings.Join(prefetchers(), ", ")+")")
	fs.StringArrayVar(&f.policies, "policy", nil, "`POLICY`, a placer or evictor as in tritier replay; a list, or repeated (default: gmt-reuse, without T2 bypass)")
	fs.StringVar(&f.t1, "t1", "", "`SIZE` of T1: bytes, or a share of the arrays such as 10% (default: 10%)")
	fs.StringVar(&f.t2, "t2", "", "`SIZE` of T2, likewise; 0 for none (default: four times T1)")
	fs.Var(&f.page, "page", "page size, a power of two from 4KiB to 2MiB (default: 64KiB)")
	fs.StringVar(&f.store, "store", "", "`DRIVES` of the store, a list of "+drive.Forms+" (default: mem:SIZE, large enough)")
	fs.BoolVar(&f.checksums, "checksums", false, "keep a checksum of every page, in a store that is made")
	fs.StringVar(&f.model, "model", "", "pace software drives as a preset's `NAME` ("+strings.Join(servicetime.Names(), ", ")+"), or a YAML file")
	fs.StringVar(&f.engine, "engine", lib.EngineHost, "`WHO` decides: host, the CPU, or gpu, kernels themselves (placers with t1=clock or fifo, t2=fifo)")
	fs.StringVar(&f.program, "program", "", "`FORM` of the program: kernel (with --engine gpu, its default) or batch")
	fs.StringVar(&f.gpu, "gpu", "auto", "which `GPU` has T1: auto, none, a number or a UUID")
	fs.StringVar(&f.moves, "moves", "", "`WHO` copies pages between T1 and T2 with --engine gpu: auto (as calibrated), kernel or copy-engine")
	fs.IntVar(&f.threads, "threads", 1, "service `THREADS` of each software drive")
	fs.Uint64Var(&f.seed, "seed", 1, "seed of the inputs and of every random choice")
	fs.IntVar(&f.repeat, "repeat", 1, "run everything so many `TIMES`; figures are medians")
	fs.BoolVar(&f.verify, "verify", true, "compare the result with the reference")
	fs.BoolVar(&f.keep, "keep", false, "leave the arrays in the store")
	fs.BoolVar(&f.replace, "replace", false, "drop arrays of the workload that the store has already")
	fs.StringVar(&f.record, "record", "", "write every page access to `FILE`, a trace (.ttrc) for tritier replay; with several policies, % in the name is the policy's number")
	fs.IntVar(&f.sample, "record-sample", 1, "record one in `N` pages, chosen by a hash: a trace for tiers of an N-th of the sizes")
	fs.StringVar(&f.traceOut, "trace-out", "", "write a timeline to `FILE` (.json) for Perfetto")
	fs.IntVar(&f.traceSample, "trace-sample", 1, "with --engine gpu, draw one in `N` misses, with what they move, in the timeline")
	fs.StringVar(&f.metrics, "metrics", "", "answer Prometheus at `ADDRESS`/metrics while a memory is open, such as "+metrics.DefaultAddress)
	fs.BoolVar(&f.json, "json", false, "write JSON instead of the table")
}

// run checks everything that can be wrong with the flags, runs all policies, and
// reports what is known, also when something ended it early.
func (f *runFlags) run(c *cobra.Command, name string) error {
	f.given = c.Flags().Changed
	set, err := f.settings(name)
	if err != nil {
		return err
	}
	out, err := openRunFiles(f, len(set.policies))
	if err != nil {
		return err
	}
	defer out.discard()
	r := &runner{runSettings: set, runFiles: out, stderr: c.ErrOrStderr()}
	runErr := r.all(c.Context())
	interrupted := runErr != nil && c.Context().Err() != nil
	if interrupted {
		r.interrupted = true
		runErr = errors.Join(&interruption{while: "while running " + name}, closing(runErr))
	}
	if len(r.rows) == 0 {
		return runErr
	}
	if runErr == nil {
		if err := r.finishFiles(); err != nil {
			return err
		}
	}
	write := r.text
	if f.json {
		write = r.writeJSON
	}
	if err := write(c.OutOrStdout()); err != nil {
		return fmt.Errorf("standard output: %w", firstOf(err))
	}
	return runErr
}

// closing keeps what went wrong beside the interruption itself.
func closing(err error) error {
	var flush *lib.FlushError
	var broken *lib.BrokenError
	if errors.As(err, &flush) || errors.As(err, &broken) {
		return err
	}
	return nil
}

// all runs every policy as often as asked for: all policies, then all again, so that
// what changes meanwhile on the machine concerns them all.
func (r *runner) all(ctx context.Context) error {
	r.rows = make([]runRow, len(r.policies))
	for i, p := range r.policies {
		r.rows[i].policy = p
	}
	defer r.dropEmpty()
	var failures []error
	for n := range r.f.repeat {
		for i := range r.rows {
			if err := ctx.Err(); err != nil {
				return errors.Join(append(failures, err)...)
			}
			x := &r.rows[i]
			if x.failed {
				continue
			}
			one, err := r.once(ctx, x.policy, n)
			if one != nil {
				x.runs = append(x.runs, one)
			}
			if err != nil {
				x.failed = ctx.Err() == nil // what ended early is no failure
				failures = append(failures, fmt.Errorf("policy %s: %w", x.policy.label, err))
			}
		}
	}
	return errors.Join(failures...)
}

// dropEmpty leaves out policies of which nothing is known.
func (r *runner) dropEmpty() {
	kept := r.rows[:0]
	for _, x := range r.rows {
		if len(x.runs) > 0 {
			kept = append(kept, x)
		}
	}
	r.rows = kept
}
