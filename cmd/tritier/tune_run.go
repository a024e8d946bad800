package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/sim/report"
	"github.com/tritier/tritier/sim/trace"
	"github.com/tritier/tritier/sim/trace/bundled"
	"github.com/tritier/tritier/sim/tune"
)

// tuner runs one tritier tune.
type tuner struct {
	*tuneFlags
	paths          []string // empty: the bundled trace
	stdin          io.Reader
	stdout, stderr io.Writer

	pairs   []sizePair
	problem tune.Problem
	page    *output // of --html
}

// check reads the flags.
func (t *tuner) check() error {
	if err := t.checkEffort(); err != nil {
		return err
	}
	inputs := replayFlags{trace: t.trace}
	if err := inputs.checkInputs(t.paths); err != nil {
		return err
	}
	sized := len(t.sizes.gpuMem)+len(t.sizes.gpuFrames)+len(t.sizes.hostMem)+len(t.sizes.hostFrames) > 0
	if err := t.budget.check(sized); err != nil {
		return err
	}
	var err error
	if t.pairs, err = t.sizes.pairs(); err != nil {
		return err
	}
	p := &t.problem
	if p.Objective, err = t.readObjective(); err != nil {
		return err
	}
	if p.Space, err = t.space.space(); err != nil {
		return err
	}
	if t.model != noModel {
		if p.Model, err = servicetime.Load(t.model); err != nil {
			return fmt.Errorf("--model: %w", err)
		}
	} else if p.Objective.Time > 0 {
		return errors.New("--model none: there are no modelled times then: name another --objective")
	}
	p.MaxWriteBytesPerDay, p.Seed = float64(t.writes), t.seed
	p.Candidates, p.Finalists, p.Seeds, p.MinPages, p.MinFrames = t.candidates, t.finalists, t.seeds, t.minPages, t.minFrames
	return t.refuseInputs()
}

// refuseInputs refuses outputs that are inputs, and outputs that are the same.
func (t *tuner) refuseInputs() error {
	inputs := slices.Clone(t.paths)
	if t.space.file != "" {
		inputs = append(inputs, t.space.file)
	}
	outputs := []struct{ flag, path string }{{"--html", t.html}, {"--out", t.out}, {"--state", t.state}}
	for i, o := range outputs {
		if o.path == "" {
			continue
		}
		if o.path == "-" {
			return fmt.Errorf("%s writes a file: name one; standard output has the report", o.flag)
		}
		if err := refuseInput(o.path, t.stdout, inputs, t.stdin); err != nil {
			return fmt.Errorf("%s %w", o.flag, err)
		}
		for _, other := range outputs[:i] {
			if other.path != "" && sameFile(o.path, other.path) {
				return fmt.Errorf("%s and %s both write %s: name two files", other.flag, o.flag, o.path)
			}
		}
	}
	return nil
}

// openOutputs finds out before the run whether files can be written.
func (t *tuner) openOutputs() error {
	if t.out != "" {
		if err := checkPolicyFile(t.out); err != nil {
			return fmt.Errorf("--out %w", err)
		}
	}
	if t.html == "" {
		return nil
	}
	if err := htmlDocument.check(t.html); err != nil {
		return fmt.Errorf("--html %w", err)
	}
	var err error
	if t.page, err = createOutput(t.html, nil); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}

// checkPolicyFile refuses to write a policy over something else, or where no
// file can be made.
func checkPolicyFile(path string) error {
	if _, err := os.Lstat(path); err == nil {
		if _, err := placement.LoadFile(path); err != nil {
			return fmt.Errorf("%s: exists and is no saved policy: delete it, or name another file", path)
		}
	}
	if err := mayCreateIn(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%s: cannot be created: %w", path, err)
	}
	return nil
}

func (t *tuner) discard() {
	if t.page != nil {
		_ = t.page.discard() // what failed before it is what the user hears of
		t.page = nil
	}
}

func (t *tuner) say(format string, args ...any) {
	_, _ = fmt.Fprintf(t.stderr, "tritier: "+format+"\n", args...) // nowhere else to report to
}

// pathAt is the name of trace i.
func (t *tuner) pathAt(i int) string {
	if len(t.paths) == 0 {
		return ""
	}
	return t.paths[i]
}

// load reads the traces and sizes the tiers.
func (t *tuner) load(ctx context.Context) error {
	var known []pages
	for i := range max(len(t.paths), 1) {
		in, err := t.loadOne(ctx, t.pathAt(i))
		if err != nil {
			return of(t.pathAt(i), err)
		}
		known = append(known, pages{in.Trace.Info.Pages, in.Trace.Info.PageSize})
		t.problem.Traces = append(t.problem.Traces, in)
	}
	var err error
	t.problem.Sizes, err = t.tierSizes(known)
	return err
}

func (t *tuner) loadOne(ctx context.Context, path string) (in tune.Input, err error) {
	var r trace.Reader
	if path == "" {
		r, err = bundled.Open()
	} else {
		r, err = t.trace.open(ctx, path, t.stdin)
	}
	if err != nil {
		return in, t.cut(ctx, path, err)
	}
	timed := &timedReader{Reader: r}
	t.trace.note(t.stderr, traceName(path), infoOf(r))
	if why := streamReason(path, infoOf(r).Compression); path != "" && why != "" {
		t.say("%s: a trace to tune for is kept in memory, and this one may be too large for it", report.Printable(path))
	}
	s := sim.NewStream(timed, traceName(path), t.trace.pageSizeFor(infoOf(r)))
	stop := startProgress(t.stderr, "reading "+report.Printable(traceName(path)), s.Progress)
	in.Trace, err = sim.Load(ctx, s, nil)
	stop()
	if err = errors.Join(err, s.Close()); err != nil {
		return in, t.cut(ctx, path, err)
	}
	in.Train = int(math.Round(t.train * float64(len(in.Trace.Accesses))))
	if in.Seconds = timed.seconds(); t.rate > 0 {
		in.Seconds = float64(in.Trace.Info.Accesses) / t.rate
	}
	return in, nil
}

// cut makes the end of ctx an error that says what was going on.
func (t *tuner) cut(ctx context.Context, path string, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return &interruption{"while reading " + report.Printable(traceName(path)) + ": no results yet"}
	}
	return err
}

// search tunes and writes what is known, whatever ended it.
func (t *tuner) search(ctx context.Context) error {
	var ev tune.Evaluator = tune.NewLocal(t.problem.ByHash(), t.workers)
	var journal *tune.Journal
	if t.state != "" {
		var err error
		if journal, err = tune.OpenJournal(t.state, t.problem.Hashes(), ev); err != nil {
			return fmt.Errorf("--state %w", err)
		}
		if journal.Resumed > 0 {
			t.say("%s: going on from %s", report.Printable(t.state), plural(uint64(journal.Resumed), "evaluation"))
		}
		ev = journal
	}
	var done, total atomic.Int64 // a bar in another goroutine reads them
	stop := startProgress(t.stderr, "tuning", func() (int64, int64) { return done.Load(), total.Load() })
	r, err := tune.Run(ctx, &t.problem, ev, func(_ string, d, of float64) {
		done.Store(int64(d))
		total.Store(int64(of))
	})
	stop()
	if journal != nil {
		err = errors.Join(err, journal.Close())
	}
	if r == nil {
		return err
	}
	return errors.Join(t.write(r), err)
}

// write writes the report; the files only of a complete run.
func (t *tuner) write(r *tune.Report) error {
	out := &report.Tune{Report: r, Command: commandLine(), Model: t.problem.Model}
	if len(t.paths) == 0 {
		out.About = aboutBundled
	}
	var failures []error
	switch {
	case r.Interrupted && (t.out != "" || t.page != nil):
		t.say("no policy or page was written: the search is not complete")
	case t.out != "":
		if err := t.save(r); err != nil {
			failures = append(failures, fmt.Errorf("--out: %w", err))
		} else {
			out.Saved = t.out
		}
	}
	if page := t.page; page != nil && !r.Interrupted {
		t.page = nil
		failures = append(failures, finish(page, out.HTML))
	}
	b := bufio.NewWriter(t.stdout)
	write := out.Table
	if t.json {
		write = out.JSON
	}
	if err := errors.Join(write(b), b.Flush()); err != nil {
		failures = append(failures, fmt.Errorf("standard output: %w", firstOf(err)))
	}
	return errors.Join(failures...)
}

// save writes the best policy, with a note of where it comes from.
func (t *tuner) save(r *tune.Report) error {
	best := r.Winner()
	spec, err := best.Spec()
	if err != nil {
		return err
	}
	notes := []string{"Found by tritier tune, seed " + fmt.Sprint(r.Seed) + ", for:"}
	for i, tr := range r.Traces {
		f := r.Sizes[best.Size].Frames[i]
		notes = append(notes, fmt.Sprintf("  %s with %d + %d frames of %d bytes", report.Printable(tr.Name), f[0], f[1], tr.PageSize))
	}
	return placement.SaveFile(t.out, spec, notes...)
}
