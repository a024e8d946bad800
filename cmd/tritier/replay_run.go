package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/sim/report"
	"github.com/tritier/tritier/sim/trace"
	"github.com/tritier/tritier/sim/trace/bundled"
)

// replayer runs the jobs of one command over its traces, one trace at a time.
type replayer struct {
	settings
	stdin  io.Reader
	stderr io.Writer
	report report.Report
	noted  map[string]bool // traces that the user has been told about
	sized  []defaultSize   // of the traces that had the default size of T1
}

// defaultSize is what the default size of T1 came to for a trace.
type defaultSize struct{ pages, gpu int }

// say tells the user something that is no result.
func (r *replayer) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.stderr, "tritier: "+format+"\n", args...) // nowhere else to report to
}

// all fills the report. A trace that fails does not keep the others from being
// replayed; the error names each. When ctx ends the report holds the results
// so far, and the error is ctx's.
func (r *replayer) all(ctx context.Context) error {
	r.report.Command = commandLine()
	defer func() { r.report.About = r.about() }()
	paths := r.paths
	if slices.Contains(paths, "-") {
		r.stdin = interruptible(ctx, r.stdin)
	}
	if len(paths) == 0 {
		paths = []string{""}
	}
	broken, err := r.tryAll(ctx)
	if err != nil {
		return err
	}
	var failures []error
	var out leftOut
	for _, p := range paths {
		err := ctx.Err()
		if err == nil {
			err = broken[p]
		}
		if err == nil {
			if err = r.one(ctx, p); ctx.Err() == nil {
				out.replayed(r, p, err)
			}
		}
		if err != nil && ctx.Err() != nil {
			for _, f := range failures {
				r.say("%s", oneLine(f))
			}
			return err
		}
		if err != nil {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// tryAll opens every file of several once, so that a wrong name at the end of
// the list, or a size that its pages are too large for, is not heard of after an
// hour only. The others are replayed all the same.
func (r *replayer) tryAll(ctx context.Context) (broken map[string]error, err error) {
	broken = map[string]error{}
	if len(r.paths) < 2 {
		return broken, nil
	}
	var told leftOut
	for _, p := range r.paths {
		err := r.try(ctx, p)
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		if err != nil && broken[p] == nil {
			broken[p] = err
			told.add(p, err)
		}
	}
	if slices.ContainsFunc(r.paths, func(p string) bool { return broken[p] == nil }) {
		told.tell(r)
	}
	return broken, nil
}

// leftOut are lines about traces that fail, to be said once there are others that do not.
type leftOut struct {
	lines  []string
	others bool // a trace was replayed
}

func (l *leftOut) add(path string, err error) {
	l.lines = append(l.lines, report.Printable(traceName(path))+" is left out, and the others are replayed: "+oneLine(err))
}

func (l *leftOut) tell(r *replayer) {
	for _, line := range l.lines {
		r.say("%s", line)
	}
	l.lines = nil
}

// replayed notes how a trace went that could be opened: what is wrong further on, such as a file
// that is cut off, shows only now.
func (l *leftOut) replayed(r *replayer, path string, err error) {
	if err != nil {
		l.add(path, err)
	} else {
		l.others = true
	}
	if l.others {
		l.tell(r)
	}
}

// try opens one file of several.
func (r *replayer) try(ctx context.Context, path string) error {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() && !st.IsDir() || path == "-" {
		return nil // a pipe can be opened only once
	}
	s, err := r.source(ctx, path)
	if err != nil {
		return err
	}
	return errors.Join(r.tryJobs(path, s.Info().PageSize), s.Close())
}

// tryJobs finds what is wrong with the sizes before the trace is read, as far
// as they do not depend on its pages.
func (r *replayer) tryJobs(path string, pageSize uint64) error {
	if needsPages(r.pairs) {
		return nil
	}
	_, _, err := makeJobs(&r.settings, 0, pageSize)
	return of(path, err)
}

// of names the trace in an error that does not.
func of(path string, err error) error {
	var named *trace.Error
	if err == nil || errors.As(err, &named) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s: %w", report.Printable(traceName(path)), err)
}

// open opens a trace; "" is the bundled one.
func (r *replayer) open(ctx context.Context, path string) (trace.Reader, error) {
	o := trace.Options{Format: r.trace.format, Order: r.trace.order, Columns: r.trace.columns}
	switch path {
	case "":
		return bundled.Open()
	case "-":
		return trace.New(r.stdin, traceName(path), o)
	}
	return trace.OpenContext(ctx, path, o)
}

// source opens a trace as a stream of pages. Session traces are read whole for
// that, which takes as long as it takes: when ctx ends meanwhile the work is
// left to itself, for the end of the process to end it.
func (r *replayer) source(ctx context.Context, path string) (*sim.Stream, error) {
	type opened struct {
		reader trace.Reader
		err    error
	}
	done := make(chan opened, 1)
	go func() {
		t, err := r.open(ctx, path)
		done <- opened{t, err}
	}()
	defer startProgress(r.stderr, "opening "+report.Printable(traceName(path)), unknownProgress)()
	select {
	case <-ctx.Done():
		return nil, r.noResults(path)
	case o := <-done:
		if o.err != nil {
			return nil, r.cut(ctx, path, o.err)
		}
		if !r.noted[path] {
			r.noted[path] = true
			r.trace.note(r.stderr, traceName(path), infoOf(o.reader))
		}
		return sim.NewStream(o.reader, traceName(path), r.trace.pageSizeFor(infoOf(o.reader))), nil
	}
}

// cut makes the end of ctx an error that says what was going on.
func (r *replayer) cut(ctx context.Context, path string, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return r.noResults(path)
	}
	return err
}

// noResults is the interruption before a trace has any results.
func (r *replayer) noResults(path string) error {
	while := "while reading " + report.Printable(traceName(path))
	if len(r.report.Results) == 0 {
		return &interruption{while + ": no results yet"}
	}
	return &interruption{while + ": the results are those of the traces before it"}
}

// one replays one trace and adds its results to the report.
func (r *replayer) one(ctx context.Context, path string) error {
	s, err := r.source(ctx, path)
	if err != nil {
		return err
	}
	if err := r.tryJobs(path, s.Info().PageSize); err != nil {
		return errors.Join(err, s.Close())
	}
	streaming := r.stream || r.onePass(path)
	if !streaming && path != "" && path != "-" {
		if why := streamReason(path, s.Info().Compression); why != "" {
			r.say("%s: %s", report.Printable(path), why)
			streaming = true
		}
	}
	if streaming {
		err = r.streamed(ctx, path, s)
	} else {
		err = r.loaded(ctx, path, s)
	}
	return errors.Join(of(path, err), s.Close())
}

// onePass says whether the jobs can run while a trace is being read, at no
// loss: the sizes are known, nobody needs the future, and the jobs are few
// enough that none waits for another at the end of each block.
func (r *replayer) onePass(path string) bool {
	if path == "" || needsPages(r.pairs) || len(r.policies)*len(r.pairs) > runtime.GOMAXPROCS(0) {
		return false
	}
	return !slices.ContainsFunc(r.policies, func(p namedPolicy) bool { return p.spec.NeedsFuture() })
}

// loaded reads the whole trace, then runs the jobs over it.
func (r *replayer) loaded(ctx context.Context, path string, s *sim.Stream) error {
	name := report.Printable(s.Info().Name)
	stop := startProgress(r.stderr, "reading "+name, s.Progress)
	t, err := sim.Load(ctx, s, nil)
	stop()
	if err != nil {
		return r.cut(ctx, path, err)
	}
	jobs, err := r.jobs(path, t.Info.Pages, t.Info.PageSize)
	if err != nil {
		return err
	}
	o := r.options()
	var done, total atomic.Int64 // a bar in another goroutine reads them
	o.Progress = func(d, of uint64) {
		done.Store(int64(d))
		total.Store(int64(of))
	}
	stop = startProgress(r.stderr, "replaying "+name, func() (int64, int64) { return done.Load(), total.Load() })
	results, err := sim.Replay(ctx, t, simJobs(jobs), o)
	stop()
	if err == nil || ctx.Err() != nil {
		r.add(jobs, results)
	}
	return err
}

// streamed runs the jobs while the trace is read. Sizes that depend on the
// number of distinct pages need a pass of their own before that.
func (r *replayer) streamed(ctx context.Context, path string, s *sim.Stream) error {
	pages := 0
	if needsPages(r.pairs) {
		var err error
		if pages, err = r.countPages(ctx, path); err != nil {
			return r.cut(ctx, path, err)
		}
	}
	jobs, err := r.jobs(path, pages, s.Info().PageSize)
	if err != nil {
		return err
	}
	stop := startProgress(r.stderr, "replaying "+report.Printable(s.Info().Name), s.Progress)
	results, err := sim.ReplayStream(ctx, s, simJobs(jobs), r.options())
	stop()
	if err != nil && ctx.Err() == nil {
		return err
	}
	r.add(jobs, results)
	return err
}

// countPages reads a trace for the number of its distinct pages.
func (r *replayer) countPages(ctx context.Context, path string) (int, error) {
	s, err := r.source(ctx, path)
	if err != nil {
		return 0, err
	}
	stop := startProgress(r.stderr, "counting pages of "+report.Printable(s.Info().Name), s.Progress)
	defer stop()
	var b sim.Block
	for err == nil {
		if err = ctx.Err(); err == nil {
			err = s.Next(&b, 1<<16)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return s.Info().Pages, errors.Join(err, s.Close())
}

// jobs are the jobs for a trace of so many pages.
func (r *replayer) jobs(path string, pages int, pageSize uint64) ([]job, error) {
	jobs, skipped, err := makeJobs(&r.settings, pages, pageSize)
	if err != nil {
		return nil, err
	}
	for _, why := range skipped {
		r.say("%s: left out of the default policies: %s", report.Printable(traceName(path)), why)
	}
	if len(jobs) == 0 {
		return nil, errors.New("no default policy makes sense at these sizes: name one with --policy")
	}
	if r.pairs[0].gpu.implied {
		r.sized = append(r.sized, defaultSize{pages, jobs[0].GPUFrames})
	}
	return jobs, nil
}

func (r *replayer) options() sim.Options {
	o := sim.Options{Bound: !r.noBound, Workers: r.workers, Timed: r.timing()}
	if o.Timed != nil {
		o.Model = r.model.get()
	}
	return o
}

// add adds a trace's results, with the modelled times, to the report.
func (r *replayer) add(jobs []job, results []sim.Result) {
	if r.model != nil && r.report.Model == nil {
		r.report.Model = r.model.get()
	}
	for i, res := range results {
		if r.report.Model != nil {
			res.AddModel(r.report.Model)
		}
		r.report.Results = append(r.report.Results, res)
		r.report.Labels = append(r.report.Labels, jobs[i].label)
	}
}
