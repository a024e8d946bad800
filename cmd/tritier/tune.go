package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim/tune"
)

// tuneFlags are the flags of tritier tune.
type tuneFlags struct {
	trace      traceFlags
	sizes      sizeFlags
	budget     budgetFlags
	space      spaceFlags
	objective  string
	across     string
	train      float64
	writes     units.Bytes // a day
	rate       float64     // accesses a second
	model      string
	candidates int
	finalists  int
	seeds      int
	minPages   int
	minFrames  int
	seed       uint64
	workers    int
	state      string
	out        string
	html       string
	json       bool
}

func newTuneCommand() *cobra.Command {
	f := &tuneFlags{}
	c := &cobra.Command{
		Use:   "tune [TRACE...]",
		Short: "Which policy, and which tier sizes, are best for a program's traces?",
		Long: `Search placement policies and their parameters for one or several access traces, say how far
from the best possible the winner is, and write it to a file that "tritier replay --policy @FILE"
and the live system (policy: "@FILE") load. Without a trace, the one that is part of the
program is tuned for.

Candidates are drawn over all evictors and placers, evaluated on miniatures of the traces, and
the better ones on larger miniatures (successive halving); single changes improve the best of
them, and finalists are replayed in full. All of that looks at the first part of each trace
(--train); the report is of the rest as well, which nobody chose by, in tiers that the first part
has warmed. Scores are relative to LRU in both tiers: 1 is as good, 0.5 needs half.

--objective is time (modelled, not measured), ssd-reads, ssd-writes (bytes written), or a sum such
as time=1,ssd-writes=0.5. --max-writes-per-day bounds what is written; it needs the times of the
trace, or --access-rate. Over several traces the mean counts, or the worst (--across worst).

Sizes are those of tritier replay; several pairs are a choice. With --budget, sizes are searched:
the money goes to GPU memory in --size-steps steps, and the rest to host memory.

With --state FILE evaluations are kept, and a run that was cut short goes on where it was. The
result depends on the traces, the flags and --seed alone, not on the number of cores.

Evictors: ` + names(placement.Evictors()) + `.
Placers: ` + names(placement.Placers()) + `.`,
		Example: `  tritier tune
  tritier tune --gpu-mem 16GiB --host-mem 64GiB --out best.yaml trace.ids.zst
  tritier tune --objective ssd-reads --placers tier-order,gmt-reuse --t1 lru,clock,s3-fifo trace.lis
  tritier tune --engine gpu --out best.yaml --html tuning.html a.ids.zst b.ids.zst --across worst
  tritier tune --objective time=1,ssd-writes=0.5 --max-writes-per-day 2TiB --access-rate 1e6 trace.csv
  tritier tune --budget 400 --gpu-price 25 --host-price 3 --max-host-mem 128GiB trace.ids.zst
  tritier tune --state tuning.journal trace.ids.zst`,
		RunE: func(c *cobra.Command, args []string) error { return tuneMain(c, f, args) },
	}
	f.register(c)
	return c
}

func (f *tuneFlags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.SortFlags = false // in groups: sizes, goal, space, effort, input, output
	fs.StringSliceVar(&f.sizes.gpuMem, "gpu-mem", nil, "GPU memory `SIZE`s: bytes such as 16GiB, or a share such as 5%; a list, or repeated")
	fs.StringSliceVar(&f.sizes.hostMem, "host-mem", nil, "host memory `SIZE`s, likewise; 0 means none (default: four times the GPU memory)")
	fs.StringSliceVar(&f.sizes.gpuFrames, "gpu-frames", nil, "GPU memory in `FRAMES` of one page, instead of --gpu-mem")
	fs.StringSliceVar(&f.sizes.hostFrames, "host-frames", nil, "host memory in `FRAMES` of one page, instead of --host-mem")
	f.budget.register(fs)
	fs.StringVar(&f.objective, "objective", "time", "what to make small: time, ssd-reads, ssd-writes, or a weighted sum `GOAL=WEIGHT,...`")
	fs.StringVar(&f.across, "across", acrossMean, "what counts over several traces: mean or worst")
	fs.Var(&f.writes, "max-writes-per-day", "constraint: bytes written to SSD a day, such as 2TiB")
	fs.Float64Var(&f.rate, "access-rate", 0, "`ACCESSES` a second, for traces without times")
	fs.StringVar(&f.model, "model", defaultModel, "source of the modelled times: a preset's `NAME` ("+strings.Join(servicetime.Names(), ", ")+") or a YAML file")
	fs.Float64Var(&f.train, "train", 0.5, "share of each trace, from its start, to choose by; the rest is held out")
	f.space.register(fs)
	fs.IntVar(&f.candidates, "candidates", tune.DefaultCandidates, "candidates to draw; single changes of the best come on top")
	fs.IntVar(&f.finalists, "finalists", tune.DefaultFinalists, "candidates to replay in full on both parts")
	fs.IntVar(&f.seeds, "seeds", tune.DefaultSeeds, "runs of a finalist that makes random choices")
	fs.IntVar(&f.minPages, "min-pages", tune.DefaultMinPages, "fewest sampled pages of a miniature")
	fs.IntVar(&f.minFrames, "min-frames", tune.DefaultMinFrames, "fewest frames of a miniature's tier")
	fs.Uint64Var(&f.seed, "seed", 1, "seed of every random choice")
	fs.IntVar(&f.workers, "workers", 0, "evaluate so many candidates at a time (default: as many as there are cores)")
	f.trace.register(fs)
	f.trace.registerColumns(fs)
	fs.StringVar(&f.state, "state", "", "keep evaluations in `FILE` and go on from what it has")
	fs.StringVar(&f.out, "out", "", "write the best policy to `FILE` (.yaml), for --policy @FILE and the live system")
	fs.BoolVar(&f.json, "json", false, "write JSON instead of the report")
	fs.StringVar(&f.html, "html", "", "also write a self-contained page with charts to `FILE`, which ends in .html or .htm")
}

// What counts over several traces.
const (
	acrossMean  = "mean"
	acrossWorst = "worst"
)

// tuneMain runs the command: everything that can be wrong with the flags is
// found before a trace is read.
func tuneMain(c *cobra.Command, f *tuneFlags, args []string) error {
	if err := errors.Join(refuseZero(c.Flags()), f.refuseIdle(c.Flags())); err != nil {
		return err
	}
	t := &tuner{tuneFlags: f, paths: args, stdin: c.InOrStdin(), stdout: c.OutOrStdout(), stderr: c.ErrOrStderr()}
	if err := t.check(); err != nil {
		return err
	}
	if err := t.openOutputs(); err != nil {
		return err
	}
	defer t.discard()
	if err := t.load(c.Context()); err != nil {
		return err
	}
	return t.search(c.Context())
}

// refuseIdle refuses flags that would be passed over: zeros that look like
// limits, and flags of something that was not asked for.
func (f *tuneFlags) refuseIdle(fs *pflag.FlagSet) error {
	var wrong []error
	for _, n := range []struct {
		flag string
		zero bool
		what string
	}{
		{"budget", f.budget.budget == 0, "buys no memory: leave it out to tune for given sizes"},
		{"max-writes-per-day", f.writes == 0, "what is changed must be written some time: leave it out for no limit"},
		{"max-gpu-mem", f.budget.maxGPU == 0, "GPU memory needs at least one page: leave it out for no limit"},
		{"max-host-mem", f.budget.maxHost == 0, "would be no limit: leave it out; tiers without host memory are --gpu-mem SIZE --host-mem 0"},
		{"access-rate", f.rate == 0, "want accesses a second: leave it out for the trace's own times"},
	} {
		if fs.Changed(n.flag) && n.zero {
			wrong = append(wrong, fmt.Errorf("--%s 0: %s", n.flag, n.what))
		}
	}
	if f.rate > 0 && f.writes == 0 && len(wrong) == 0 {
		wrong = append(wrong, errors.New("--access-rate goes with --max-writes-per-day: give one"))
	}
	if fs.Changed("size-steps") && !fs.Changed("budget") {
		wrong = append(wrong, errors.New("--size-steps goes with --budget: give one"))
	}
	return errors.Join(wrong...)
}

// Bounds of an objective's weights: their sum, and what they make of it, stay exact.
const (
	leastWeight = 1e-9
	mostWeight  = 1e9
)

// readObjective reads --objective and --across.
func (f *tuneFlags) readObjective() (o tune.Objective, err error) {
	seen := map[string]bool{}
	for part := range strings.SplitSeq(f.objective, ",") {
		name, weight, weighted := strings.Cut(strings.TrimSpace(part), "=")
		w := 1.0
		if weighted {
			if w, err = parsePositive(weight); err != nil {
				return o, fmt.Errorf("--objective: the weight of %s: %w", name, err)
			}
			if w < leastWeight || w > mostWeight {
				return o, fmt.Errorf("--objective: the weight of %s: %g is not from %g to %g: only what weights are beside one another counts", name, w, leastWeight, mostWeight)
			}
		}
		if seen[name] {
			return o, fmt.Errorf("--objective: %s comes twice", name)
		}
		seen[name] = true
		switch name {
		case "time":
			o.Time = w
		case "ssd-reads":
			o.SSDReads = w
		case "ssd-writes":
			o.SSDWrites = w
		default:
			return o, fmt.Errorf("--objective: no goal %q: there are time, ssd-reads, ssd-writes, and sums such as time=1,ssd-writes=0.5", name)
		}
	}
	switch f.across {
	case acrossMean, acrossWorst:
		o.Worst = f.across == acrossWorst
	default:
		return o, fmt.Errorf("--across %q: there are %s, %s", f.across, acrossMean, acrossWorst)
	}
	return o, nil
}

// checkEffort refuses numbers that make no sense.
func (f *tuneFlags) checkEffort() error {
	var wrong []error
	for _, n := range []struct {
		flag           string
		v, least, most int
	}{
		{"candidates", f.candidates, 1, 100_000}, {"finalists", f.finalists, 1, 1000}, {"seeds", f.seeds, 1, 1000},
		{"min-pages", f.minPages, 1, placement.MaxPages}, {"min-frames", f.minFrames, 1, placement.MaxPages}, {"workers", f.workers, 0, 1 << 16},
	} {
		if n.v < n.least || n.v > n.most {
			wrong = append(wrong, fmt.Errorf("--%s %d: want %d to %d", n.flag, n.v, n.least, n.most))
		}
	}
	if !(f.train > 0 && f.train < 1) {
		wrong = append(wrong, fmt.Errorf("--train %g: want a share above 0 and below 1", f.train))
	}
	if !(f.rate >= 0 && f.rate <= 1e18) {
		wrong = append(wrong, fmt.Errorf("--access-rate %g: want a number of accesses a second", f.rate))
	}
	return errors.Join(wrong...)
}
