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
}

// say tells the user something that is no result.
func (r *replayer) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.stderr, "tritier: "+format+"\n", args...) // nowhere else to report to
}

// all fills the report. When ctx ends it holds the results so far, and the
// error is ctx's.
func (r *replayer) all(ctx context.Context) error {
	r.report.Command, r.report.Model = commandLine(), r.model
	r.report.About = r.about()
	if err := r.tryAll(); err != nil {
		return err
	}
	paths := r.paths
	if slices.Contains(paths, "-") {
		r.stdin = interruptible(ctx, r.stdin)
	}
	if len(paths) == 0 {
		paths = []string{""}
	}
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.one(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// about says what the reader of the report is looking at.
func (r *replayer) about() string {
	switch {
	case len(r.paths) == 0 && !r.sizedBy:
		return "Bundled trace: KV-cache blocks that conversations asked of an LLM server (Mooncake, FAST 2025, Apache-2.0).\n" +
			"T1 is 5 % of its distinct pages, T2 four times T1. Yours: tritier replay --gpu-mem 16GiB --host-mem 64GiB TRACE"
	case len(r.paths) == 0:
		return "Bundled trace: KV-cache blocks that conversations asked of an LLM server (Mooncake, FAST 2025, Apache-2.0)."
	case !r.sizedBy:
		return "No sizes were given: T1 is 5 % of the trace's distinct pages, T2 four times T1."
	}
	return ""
}

// tryAll opens every file of several once, so that a wrong name at the end of
// the list is not found after an hour.
func (r *replayer) tryAll() error {
	if len(r.paths) < 2 {
		return nil
	}
	for _, p := range r.paths {
		if st, err := os.Stat(p); err == nil && !st.Mode().IsRegular() && !st.IsDir() || p == "-" {
			continue // a pipe can be opened only once
		}
		t, err := r.open(p)
		if err != nil {
			return err
		}
		if err := t.Close(); err != nil {
			return err
		}
	}
	return nil
}

// open opens a trace; "" is the bundled one.
func (r *replayer) open(path string) (trace.Reader, error) {
	o := trace.Options{Format: r.trace.format, Order: r.trace.order, Columns: r.columns}
	switch path {
	case "":
		return bundled.Open()
	case "-":
		return trace.New(r.stdin, "standard input", o)
	}
	return trace.Open(path, o)
}

// source opens a trace as a stream of pages.
func (r *replayer) source(path string) (*sim.Stream, error) {
	t, err := r.open(path)
	if err != nil {
		return nil, err
	}
	name := path
	switch path {
	case "":
		name = bundled.Name
	case "-":
		name = "standard input"
	}
	return sim.NewStream(t, name, r.trace.pageSizeFor(infoOf(t))), nil
}

// one replays one trace and adds its results to the report.
func (r *replayer) one(ctx context.Context, path string) error {
	s, err := r.source(path)
	if err != nil {
		return err
	}
	streaming := r.stream || r.onePass(path)
	if !streaming && path != "" && path != "-" {
		if why := streamReason(path, s.Info().Compression); why != "" {
			r.say("%s: %s", path, why)
			streaming = true
		}
	}
	if streaming {
		err = r.streamed(ctx, path, s)
	} else {
		err = r.loaded(ctx, s)
	}
	return errors.Join(err, s.Close())
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
func (r *replayer) loaded(ctx context.Context, s *sim.Stream) error {
	stop := startProgress(r.stderr, "reading "+s.Info().Name, s.Progress)
	t, err := sim.Load(ctx, s, nil)
	stop()
	if err != nil {
		return err
	}
	jobs, err := r.jobs(t.Info.Pages, t.Info.PageSize)
	if err != nil {
		return err
	}
	o := r.options()
	var done, total atomic.Int64 // a bar in another goroutine reads them
	o.Progress = func(d, of uint64) {
		done.Store(int64(d))
		total.Store(int64(of))
	}
	stop = startProgress(r.stderr, "replaying "+t.Info.Name, func() (int64, int64) { return done.Load(), total.Load() })
	results, err := sim.Replay(ctx, t, simJobs(jobs), o)
	stop()
	r.add(jobs, results)
	return err
}

// streamed runs the jobs while the trace is read. Sizes that depend on the
// number of distinct pages need a pass of their own before that.
func (r *replayer) streamed(ctx context.Context, path string, s *sim.Stream) error {
	pages := 0
	if needsPages(r.pairs) {
		var err error
		if pages, err = r.countPages(ctx, path); err != nil {
			return err
		}
	}
	jobs, err := r.jobs(pages, s.Info().PageSize)
	if err != nil {
		return err
	}
	stop := startProgress(r.stderr, "replaying "+s.Info().Name, s.Progress)
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
	s, err := r.source(path)
	if err != nil {
		return 0, err
	}
	stop := startProgress(r.stderr, "counting pages of "+s.Info().Name, s.Progress)
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
func (r *replayer) jobs(pages int, pageSize uint64) ([]job, error) {
	jobs, skipped, err := makeJobs(r.policies, r.pairs, r.byDefault, pages, pageSize, r.seed)
	if err != nil {
		return nil, err
	}
	for _, why := range skipped {
		r.say("left out of the default policies: %s", why)
	}
	if len(jobs) == 0 {
		return nil, errors.New("no default policy makes sense at these sizes: name one with --policy")
	}
	return jobs, nil
}

func (r *replayer) options() sim.Options {
	return sim.Options{Bound: !r.noBound, Model: r.model, Workers: r.workers}
}

func (r *replayer) add(jobs []job, results []sim.Result) {
	for i, res := range results {
		r.report.Results = append(r.report.Results, res)
		r.report.Labels = append(r.report.Labels, jobs[i].label)
	}
}
