package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/sim/mrc"
	"github.com/tritier/tritier/sim/report"
)

// all fills the report. A trace that fails does not keep the others from being
// measured; the error names each.
func (m *curveMaker) all(ctx context.Context) error {
	paths := m.paths
	if slices.Contains(paths, "-") {
		m.stdin = interruptible(ctx, m.stdin)
	}
	if len(paths) == 0 {
		paths = []string{""}
	}
	var failures []error
	for _, p := range paths {
		err := ctx.Err()
		if err == nil {
			err = m.one(ctx, p)
		}
		if err != nil && ctx.Err() != nil {
			for _, f := range failures {
				m.say("%s", oneLine(f))
			}
			return err
		}
		if err != nil {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// one makes the curves of one trace.
func (m *curveMaker) one(ctx context.Context, path string) error {
	if m.bounded {
		return m.unnumbered(ctx, path)
	}
	s, err := m.source(ctx, path)
	if err != nil {
		return err
	}
	streaming := m.mrcFlags.stream
	if !streaming && path != "" && path != "-" {
		if why := streamReason(path, s.Info().Compression); why != "" {
			m.say("%s: %s", report.Printable(path), why)
			streaming = true
		}
	}
	if streaming {
		err = m.streamed(ctx, path, s)
	} else {
		err = m.loaded(ctx, path, s)
	}
	return errors.Join(of(path, err), s.Close())
}

const (
	// sampleBy is how many pages are sampled when nobody says: more than
	// enough for an error below 0.01.
	sampleBy = 1 << 16
	// longTrace is the length in accesses from which on simulations of every
	// size take longer than a user waits for.
	longTrace = 10_000_000
)

// method says how to measure. why tells the user of a choice that nobody made.
func (m *curveMaker) method(streaming bool, accesses int) (how mrc.Method, why string) {
	how = mrc.Method{Rate: m.rate, MaxPages: m.maxPages, Seed: m.mrcFlags.seed, Correction: mrc.Correction(m.correction)}
	if m.exact || m.rate > 0 || m.maxPages > 0 {
		return how, ""
	}
	switch {
	case streaming:
		why = "a trace that is not kept"
	case accesses > longTrace && !m.stacked():
		why = "a trace of " + units.FormatCount(uint64(accesses)) + " accesses"
	default:
		return how, ""
	}
	how.MaxPages = sampleBy
	return how, fmt.Sprintf("%s is measured by a sample of at most %s pages, unless --exact, --rate or --max-pages is given", why, units.FormatCount(sampleBy))
}

// request is what to make of a trace.
func (m *curveMaker) request(how mrc.Method) mrc.Request {
	return mrc.Request{Cases: m.cases, Method: how, PolicySeed: m.mrcFlags.seed, Workers: m.mrcFlags.workers,
		PairsOf: func(info sim.TraceInfo) ([]mrc.Pair, error) {
			pairs, err := m.along(info, how)
			if err != nil || !m.read {
				return pairs, err
			}
			now, more, err := m.toRead(info)
			return append(pairs, mrc.PairsToRead(now, more)...), err
		}}
}

// loaded reads the whole trace, then measures it.
func (m *curveMaker) loaded(ctx context.Context, path string, s *sim.Stream) error {
	name := report.Printable(s.Info().Name)
	stop := startProgress(m.stderr, "reading "+name, s.Progress)
	t, err := sim.Load(ctx, s, nil)
	stop()
	if err != nil {
		return m.cut(ctx, path, err)
	}
	how, why := m.method(false, len(t.Accesses))
	if why != "" {
		m.say("%s: %s", name, why)
	}
	r := m.request(how)
	var done, total atomic.Int64 // a bar in another goroutine reads them
	r.Progress = func(d, of uint64) {
		done.Store(int64(d))
		total.Store(int64(of))
	}
	stop = startProgress(m.stderr, "measuring "+name, func() (int64, int64) { return done.Load(), total.Load() })
	curves, err := mrc.Run(ctx, t, r)
	stop()
	return errors.Join(m.add(curves, t.Info, how), err)
}

// streamed measures a trace while it is read.
func (m *curveMaker) streamed(ctx context.Context, path string, s *sim.Stream) error {
	name := report.Printable(s.Info().Name)
	how, why := m.method(true, 0)
	if why != "" {
		m.say("%s: %s", name, why)
	}
	stop := startProgress(m.stderr, "measuring "+name, s.Progress)
	curves, err := mrc.RunStream(ctx, s, m.request(how))
	stop()
	if err != nil && ctx.Err() == nil {
		return err
	}
	if len(curves) == 0 {
		return m.cut(ctx, path, err)
	}
	return errors.Join(m.add(curves, s.Info(), how), err)
}

// unnumbered measures a trace whose pages are not numbered.
func (m *curveMaker) unnumbered(ctx context.Context, path string) error {
	r, err := m.open(ctx, path)
	if err != nil {
		return m.cut(ctx, path, err)
	}
	i, name := infoOf(r), traceName(path)
	info := sim.TraceInfo{Name: name, Format: i.Format, Compression: i.Compression, Order: i.Order, PageSize: m.mrcFlags.trace.pageSizeFor(i)}
	m.mrcFlags.trace.note(m.stderr, name, i)
	how, _ := m.method(true, 0)
	stop := startProgress(m.stderr, "measuring "+report.Printable(name), progressOf(r))
	p, err := mrc.MeasureBounded(ctx, r, info.PageSize, how, nil)
	stop()
	failure := errors.Join(err, r.Close())
	if failure != nil && ctx.Err() == nil {
		return of(path, failure)
	}
	if p.Accesses+p.Prefetches == 0 && failure != nil {
		return m.noResults(path)
	}
	info.Pages = p.Pages
	pairs, err := m.request(how).PairsOf(info)
	if err != nil {
		return of(path, err)
	}
	var curves []mrc.Curve
	for _, c := range m.cases {
		curve := p.Curve(info, c.Policy.String(), pairs)
		curve.Complete, curve.PolicySeed = failure == nil, m.mrcFlags.seed
		curves = append(curves, curve)
	}
	return errors.Join(m.add(curves, info, how), failure)
}

// add adds a trace's curves, and what they say about more memory, to the report.
func (m *curveMaker) add(curves []mrc.Curve, info sim.TraceInfo, how mrc.Method) error {
	known := slices.ContainsFunc(curves, func(c mrc.Curve) bool { return len(c.Points) > 0 })
	if !known {
		return nil
	}
	t := report.TraceCurves{Labels: m.labels}
	pairs, err := m.along(info, how)
	if err != nil {
		return err
	}
	for _, c := range curves {
		t.Curves = append(t.Curves, c.Only(pairs))
		if !m.read {
			continue
		}
		now, more, err := m.toRead(info)
		if err != nil {
			return err
		}
		if r, ok := c.Read(now, more); ok {
			t.Readings = append(t.Readings, r)
		}
	}
	m.report.Traces = append(m.report.Traces, t)
	return nil
}

// writeCurves writes what goes to standard output and, if files is set, the
// files, as write does.
func (o *replayOutput) writeCurves(r *report.Curves, files bool) error {
	var failures []error
	if html := o.html; files && html != nil {
		o.html = nil
		failures = append(failures, finish(html, r.HTML))
	}
	if plot := o.plot; files && plot != nil {
		o.plot = nil
		failures = append(failures, finish(plot, func(w io.Writer) error { return r.Plot(w, o.format) }))
	}
	b := bufio.NewWriter(o.stdout)
	write := r.Table
	if o.json {
		write = r.JSON
	}
	if err := errors.Join(write(b), b.Flush()); err != nil {
		failures = append(failures, fmt.Errorf("standard output: %w", firstOf(err)))
	}
	return errors.Join(failures...)
}
