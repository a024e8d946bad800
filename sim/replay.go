package sim

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim/timed"
	"github.com/tritier/tritier/tier"
)

// Options apply to all jobs of a replay.
type Options struct {
	Bound   bool               // compute Belady's bound for each size
	Model   *servicetime.Model // modelled times; nil: none
	Timed   *Timing            // nil: no virtual time; it needs Model
	Workers int                // goroutines; 0: one for each core
	// Progress, if not nil, is called from several goroutines with accesses
	// done and in total, over all jobs; total is 0 while it is unknown.
	Progress func(done, total uint64)
}

// block is how many accesses run between looks at the context.
const block = 1 << 16

// Replay runs jobs over a trace in memory. When ctx ends it returns the
// results so far, with Complete false where a job was cut short, and ctx's
// error. A job that cannot be built (unknown frames, too few) is an error
// before anything runs. Each job's tables live only while it runs.
func Replay(ctx context.Context, t *Trace, jobs []Job, o Options) ([]Result, error) {
	if err := errors.Join(tryJobs(jobs), o.tryTimed(t.Info.PageSize)); err != nil {
		return nil, err
	}
	bounds := newBounds(jobs, t.Info.Pages, o.Bound)
	total := uint64(len(t.Accesses)) * uint64(len(jobs)+len(bounds.list))
	var done atomic.Uint64
	tick := func(n int) {
		if now := done.Add(uint64(n)); o.Progress != nil {
			o.Progress(now, total)
		}
	}
	results := make([]Result, len(jobs))
	g := newGroup(o.Workers)
	for i, j := range jobs {
		g.Go(func() (err error) {
			results[i], err = replayOne(ctx, t, j, o, tick)
			return err
		})
	}
	for _, b := range bounds.list {
		g.Go(func() error {
			return inBlocks(ctx, t.Accesses, tick, func(accs []tier.Access) { b.Run(accs, t.Info.Pages) })
		})
	}
	err := g.Wait()
	for i := range results {
		results[i].finish(jobs[i], t.Info, bounds, o, uint64(len(t.Accesses)))
	}
	return results, err
}

// replayOne runs one job from its first access to its last, or until ctx ends.
func replayOne(ctx context.Context, t *Trace, j Job, o Options, tick func(int)) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err // not begun: no counts
	}
	r, err := newRun(j, t.Info.Pages, t)
	if err != nil {
		return Result{}, err
	}
	if err := r.time(o, t.Info.PageSize); err != nil {
		return Result{}, err
	}
	err = inBlocks(ctx, t.Accesses, tick, r.accesses(t.Info.Pages))
	return r.resultTimed(err)
}

func newGroup(workers int) *errgroup.Group {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	g := new(errgroup.Group)
	g.SetLimit(workers)
	return g
}

// inBlocks hands accs to f block by block until ctx ends.
func inBlocks(ctx context.Context, accs []tier.Access, tick func(int), f func([]tier.Access)) error {
	for len(accs) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(block, len(accs))
		f(accs[:n])
		tick(n)
		accs = accs[n:]
	}
	return nil
}

// run is one job in progress.
type run struct {
	job     Job
	policy  *placement.Policy
	machine *tier.Machine
	prefix  *prefixCounter
	timed   *timed.Replay // nil: moves take no time
	timing  Timing
}

// tryJobs builds every job for no pages at all, which costs little and finds
// what would stop it.
func tryJobs(jobs []Job) error {
	if len(jobs) == 0 {
		return errors.New("sim: no jobs")
	}
	for _, j := range jobs {
		if _, err := newRun(j, 0, &Trace{}); err != nil {
			return err
		}
	}
	return nil
}

// newRun builds one job's policy and machine; t is nil for a stream.
func newRun(j Job, pages int, t *Trace) (*run, error) {
	r, err := buildRun(j, pages, t)
	if err != nil {
		return nil, fmt.Errorf("sim: %s with %d GPU and %d host frames: %w", j.Policy, j.GPUFrames, j.HostFrames, err)
	}
	return r, nil
}

func buildRun(j Job, pages int, t *Trace) (*run, error) {
	env := placement.Env{T1Frames: j.GPUFrames, T2Frames: j.HostFrames, Pages: pages, Seed: j.Seed}
	if t != nil && j.Policy.NeedsFuture() {
		f, err := placement.NewFuture(packed(t.Accesses), pages)
		if err != nil {
			return nil, err
		}
		env.Future = f
	}
	p, err := j.Policy.Build(env)
	if err != nil {
		return nil, err
	}
	m, err := tier.New(tier.Config{Pages: pages, T1: p.T1, T2: p.T2, Placer: p.Placer, KeepT2Copy: p.KeepT2Copy, Future: env.Future})
	if err != nil {
		return nil, err
	}
	r := &run{job: j, policy: p, machine: m}
	if t != nil && len(t.Requests) > 0 {
		r.prefix = newPrefixCounter(t.Requests)
		m.OnMiss(r.prefix.watch(), r.prefix.miss)
	}
	return r, nil
}

// result is what r's machine counted so far.
func (r *run) result() Result {
	c := r.machine.Counters()
	res := Result{Counters: c, SSDReads: c.SSDReads(), positions: r.machine.Position()}
	if r.prefix != nil {
		hits := r.prefix.hits(r.machine.Position())
		res.PrefixHits = &hits
	}
	switch p := r.policy.Placer.(type) {
	case *placement.GMTReuse:
		res.Placer = p.Report()
	case *placement.Adaptive:
		res.Placer = p.Report()
	}
	return res
}

// finish adds what does not come from the machine. length is the number of
// trace positions that a complete run has behind it.
func (r *Result) finish(j Job, info TraceInfo, b bounds, o Options, length uint64) {
	r.Trace, r.Policy, r.GPUFrames, r.HostFrames, r.Seed = info, j.Policy.String(), j.GPUFrames, j.HostFrames, j.Seed
	r.Complete = r.positions == length
	if bound := b.of(j); bound != nil && r.Complete && bound.Positions() == length {
		reads := bound.Reads()
		r.BoundReads = &reads
	}
	if o.Model != nil {
		r.AddModel(o.Model)
	}
}

// AddModel adds the times that a machine like m's would need for the counts, as
// Options.Model does.
func (r *Result) AddModel(m *servicetime.Model) {
	e := m.Estimate(servicetime.Counts{
		Accesses: r.Accesses, T1Hits: r.T1Hits, T2Hits: r.T2Hits, T3Reads: r.SSDReads,
		T3Writes: r.Writebacks + r.FinalDirty, Demotions: r.Demotions - r.CopiesSaved, PageSize: r.Trace.PageSize,
	})
	r.Model, r.ModelledSeconds, r.ModelledSerial, r.ModelledEdges = m.Name, &e.Seconds, &e.SerialSeconds, e.Edges
}

// bounds holds one Bound for each distinct sum of frames.
type bounds struct {
	byFrames map[int]*Bound
	list     []*Bound
}

func newBounds(jobs []Job, pages int, want bool) bounds {
	b := bounds{byFrames: map[int]*Bound{}}
	for _, j := range jobs {
		frames := j.GPUFrames + j.HostFrames
		if want && b.byFrames[frames] == nil {
			b.byFrames[frames] = NewBound(frames, pages)
			b.list = append(b.list, b.byFrames[frames])
		}
	}
	return b
}

func (b bounds) of(j Job) *Bound { return b.byFrames[j.GPUFrames+j.HostFrames] }
