package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim/trace"
)

// noModel is the value of --model that leaves modelled times out.
const noModel = "none"

// defaultModel is the preset of the modelled times when nobody says.
const defaultModel = "h200-4xgen5"

// replayFlags are the flags of tritier replay.
type replayFlags struct {
	trace    traceFlags
	sizes    sizeFlags
	policies []string
	model    string
	path     string // access path of the model, for timed replays
	inFlight int    // 0: no virtual time
	seed     uint64
	json     bool
	csv      bool
	html     string
	plot     string
	stream   bool
	workers  int
	noBound  bool
}

func newReplayCommand() *cobra.Command {
	f := &replayFlags{}
	c := &cobra.Command{
		Use:   "replay [TRACE...]",
		Short: "What would these tier sizes and policies have done with a trace?",
		Long: `Replay access traces through GPU memory (T1), host memory (T2) and SSD (T3) in virtual
time and count exactly what each policy would have done. Without a trace, one that is
part of the program is replayed: an hour of conversations with an LLM server.
"-" is standard input; format and compression are detected by content.

There is one result for each trace, policy and pair of tier sizes. A trace that cannot be replayed
is left out, named, and makes the status 1; the others are replayed. Sizes are bytes (16GiB),
frames, or a percentage of the trace's distinct pages (5%). Lists pair up in order:
--gpu-mem 1GiB,2GiB --host-mem 4GiB,8GiB are two pairs, and a single host size goes with
each GPU size. Without sizes T1 holds 5 % of the distinct pages; without a host size T2 is
four times T1. --host-mem 0 means no host tier.

Beside every policy stands Belady's bound: the fewest SSD reads that any policy could reach
with T1 + T2 frames. Times are modelled from a preset's figures, never measured.

The modelled time is a closed form: that of the busiest part, as if all overlapped. With
--in-flight N each access also goes through the model's machine in virtual time, so many of
them at once: how long they wait, for what, and what limits the run. Counts stay the same.
Models may have several access paths ("tritier model show NAME"): --path picks one.

In JSON and CSV, ssd_reads = t3_fetches (accesses that needed the SSD) + prefetch_reads, and is
what the bound bounds. trace.prefetches counts the trace's prefetch records, prefetches those
of them that moved a page to T1, and prefetch_reads those of these that read the SSD.

Evictors (which page leaves a tier): ` + names(placement.Evictors()) + `.
Placers (where T1's victims go): ` + names(placement.Placers()) + `.`,
		Example: `  tritier replay
  tritier replay --gpu-mem 5% --host-mem 20% --policy lru,gmt-reuse trace.ids.zst
  tritier replay --gpu-frames 1000,2000,4000 --host-frames 0 --policy 'lru,arc,s3-fifo' trace.lis
  tritier replay --policy 'gmt-reuse{t1=clock,t2=fifo}' --model a100-970evo --html report.html trace.csv
  tritier replay --model v100-4x980pro --path bam --in-flight 256 --policy gmt-reuse
  tritier replay --gpu-mem 5%,10%,20% --plot curves.svg --json`,
		RunE: func(c *cobra.Command, args []string) error { return replayMain(c, f, args) },
	}
	f.register(c)
	return c
}

// names lists policies for the help text.
func names(infos []placement.Info) string {
	out := make([]string, len(infos))
	for i, p := range infos {
		out[i] = p.Name
	}
	return strings.Join(out, ", ")
}

func (f *replayFlags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.SortFlags = false // in groups: sizes, policies, input, output
	fs.StringSliceVar(&f.sizes.gpuMem, "gpu-mem", nil, "GPU memory `SIZE`s: bytes such as 16GiB, or a share such as 5%; a list, or repeated")
	fs.StringSliceVar(&f.sizes.hostMem, "host-mem", nil, "host memory `SIZE`s, likewise; 0 means none (default: four times the GPU memory)")
	fs.StringSliceVar(&f.sizes.gpuFrames, "gpu-frames", nil, "GPU memory in `FRAMES` of one page, instead of --gpu-mem")
	fs.StringSliceVar(&f.sizes.hostFrames, "host-frames", nil, "host memory in `FRAMES` of one page, instead of --host-mem")
	fs.StringArrayVar(&f.policies, "policy", nil, "`POLICY`: an evictor E, or PLACER{t1=E,t2=E,key=value}; a list, or repeated (default: "+strings.Join(defaultPolicies, ", ")+")")
	fs.Uint64Var(&f.seed, "seed", 1, "seed of every random choice")
	fs.StringVar(&f.model, "model", defaultModel, "source of the modelled times: a preset's `NAME` ("+strings.Join(servicetime.Names(), ", ")+"), a YAML file, or none")
	fs.IntVar(&f.inFlight, "in-flight", 0, "also replay in virtual time, with `N` accesses under way at once (0: do not)")
	fs.StringVar(&f.path, "path", "", "access `PATH` of the model for --in-flight (default: the model's first choice)")
	fs.BoolVar(&f.noBound, "no-bound", false, "do not compute Belady's bound")
	f.trace.register(fs)
	f.trace.registerColumns(fs)
	fs.BoolVar(&f.stream, "stream", false, "read each trace once without keeping it (by itself when it may not fit in half of the memory available)")
	fs.IntVar(&f.workers, "workers", 0, "replay so many jobs at a time (default: as many as there are cores)")
	fs.BoolVar(&f.json, "json", false, "write JSON instead of the table")
	fs.BoolVar(&f.csv, "csv", false, "write CSV instead of the table")
	fs.StringVar(&f.html, "html", "", "also write a self-contained page with charts to `FILE`, which ends in .html or .htm")
	fs.StringVar(&f.plot, "plot", "", "also draw the chart to `FILE`, which ends in .svg or .png")
}

// replayMain runs the command: everything that can be wrong with the flags is
// found before a trace is read, and nothing is written before all is known.
func replayMain(c *cobra.Command, f *replayFlags, args []string) error {
	if err := refuseZero(c.Flags()); err != nil {
		return err
	}
	set, err := f.settings(args)
	if err != nil {
		return err
	}
	if err := set.refuseInputs(c.OutOrStdout(), c.InOrStdin()); err != nil {
		return err
	}
	out, err := openReplayOutput(f, c.OutOrStdout())
	if err != nil {
		return err
	}
	defer out.discard()
	r := &replayer{settings: set, stdin: c.InOrStdin(), stderr: c.ErrOrStderr(), noted: map[string]bool{}}
	runErr := r.all(c.Context())
	interrupted := runErr != nil && c.Context().Err() != nil && errors.Is(runErr, c.Context().Err())
	if runErr != nil && !interrupted && len(r.report.Results) == 0 {
		return runErr
	}
	r.report.Interrupted = interrupted
	// What is known is not lost to what went wrong afterwards.
	if len(r.report.Results) > 0 || f.json || f.csv {
		err = out.write(&r.report, runErr == nil)
	}
	if runErr != nil && (f.html != "" || f.plot != "") {
		r.say("no page or chart was written: results are missing")
	}
	return errors.Join(err, runErr)
}

// refuseInputs refuses outputs that are inputs, and outputs that are the same.
func (s *settings) refuseInputs(stdout io.Writer, stdin io.Reader) error {
	inputs := slices.Clone(s.paths)
	if s.model != nil {
		inputs = append(inputs, s.replayFlags.model) // a preset's name is mostly no file
	}
	for _, p := range s.policies {
		if file, found := strings.CutPrefix(p.label, "@"); found {
			inputs = append(inputs, file)
		}
	}
	for _, o := range []struct{ flag, path string }{{"--html ", s.html}, {"--plot ", s.plot}, {"", "-"}} {
		if o.path == "" {
			continue
		}
		if err := refuseInput(o.path, stdout, inputs, stdin); err != nil {
			return fmt.Errorf("%s%w", o.flag, err)
		}
	}
	return nil
}

// settings are checked flags.
type settings struct {
	*replayFlags
	paths     []string // empty: the bundled trace
	pairs     []sizePair
	policies  []namedPolicy
	byDefault bool         // nobody named policies
	sizedBy   bool         // sizes were given
	model     *modelSource // nil: no modelled times
}

func (f *replayFlags) settings(args []string) (settings, error) {
	s := settings{replayFlags: f, paths: args, byDefault: len(f.policies) == 0}
	if f.json && f.csv {
		return s, errors.New("--json and --csv both replace the table: give one of them")
	}
	if f.workers < 0 {
		return s, fmt.Errorf("--workers %d is negative", f.workers)
	}
	if err := f.checkInputs(args); err != nil {
		return s, err
	}
	sizes := f.sizes
	s.sizedBy = len(sizes.gpuMem)+len(sizes.gpuFrames)+len(sizes.hostMem)+len(sizes.hostFrames) > 0
	var err error
	if s.pairs, err = sizes.pairs(); err != nil {
		return s, err
	}
	if f.stream && needsPages(s.pairs) && slices.Contains(args, "-") {
		return s, errors.New("a stream on standard input does not know its distinct pages in advance: give sizes in bytes or frames")
	}
	names := f.policies
	if s.byDefault {
		names = defaultPolicies
	}
	if s.policies, err = readPolicies(names); err != nil {
		return s, err
	}
	if s.byDefault {
		s.markPlacers()
	}
	if f.model != noModel {
		if s.model, err = openModel(f.model); err != nil {
			return s, fmt.Errorf("--model: %w", err)
		}
	}
	return s, s.checkTiming()
}

// markPlacers tells default policies that are named like an evictor from it.
func (s *settings) markPlacers() {
	for i, p := range s.policies {
		if name, found := strings.CutSuffix(p.label, "{}"); found {
			s.policies[i].label = name + " (placer)"
		}
	}
}

// checkInputs refuses what could only be noticed after a long run.
func (f *replayFlags) checkInputs(paths []string) error {
	if len(paths) == 0 && (f.trace.format != "" || len(f.trace.columns) > 0) {
		return errors.New("--format and --csv-columns describe a trace: name one")
	}
	if o := f.trace.order; o != trace.Merged && o != trace.Concatenated {
		return fmt.Errorf("--order %q: orders are %s, %s", o, trace.Merged, trace.Concatenated)
	}
	stdin := 0
	for _, p := range paths {
		if p == "" {
			return errors.New("a trace has an empty name")
		}
		if p == "-" {
			stdin++
		}
	}
	if stdin > 1 {
		return errors.New("standard input (-) can be read only once")
	}
	return nil
}
