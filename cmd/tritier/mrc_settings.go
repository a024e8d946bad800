package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/sim/mrc"
	"github.com/tritier/tritier/sim/report"
)

// curveMaker makes the curves of one command, one trace at a time.
type curveMaker struct {
	*mrcFlags
	*replayer // opens traces, and speaks to the user
	cases     []mrc.Case
	labels    []string
	sizes     []tierSize // of T1 along the curves; empty: a grid
	t2        tierSize   // of T2 along the curves
	factor    float64    // or a multiple of T1
	read      bool       // what more memory buys is asked for
	pair      sizePair   // the memory that there is
	more      []moreMemory
	report    report.Curves
}

// moreMemory is an offer in bytes.
type moreMemory struct {
	flag      string
	gpu, host uint64
}

// newCurveMaker checks the flags.
func newCurveMaker(c *cobra.Command, f *mrcFlags, args []string) (*curveMaker, error) {
	inputs := &replayFlags{trace: f.trace, html: f.html, plot: f.plot, stream: f.stream, workers: f.workers}
	if err := inputs.checkInputs(args); err != nil {
		return nil, err
	}
	m := &curveMaker{mrcFlags: f, replayer: &replayer{settings: settings{replayFlags: inputs, paths: args},
		stdin: c.InOrStdin(), stderr: c.ErrOrStderr(), noted: map[string]bool{}}}
	m.report = report.Curves{Command: commandLine(), Seed: f.seed}
	if len(args) == 0 {
		m.report.About = aboutBundled
	}
	if f.bounded && !c.Flags().Changed("bound") {
		f.bound = false
	}
	if err := f.refuseIdle(c.Flags()); err != nil {
		return nil, err
	}
	for _, check := range []func() error{m.checkMethod, m.readCases, m.checkBounded, m.readSizes, m.readMore} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return m, m.refuseInputs(c.OutOrStdout(), c.InOrStdin())
}

// refuseInputs refuses outputs that are inputs.
func (m *curveMaker) refuseInputs(stdout io.Writer, stdin io.Reader) error {
	return m.settings.refuseInputs(stdout, stdin)
}

// refuseIdle refuses what was given and could not be meant.
func (f *mrcFlags) refuseIdle(fs *pflag.FlagSet) error {
	for _, x := range []struct{ name, why string }{
		{"rate", "a sampling rate is above 0 and up to 1; --exact samples nothing"},
		{"max-pages", "a sample has at least one page; --exact samples nothing"},
		{"points", fmt.Sprintf("a grid has 2 to %d points", maxPoints)},
	} {
		if flag := fs.Lookup(x.name); flag.Changed && flag.Value.String() == "0" {
			return fmt.Errorf("--%s 0: %s", x.name, x.why)
		}
	}
	if f.bounded && fs.Changed("correction") && f.correction == string(mrc.CorrectHot) {
		return fmt.Errorf("--bounded keeps no count of hot pages: --correction %s or %s", mrc.CorrectAdj, mrc.CorrectNone)
	}
	return nil
}

func (f *mrcFlags) checkMethod() error {
	given := 0
	for _, b := range []bool{f.exact, f.rate != 0, f.maxPages != 0} {
		if b {
			given++
		}
	}
	switch {
	case given > 1:
		return errors.New("--exact, --rate and --max-pages exclude one another: give one of them")
	case !(f.rate >= 0 && f.rate <= 1):
		return fmt.Errorf("--rate %v: a sampling rate is above 0 and up to 1", f.rate)
	case f.maxPages < 0:
		return fmt.Errorf("--max-pages %d is negative", f.maxPages)
	case f.workers < 0:
		return fmt.Errorf("--workers %d is negative", f.workers)
	case f.points < 0 || f.points == 1 || f.points > maxPoints:
		return fmt.Errorf("--points %d: a grid has 2 to %d points", f.points, maxPoints)
	}
	if c := mrc.Correction(f.correction); c != mrc.CorrectHot && c != mrc.CorrectAdj && c != mrc.CorrectNone {
		return fmt.Errorf("--correction %q: corrections are %s, %s, %s", f.correction, mrc.CorrectHot, mrc.CorrectAdj, mrc.CorrectNone)
	}
	return nil
}

const (
	maxPoints    = 10_000
	fewPoints    = 24  // each of them simulations
	manyPoints   = 200 // read off stack distances
	leastFrames  = 16  // of the grid, for every policy's sake
	coarseFrames = 10  // of a tier in a miniature
)

// readCases reads the policies. The bound comes last.
func (m *curveMaker) readCases() error {
	names := m.mrcFlags.policies
	if len(names) == 0 {
		names = defaultCurves
		if m.bounded {
			names = names[:1]
		}
	}
	policies, err := readPolicies(names)
	if err != nil {
		return err
	}
	for _, p := range policies {
		m.cases = append(m.cases, mrc.Case{Policy: p.spec, Optional: len(m.mrcFlags.policies) == 0})
		m.labels = append(m.labels, p.label)
	}
	m.settings.policies = policies // for files among them that are inputs
	if m.bound {
		m.cases, m.labels = append(m.cases, mrc.Case{Bound: true}), append(m.labels, "bound")
	}
	return nil
}

// checkBounded refuses what --bounded cannot do.
func (m *curveMaker) checkBounded() error {
	switch {
	case !m.bounded:
		return nil
	case !m.stacked():
		return errors.New("--bounded measures LRU alone: leave out other policies and --bound")
	case m.exact || m.rate != 0:
		return errors.New("--bounded samples at most so many pages as --max-pages says: leave out --exact and --rate")
	case m.correction == string(mrc.CorrectHot):
		m.correction = string(mrc.CorrectAdj) // hot pages cannot be told without remembering all
	}
	if m.maxPages == 0 {
		m.maxPages = sampleBy
	}
	return nil
}

// stacked says whether no curve needs simulations.
func (m *curveMaker) stacked() bool {
	return !slices.ContainsFunc(m.cases, func(c mrc.Case) bool { return c.Bound || !mrc.IsStack(c.Policy) })
}

// along are the points of the curves for a trace.
func (m *curveMaker) along(info sim.TraceInfo, how mrc.Method) ([]mrc.Pair, error) {
	host, err := m.t2.framesOf(info.Pages, info.PageSize)
	if err != nil {
		return nil, err
	}
	of := func(gpu int) mrc.Pair {
		return mrc.Pair{GPU: gpu, Host: min(placement.MaxPages, host+int(math.Round(m.factor*float64(gpu))))}
	}
	var out []mrc.Pair
	for _, s := range m.sizes {
		gpu, err := s.framesOf(info.Pages, info.PageSize)
		if err != nil {
			return nil, err
		}
		if gpu == 0 {
			return nil, fmt.Errorf("--sizes %s: that is no whole page of the trace's %s", s.text, units.FormatCount(uint64(info.Pages)))
		}
		out = append(out, of(gpu))
	}
	if len(out) > 0 {
		return out, nil
	}
	points := m.points
	if points == 0 && m.stacked() {
		points = manyPoints
	} else if points == 0 {
		points = fewPoints
	}
	high := max(1, int(math.Ceil(float64(info.Pages)/(1+m.factor))))
	low := max(leastFrames, info.Pages/1000, int(coarseFrames/rateOf(how, info.Pages)))
	for _, gpu := range mrc.Grid(min(low, high), high, points) {
		out = append(out, of(gpu))
	}
	return out, nil
}

// rateOf is the share of the pages that a method samples.
func rateOf(how mrc.Method, pages int) float64 {
	switch {
	case how.MaxPages > 0:
		return min(1, float64(how.MaxPages)/float64(max(pages, 1)))
	case how.Rate > 0:
		return how.Rate
	}
	return 1
}
