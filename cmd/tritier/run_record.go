package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"sync"
	"time"

	lib "github.com/tritier/tritier"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/sim/trace"
	"github.com/tritier/tritier/tier"
)

// recorder writes page accesses as a trace. Nil records nothing.
type recorder struct {
	file    *output
	head    trace.Header
	sample  int
	mu      sync.Mutex // with engine gpu, accesses come from a goroutine of their own
	w       *trace.Writer
	arrays  map[string]uint32
	begun   time.Time
	buf     []trace.Record
	records uint64
	seen    [][]uint64 // of a sample: pages of each array that were accessed, a bit each
	fresh   bool       // the next record begins a request
	stopped bool
	err     error
}

// observers are what listens to a run: only the first run of a policy is recorded.
func (r *runner) observers(p namedPolicy, n int) (*recorder, *timeline) {
	if n > 0 {
		return nil, nil
	}
	var rec *recorder
	if file := r.recordOf(p); file != nil {
		h := trace.Header{PageSize: uint64(r.config.PageSize), Source: r.source(0),
			Generator:     fmt.Sprintf("%s; policy %s; seed %d", r.program.Describe(), p.spec, r.f.seed),
			PageAddressed: true, Writes: true, Times: true, Requests: true}
		rec = &recorder{file: file, head: h, sample: r.f.sample, w: trace.NewWriter(file, h), begun: time.Now(), fresh: true, buf: make([]trace.Record, 0, 4096)}
	}
	return rec, newTimeline(r.runFiles.timeline, r.name+", "+p.label)
}

// recordOf is the file for a policy's trace, or nil.
func (r *runner) recordOf(p namedPolicy) *output {
	for i, file := range r.records {
		if r.policies[i].label == p.label {
			return file
		}
	}
	return nil
}

// source is where a trace comes from. What is not known before its end has room.
func (r *runner) source(lost uint64) string {
	s := "recorded by tritier run " + r.name
	if r.f.sample > 1 {
		s += fmt.Sprintf(", accesses to 1 in %d pages", r.f.sample)
	}
	if r.f.engine != lib.EngineGPU {
		return s
	}
	more := ", complete"
	if lost > 0 {
		more = fmt.Sprintf(", INCOMPLETE: %d accesses are missing", lost)
	}
	return s + fmt.Sprintf("%-60s", more)
}

// observe listens to the accesses of a run. Arrays are numbered in the order in which
// they are made.
func (c *recorder) observe(cfg *lib.Config, names []string) {
	if c == nil {
		return
	}
	cfg.Observe, cfg.ObserveEvery = c.access, c.sample
	c.arrays = map[string]uint32{}
	for i, n := range names {
		c.arrays[n] = uint32(i)
	}
}

// boundary says that the next access begins a request: a launch.
func (c *recorder) boundary() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fresh = true
}

// access takes an access over.
func (c *recorder) access(a lib.Access) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped || c.err != nil {
		return
	}
	array, known := c.arrays[a.Array]
	if !known {
		c.err = fmt.Errorf("an access of array %q, which the workload does not name", a.Array)
		return
	}
	r := trace.Record{Addr: a.Page, Array: array, Time: uint64(time.Since(c.begun)), Flags: trace.PageAddressed}
	switch a.Op {
	case tier.Write:
		r.Op = trace.Write
	case tier.Overwrite:
		r.Op, r.Flags = trace.Write, r.Flags|trace.WholePage
	case tier.Prefetch:
		r.Op = trace.Prefetch
	}
	if c.fresh {
		r.Flags, c.fresh = r.Flags|trace.RequestStart, false
	}
	c.records++
	if c.sample > 1 {
		c.note(array, a.Page)
	}
	if c.buf = append(c.buf, r); len(c.buf) == cap(c.buf) {
		c.flush()
	}
}

// note remembers a page of a sample.
func (c *recorder) note(array uint32, page uint64) {
	for len(c.seen) <= int(array) {
		c.seen = append(c.seen, nil)
	}
	list := c.seen[array]
	for uint64(len(list)) <= page/64 {
		list = append(list, 0)
	}
	list[page/64] |= 1 << (page % 64)
	c.seen[array] = list
}

// share is the part of so many pages that was recorded: about one in as many as was asked
// for.
func (c *recorder) share(pages uint64) float64 {
	if c.sample <= 1 || pages == 0 {
		return 1
	}
	n := 0
	for _, list := range c.seen {
		for _, w := range list {
			n += bits.OnesCount64(w)
		}
	}
	return float64(n) / float64(pages)
}

func (c *recorder) flush() {
	if c.err == nil {
		c.err = c.w.Write(c.buf)
	}
	c.buf = c.buf[:0]
}

// failed is what went wrong with the file so far.
func (c *recorder) failed() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return nil
	}
	return fmt.Errorf("--record: %w", c.err)
}

// stop ends the recording and returns how much was recorded. A trace that lacks
// accesses gets a header that says so.
func (c *recorder) stop(source string, lost uint64) uint64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush()
	c.stopped = true
	if err := c.w.Close(); c.err == nil {
		c.err = err
	}
	if c.head.Source = source; lost > 0 && c.err == nil {
		c.err = c.amend()
	}
	return c.records
}

// amend puts the header into the file that is there.
func (c *recorder) amend() error {
	if err := c.file.buffer.Flush(); err != nil {
		return err
	}
	if c.file.temporary == "" {
		return errors.New("accesses are missing in the trace, and it is not a file, in which that could be said")
	}
	f, err := os.OpenFile(c.file.temporary, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = trace.ReplaceHeader(f, info.Size(), c.file.name, c.head)
	}
	return errors.Join(err, f.Close())
}

// simulate replays the recorded trace with the sizes, policy and seed of the run. A sample
// of the pages is replayed as a miniature, whose counts stand for as many times more.
func (r *runner) simulate(ctx context.Context, c *recorder, spec placement.Spec, x *runOnce) error {
	if c == nil {
		return nil
	}
	if err := c.failed(); err != nil {
		return err
	}
	if c.sample > 1 && c.share(x.pages) == 0 {
		return nil // of so few pages none was chosen
	}
	if err := c.file.buffer.Flush(); err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	if c.file.temporary == "" || len(c.file.layers) > 0 {
		return nil // a pipe cannot be read again, and a compressed file is not complete yet
	}
	f, err := os.Open(c.file.temporary)
	if err != nil {
		return fmt.Errorf("--record: reading the trace back: %w", err)
	}
	reader, err := trace.New(f, c.file.name, trace.Options{})
	if err != nil {
		return errors.Join(fmt.Errorf("--record: %w", err), f.Close())
	}
	s := sim.NewStream(reader, c.file.name, uint64(x.about.PageSize))
	stop := startProgress(r.stderr, "simulating "+r.name, s.Progress)
	env := x.frames()
	share := c.share(x.pages)
	part := func(frames int) int { return int(math.Ceil(float64(frames) * share)) }
	job := sim.Job{Policy: spec.Scaled(share), GPUFrames: part(env.T1Frames), HostFrames: part(env.T2Frames), Seed: env.Seed}
	results, err := sim.ReplayStream(ctx, s, []sim.Job{job}, sim.Options{})
	stop()
	err = errors.Join(err, s.Close(), f.Close())
	if err != nil {
		return err
	}
	x.estimate, x.sample = uint64(math.Round(float64(results[0].Counters.SSDReads())/share)), c.sample
	if c.sample == 1 {
		x.simulated, x.simulatedPlacer = &results[0].Counters, results[0].Placer
	}
	return nil
}
