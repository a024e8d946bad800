package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	lib "github.com/tritier/tritier"
	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/libnvm/volume"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/host"
	"github.com/tritier/tritier/workload"
)

// runOnce is what one run came to.
type runOnce struct {
	about       lib.Description
	what        string // the workload's description
	bytes       uint64 // of all arrays
	form        string // of the program
	setup, took time.Duration
	span        time.Duration // of kernels, by the GPU's events
	flush       time.Duration
	checked     time.Duration // by the comparison with the reference, which the first run computes
	other       time.Duration // outside all of these: opening, closing, and simulating what was recorded
	before      lib.Stats     // at the start of the run
	after       lib.Stats     // at its end, before what is dirty was flushed
	end         lib.Stats     // after the flush
	cpu         time.Duration // of the process, in the run
	service     time.Duration // of it, that the drives' threads used
	serviceSaid bool
	verified    bool
	pages       uint64 // of all arrays
	sample      int    // one in so many pages was recorded, 0: none
	records     uint64
	lost        uint64 // accesses that the recording was too slow for

	// Of the simulation of the recorded trace: its counts, what its placer reports (nil: nothing),
	// and SSD reads, filling included.
	simulated       *tier.Counters
	simulatedPlacer any
	estimate        uint64

	timeline      map[string]uint64 // what the timeline has; nil without one
	timelineLacks string            // and what not
}

// during is what the counters counted in the run.
func (o *runOnce) during(pick func(*tier.Counters) uint64) uint64 {
	return pick(&o.after.Counters) - pick(&o.before.Counters)
}

// edge is what passed between two tiers in the run.
func (o *runOnce) edge(name string) (pages, bytes uint64) {
	for i, n := range host.EdgeNames {
		if n == name {
			return o.after.Edges[i].Pages - o.before.Edges[i].Pages, o.after.Edges[i].Bytes - o.before.Edges[i].Bytes
		}
	}
	return 0, 0
}

// once makes a memory, runs the workload in it and closes it. What is wrong after
// the run leaves its figures: they come with the error.
func (r *runner) once(ctx context.Context, p namedPolicy, n int) (one *runOnce, err error) {
	begun := time.Now()
	defer func() {
		if one != nil {
			one.other = time.Since(begun) - one.setup - one.took - one.flush - one.checked
		}
	}()
	rec, line := r.observers(p, n)
	c, w := r.config, r.program
	c.Policy = p.label
	rec.observe(&c, w.Arrays())
	line.observe(&c)
	c.EventsEvery = r.f.traceSample
	if c.Engine == lib.EngineGPU {
		d, err := openCUDA()
		if err != nil { // before a store is made
			return nil, fmt.Errorf("--engine gpu needs an NVIDIA GPU: %w; tritier doctor says more", err)
		}
		c.Driver = d
	}
	door, err := r.listen()
	if err != nil { // before a store is made
		return nil, err
	}
	defer door.close()
	mem, err := lib.Open(ctx, c)
	if err != nil {
		return nil, openHint(err, c.Store)
	}
	r.launched = func(l workload.Launch) {
		line.launched(l)
		if c.Engine == lib.EngineGPU {
			line.counts(mem)
		}
		rec.boundary()
	}
	made := false
	defer func() {
		// The end of ctx does not keep the store from being left whole.
		err = errors.Join(err, r.leave(context.WithoutCancel(ctx), mem, w, made))
	}()
	served, err := door.serve(r.name+" "+p.label, mem)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, served()) }()
	if err := r.makeRoom(ctx, mem, w); err != nil {
		return nil, err
	}
	made = true
	x := &runOnce{about: mem.Describe(), form: r.f.form()}
	if err := x.measure(ctx, r, mem, w, rec, line); err != nil {
		return nil, r.roomHint(err)
	}
	one = x
	x.what, x.bytes = w.Describe(), w.Size()
	if err := mem.Check(); err != nil {
		return one, err
	}
	if err := x.verify(ctx, r, mem, w, line); err != nil {
		return one, err
	}
	if err := line.traced(ctx, mem); err != nil {
		return one, err
	}
	if x.timeline, x.timelineLacks, err = line.end(); err != nil {
		return one, err
	}
	return one, r.simulate(ctx, rec, p.spec, x)
}

// openHint says of an error of Open what to do on the command line.
func openHint(err error, store string) error {
	if errors.Is(err, fs.ErrNotExist) && !strings.Contains(store, "size=") {
		return fmt.Errorf("%w: to make a file, give its size: file:PATH?size=SIZE", err)
	}
	var taken *volume.NotEmptyError
	if !errors.As(err, &taken) {
		return err
	}
	var format *volume.FormatError
	why := ""
	if errors.As(err, &format) {
		why = fmt.Sprintf(" (%s: %s)", format.Member, format.Reason)
	}
	return fmt.Errorf("%s holds %s, and the drives given do not make up a store%s: name all of the store's, or others, or remove what is there", taken.Member, taken.Found, why)
}

// roomHint says what to do when the arrays do not fit into the store.
func (r *runner) roomHint(err error) error {
	var room *volume.NoSpaceError
	if !errors.As(err, &room) {
		return err
	}
	return fmt.Errorf("%w: the arrays take %s together: give a larger store (what is there keeps its size: name files that are not there yet, with a larger ?size=), or a smaller --size",
		err, units.FormatBytes(r.planned))
}

// verify compares the result with the reference, unless that is not wanted.
func (x *runOnce) verify(ctx context.Context, r *runner, mem *lib.Memory, w workload.Workload, line *timeline) error {
	if !r.f.verify {
		return nil
	}
	stop := startProgress(r.stderr, "verifying "+r.name, unknownProgress)
	defer stop()
	begun := time.Now()
	err := line.phase("verify", func() error { return w.Verify(ctx, mem) })
	x.checked = time.Since(begun)
	if err != nil {
		return fmt.Errorf("verification failed: %w", err)
	}
	x.verified = true
	return nil
}

// measure fills the arrays, runs the program and writes back what is dirty.
func (x *runOnce) measure(ctx context.Context, r *runner, mem *lib.Memory, w workload.Workload, rec *recorder, line *timeline) (err error) {
	timed := func(name, doing string, took *time.Duration, f func() error) error {
		stop := startProgress(r.stderr, doing+" "+r.name, w.Progress)
		defer stop()
		begun := time.Now()
		err := line.phase(name, f)
		*took = time.Since(begun)
		return errors.Join(err, rec.failed())
	}
	if err := timed("setup", "filling", &x.setup, func() error { return w.Setup(ctx, mem) }); err != nil {
		return err
	}
	p, err := r.prepare(mem, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	for _, a := range mem.Arrays() {
		if slices.Contains(w.Arrays(), a.Name) {
			x.pages += a.Pages
		}
	}
	rec.boundary()
	x.before = mem.Stats()
	cpu, service := cpuTime(unix.RUSAGE_SELF), serviceTime(mem)
	if err := timed("run", "running", &x.took, func() error { return p.run(ctx) }); err != nil {
		return err
	}
	x.cpu, x.service = cpuTime(unix.RUSAGE_SELF)-cpu, serviceTime(mem)-service
	_, x.serviceSaid = mem.ServiceCPU()
	x.span = p.span()
	x.after = mem.Stats()
	seen, err := mem.Observed(ctx)
	x.records, x.lost = rec.stop(r.source(seen.Lost), seen.Lost), seen.Lost
	if err != nil {
		return err
	}
	if err := timed("flush", "flushing", &x.flush, func() error { return mem.Flush(ctx) }); err != nil {
		return err
	}
	x.end = mem.Stats()
	return nil
}

func serviceTime(mem *lib.Memory) time.Duration {
	used, _ := mem.ServiceCPU()
	return used
}

// found lists the workload's arrays that the store has.
func found(mem *lib.Memory, w workload.Workload) (names []string) {
	for _, a := range mem.Arrays() {
		if slices.Contains(w.Arrays(), a.Name) {
			names = append(names, a.Name)
		}
	}
	return names
}

// drop drops them.
func drop(ctx context.Context, mem *lib.Memory, w workload.Workload) (err error) {
	for _, n := range found(mem, w) {
		err = errors.Join(err, mem.DropArray(ctx, n))
	}
	return err
}

// makeRoom refuses a store that has an array of the workload already, unless it may go.
func (r *runner) makeRoom(ctx context.Context, mem *lib.Memory, w workload.Workload) error {
	if r.f.replace {
		return drop(ctx, mem, w)
	}
	if names := found(mem, w); len(names) > 0 {
		return fmt.Errorf("the store %s holds an array %q already, from a run with --keep or one that was killed: --replace drops it", r.config.Store, names[0])
	}
	return nil
}

// leave closes the memory, without the workload's arrays unless they are to be kept.
func (r *runner) leave(ctx context.Context, mem *lib.Memory, w workload.Workload, made bool) error {
	var err error
	if made && !r.f.keep {
		err = drop(ctx, mem, w)
	}
	return errors.Join(err, mem.Close(ctx))
}

// frames are the sizes of the tiers in pages.
func (x *runOnce) frames() placement.Env {
	return placement.Env{T1Frames: x.about.T1.Pages, T2Frames: x.about.T2.Pages, Seed: x.about.Seed}
}
