package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

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
		m.cases, m.labels = append(m.cases, mrc.Case{Policy: p.spec}), append(m.labels, p.label)
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

func (m *curveMaker) readSizes() error {
	for _, text := range m.mrcFlags.sizes {
		s, err := readSize("--gpu-mem", strings.TrimSpace(text), false)
		if err == nil && (s.share && s.percent == 0 || !s.share && s.bytes == 0) {
			err = errors.New("GPU memory needs at least one frame")
		}
		if err != nil {
			return fmt.Errorf("--sizes %s: %w", text, err)
		}
		s.flag = "--sizes"
		m.sizes = append(m.sizes, s)
	}
	if len(m.sizes) > 0 && m.points > 0 {
		return errors.New("--sizes and --points both say where the curves have points: give one of them")
	}
	if m.mrcFlags.t2 == "" {
		return nil
	}
	if number, ok := strings.CutSuffix(m.mrcFlags.t2, "x"); ok {
		factor, err := strconv.ParseFloat(number, 64)
		if err != nil || !(factor >= 0 && factor <= 1e6) {
			return fmt.Errorf("--t2 %s: a multiple of T1 is a number from 0 to 1000000 and an x, such as 4x", m.mrcFlags.t2)
		}
		m.factor = factor
		return nil
	}
	s, err := readSize("--t2", m.mrcFlags.t2, false)
	if err != nil {
		return fmt.Errorf("--t2: %w", err)
	}
	m.t2 = s
	return nil
}

// readMore reads what there is and what may be added.
func (m *curveMaker) readMore() error {
	pairs, err := m.now.pairs()
	if err != nil {
		return err
	}
	if len(pairs) > 1 {
		return errors.New("--gpu-mem and --host-mem are the memory that there is: give one size of each; --sizes takes several")
	}
	m.pair = pairs[0]
	for _, list := range []struct {
		flag  string
		texts []string
	}{{"--more-host", m.moreHost}, {"--more-gpu", m.moreGPU}} {
		for _, text := range list.texts {
			n, err := units.ParseBytes(strings.TrimSpace(text))
			if err != nil {
				return fmt.Errorf("%s: %w", list.flag, err)
			}
			if n == 0 {
				return fmt.Errorf("%s %s: that is no more memory", list.flag, text)
			}
			o := moreMemory{flag: list.flag, host: n}
			if list.flag == "--more-gpu" {
				o.gpu, o.host = n, 0
			}
			m.more = append(m.more, o)
		}
	}
	n := m.now
	m.read = len(m.more)+len(n.gpuMem)+len(n.gpuFrames)+len(n.hostMem)+len(n.hostFrames) > 0
	return nil
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

// toRead are the sizes that there are, and the offers in frames.
func (m *curveMaker) toRead(info sim.TraceInfo) (now mrc.Pair, more []mrc.Pair, err error) {
	now.GPU, now.Host, err = m.pair.framesOf(info.Pages, info.PageSize)
	if err != nil {
		return now, nil, err
	}
	for _, o := range m.more {
		p := mrc.Pair{GPU: int(min(o.gpu/info.PageSize, placement.MaxPages)), Host: int(min(o.host/info.PageSize, placement.MaxPages))}
		if p.Frames() == 0 {
			return now, nil, fmt.Errorf("%s %s: smaller than a page of %s", o.flag, units.FormatBytes(o.gpu+o.host), units.FormatBytes(info.PageSize))
		}
		p.GPU, p.Host = min(p.GPU, placement.MaxPages-now.GPU), min(p.Host, placement.MaxPages-now.Host)
		more = append(more, p)
	}
	return now, more, nil
}
