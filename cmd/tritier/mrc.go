package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim/mrc"
)

// defaultCurves are the policies whose curves are made when nobody says.
var defaultCurves = []string{"lru", "clock", "s3-fifo", "arc"}

// mrcFlags are the flags of tritier mrc.
type mrcFlags struct {
	trace      traceFlags
	policies   []string
	bound      bool
	sizes      []string
	t2         string
	points     int
	now        sizeFlags
	moreHost   []string
	moreGPU    []string
	exact      bool
	rate       float64
	maxPages   int
	correction string
	seed       uint64
	stream     bool
	bounded    bool
	workers    int
	json       bool
	html, plot string
}

func newMRCCommand() *cobra.Command {
	f := &mrcFlags{}
	c := &cobra.Command{
		Use:   "mrc [TRACE...]",
		Short: "What would any size of the tiers have done with a trace?",
		Long: `Draw miss-ratio curves: how many pages are read from SSD, over the size of the tiers, under
each policy and for Belady's bound, which no policy gets below. Without a trace, the one
that is part of the program is measured. "-" is standard input.

LRU's curve comes from one pass over the trace, exactly (stack distances) or from a sample of
its pages (SHARDS). Every point of another curve is a simulation, of the whole trace or in
miniature: the sampled pages, in tiers that are smaller by as much. --rate and --max-pages
sample; the result says how many pages were sampled and which error to expect, and warns when
they are too few. A trace that does not fit in memory is read once, and sampled unless
--exact is given; so is a very long one, since a simulation of each size takes its time. Pages
are numbered, which takes some 20 bytes for each; --bounded does without.

The axis is T1 + T2. The curves have no host tier unless --t2 gives one: a size, or a
multiple of T1. --more-host and --more-gpu read off what more memory would buy, given the
tiers that there are (--gpu-mem, --host-mem; by default 5 % of the distinct pages, and four
times as much).

Evictors (which page leaves a tier): ` + names(placement.Evictors()) + `.
Placers (where T1's victims go): ` + names(placement.Placers()) + `.`,
		Example: `  tritier mrc
  tritier mrc --policy lru --bound=false --plot curve.svg trace.ids.zst
  tritier mrc --policy lru,gmt-reuse --t2 4x --gpu-mem 5% --host-mem 20% --more-host 1GiB trace.lis
  tritier mrc --rate 0.5 --seed 7 --policy 'clock,tier-order{t1=clock,t2=fifo}' --html curves.html trace.ids.zst
  tritier mrc --bounded --max-pages 10000 trace.ids.zst
  tritier mrc --max-pages 10000 --sizes 1%,2%,5%,10%,20% --json trace.csv`,
		RunE: func(c *cobra.Command, args []string) error { return mrcMain(c, f, args) },
	}
	f.register(c)
	return c
}

func (f *mrcFlags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.SortFlags = false // in groups: curves, sizes, method, input, output
	fs.StringArrayVar(&f.policies, "policy", nil, "`POLICY`: an evictor E, or PLACER{t1=E,t2=E,key=value}; a list, or repeated (default: "+strings.Join(defaultCurves, ", ")+")")
	fs.BoolVar(&f.bound, "bound", true, "also Belady's bound; --bound=false leaves it out")
	fs.StringSliceVar(&f.sizes, "sizes", nil, "`SIZES` of T1 along the curves: bytes such as 16GiB, or shares of the distinct pages such as 5% (default: a grid up to all pages)")
	fs.IntVar(&f.points, "points", 0, "points of the grid (default: 24, or 200 for LRU alone)")
	fs.StringVar(&f.t2, "t2", "", "host memory along the curves: a `SIZE` such as 64GiB, a share such as 20%, or a multiple of T1 such as 4x (default: none)")
	fs.StringSliceVar(&f.moreHost, "more-host", nil, "say what so much more host memory would buy: `SIZE`s such as 8GiB")
	fs.StringSliceVar(&f.moreGPU, "more-gpu", nil, "likewise for GPU memory")
	fs.StringSliceVar(&f.now.gpuMem, "gpu-mem", nil, "GPU memory that there is: a `SIZE`, or a share such as 5%")
	fs.StringSliceVar(&f.now.hostMem, "host-mem", nil, "host memory that there is, likewise; 0 means none (default: four times the GPU memory)")
	fs.StringSliceVar(&f.now.gpuFrames, "gpu-frames", nil, "GPU memory that there is in `FRAMES` of one page, instead of --gpu-mem")
	fs.StringSliceVar(&f.now.hostFrames, "host-frames", nil, "host memory that there is in `FRAMES`, instead of --host-mem")
	fs.BoolVar(&f.exact, "exact", false, "sample nothing, however long it takes")
	fs.Float64Var(&f.rate, "rate", 0, "sample such a share of the pages, such as 0.01")
	fs.IntVar(&f.maxPages, "max-pages", 0, "sample at most `N` pages")
	fs.StringVar(&f.correction, "correction", string(mrc.CorrectHot), "what is done about a sample with too many accesses or too few: hot (count hot pages apart), adj (SHARDS-adj) or none (SHARDS)")
	fs.Uint64Var(&f.seed, "seed", 1, "seed of the samples and of every random choice of the policies")
	f.trace.register(fs)
	f.trace.registerColumns(fs)
	fs.BoolVar(&f.stream, "stream", false, "read each trace once without keeping it, and sample it (by itself when it may not fit in half of the memory available)")
	fs.BoolVar(&f.bounded, "bounded", false, "LRU alone, in memory for the sampled pages alone (--max-pages), however many pages the trace has")
	fs.IntVar(&f.workers, "workers", 0, "simulate so many points at a time (default: as many as there are cores)")
	fs.BoolVar(&f.json, "json", false, "write JSON instead of the table")
	fs.StringVar(&f.html, "html", "", "also write a self-contained page with charts to `FILE`, which ends in .html or .htm")
	fs.StringVar(&f.plot, "plot", "", "also draw the curves to `FILE`, which ends in .svg or .png")
}

// mrcMain runs the command: what can be wrong with the flags is found before a
// trace is read, and nothing is written before all is known.
func mrcMain(c *cobra.Command, f *mrcFlags, args []string) error {
	if err := refuseZero(c.Flags()); err != nil {
		return err
	}
	m, err := newCurveMaker(c, f, args)
	if err != nil {
		return err
	}
	out, err := openReplayOutput(&replayFlags{html: f.html, plot: f.plot, json: f.json}, c.OutOrStdout())
	if err != nil {
		return err
	}
	defer out.discard()
	runErr := m.all(c.Context())
	interrupted := runErr != nil && c.Context().Err() != nil && errors.Is(runErr, c.Context().Err())
	if len(m.report.Traces) == 0 && runErr != nil && !(interrupted && f.json) {
		return runErr
	}
	m.report.Interrupted = interrupted
	err = out.writeCurves(&m.report, runErr == nil)
	if runErr != nil && (f.html != "" || f.plot != "") {
		m.say("no page or chart was written: results are missing")
	}
	return errors.Join(err, runErr)
}
