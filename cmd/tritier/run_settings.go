package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	lib "github.com/tritier/tritier"
	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/workload"
)

// Defaults of tritier run: a tenth of the data and four tenths, as in the GMT paper.
const (
	defaultRunSize   = 64 << 20
	defaultT1Percent = 10
	t2Factor         = 4
	// storeSpare is what a store of memory has beside the arrays: its own tables,
	// and the rest of each array's last page.
	storeSpare = 64 << 20
)

// runSettings is a checked command line.
type runSettings struct {
	f        *runFlags
	name     string
	params   workload.Params
	policies []namedPolicy
	config   lib.Config        // but for the policy
	program  workload.Workload // of all runs: it keeps what it has generated, and its reference
	launched func(workload.Launch)
	planned  uint64 // bytes of all arrays
}

// settings finds everything that is wrong before anything is opened.
func (f *runFlags) settings(name string) (*runSettings, error) {
	s := &runSettings{f: f, name: name, params: workload.Params{Bytes: uint64(f.size), Scale: f.scale, Iterations: f.iterations, Seed: f.seed, Batch: f.batch, Prefetch: f.prefetch, Kernels: f.form() == programKernel}}
	if s.params.Bytes == 0 && s.params.Scale == 0 {
		s.params.Bytes = defaultRunSize
	}
	for _, check := range []func() error{f.checkZeroes, f.check, f.checkForm} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	var err error
	s.params.Launched = func(l workload.Launch) { s.launched(l) }
	if s.program, err = workload.New(name, s.params); err != nil {
		return nil, err
	}
	s.planned = s.program.Size()
	if err := s.tiers(); err != nil {
		return nil, err
	}
	if f.policies == nil {
		f.policies = []string{"gmt-reuse"}
		if s.config.T2 == 0 {
			f.policies = []string{"bypass"}
		}
	}
	if s.policies, err = readPolicies(f.policies); err != nil {
		return nil, err
	}
	if n := len(s.policies); n > 1 && f.traceOut != "" {
		return nil, fmt.Errorf("--trace-out writes one run: give one policy, not %d", n)
	} else if n > 1 && f.record != "" && !strings.Contains(f.record, "%") {
		return nil, fmt.Errorf("--record %s writes one run: give one policy, not %d, or a name with %%, which stands for the policy's number", f.record, n)
	}
	if err := f.checkKeep(len(s.policies) * f.repeat); err != nil {
		return nil, err
	}
	return s, s.checkPolicies()
}

// checkKeep refuses runs of which the second would find what the first has kept.
func (f *runFlags) checkKeep(runs int) error {
	lasts := f.store != "" && !strings.HasPrefix(f.store, string(drive.Memory)+":")
	if runs > 1 && lasts && f.keep && !f.replace {
		return fmt.Errorf("--keep leaves the arrays of one run in the store, and these are %d: give --replace too, which leaves those of the last one, or a single run", runs)
	}
	return nil
}

// check reports flags that are out of range.
func (f *runFlags) check() error {
	for _, x := range []struct {
		ok   bool
		what string
	}{
		{f.repeat >= 1 && f.repeat <= 1000, fmt.Sprintf("--repeat %d is not from 1 to 1000", f.repeat)},
		{f.batch >= 1, fmt.Sprintf("--batch %d is not from 1 on", f.batch)},
		{f.iterations >= 0, fmt.Sprintf("--iterations %d is negative", f.iterations)},
		{f.scale >= 0, fmt.Sprintf("--scale %d is negative", f.scale)},
		{f.size == 0 || f.scale == 0, "--size and --scale both size the arrays: give one of them"},
		{f.threads >= 1 && f.threads <= 64, fmt.Sprintf("--threads %d is not from 1 to 64", f.threads)},
		{f.record != "-" && f.traceOut != "-", "--record and --trace-out write files: name them; standard output has the results"},
		{f.record == "" || !sameFile(f.record, f.traceOut), "--record and --trace-out both write " + f.record + ": name two files"},
		{f.sample >= 1, fmt.Sprintf("--record-sample %d is not from 1 on", f.sample)},
		{f.sample == 1 || f.record != "", "--record-sample without --record"},
		{f.traceSample >= 1 && f.traceSample <= math.MaxInt32, fmt.Sprintf("--trace-sample %d is not from 1 to %d", f.traceSample, math.MaxInt32)},
		{f.traceSample == 1 || f.traceOut != "", "--trace-sample without --trace-out"},
		{f.traceSample == 1 || f.engine == lib.EngineGPU, "--trace-sample is for misses of kernels: give --engine gpu too, or leave it out"},
		{f.record == "" || strings.HasSuffix(f.record, ".ttrc"), "--record " + f.record + ": the name must end in .ttrc"},
		{f.traceOut == "" || strings.HasSuffix(f.traceOut, ".json"), "--trace-out " + f.traceOut + ": the name must end in .json"},
	} {
		if !x.ok {
			return errors.New(x.what)
		}
	}
	return nil
}

// tiers sizes the tiers and the store.
func (s *runSettings) tiers() error {
	f := s.f
	page := uint64(f.page)
	if page == 0 {
		page = lib.DefaultPageSize
	}
	s.config = lib.Config{Store: f.store, Create: true, Checksums: f.checksums, PageSize: lib.Size(f.page),
		Seed: f.seed, Engine: f.engine, GPU: f.gpu, Threads: f.threads, Moves: f.moves, Model: f.model}
	if f.store == "" {
		s.config.PageSize = lib.Size(page)
		s.config.Store = fmt.Sprintf("mem:%d", (s.planned*5/4+storeSpare)/page*page)
	}
	t1, err := s.tier("--t1", f.t1, s.planned*defaultT1Percent/100, page)
	if err != nil {
		return err
	}
	if t1 == 0 {
		return errors.New("--t1 0: GPU memory needs at least one page")
	}
	t2, err := s.tier("--t2", f.t2, t1*t2Factor, page)
	s.config.T1, s.config.T2 = lib.Size(t1), lib.Size(t2)
	return err
}

// tier reads the size of a tier and rounds it down to pages.
func (s *runSettings) tier(flag, text string, def, page uint64) (uint64, error) {
	if text == "" {
		return max(def/page, 1) * page, nil
	}
	size, err := readSize(flag, text, false)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", flag, err)
	}
	bytes := size.bytes
	if size.share {
		bytes = uint64(float64(s.planned) * size.percent / 100)
	}
	if bytes > 0 && bytes < page {
		return 0, fmt.Errorf("%s %s is %s, less than a page of %s", flag, text, units.FormatBytes(bytes), units.FormatBytes(page))
	}
	return bytes / page * page, nil
}

// checkPolicies names every policy that cannot be, with what else is wrong.
func (s *runSettings) checkPolicies() error {
	page := uint64(s.config.PageSize)
	if page == 0 {
		page = lib.DefaultPageSize // the store that is there may have others: Open says so
	}
	var wrong []error
	for _, p := range s.policies {
		c := s.config
		c.Policy = p.label
		if err := c.Check(); err != nil {
			return err
		}
		_, err := p.spec.Build(placement.Env{T1Frames: int(uint64(c.T1) / page), T2Frames: int(uint64(c.T2) / page), Seed: c.Seed})
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--policy %s: %w", p.label, err))
		}
	}
	return errors.Join(wrong...)
}

// runFiles are the files that a run writes. They appear complete or not at all.
type runFiles struct {
	records  []*output // of each policy
	timeline *output
}

func openRunFiles(f *runFlags, policies int) (*runFiles, error) {
	o := &runFiles{}
	for i := 0; f.record != "" && i < policies; i++ {
		file, err := createOutput(strings.ReplaceAll(f.record, "%", strconv.Itoa(i+1)), nil)
		if err != nil {
			o.discard()
			return nil, fmt.Errorf("--record: %w", err)
		}
		o.records = append(o.records, file)
	}
	var err error
	if f.traceOut != "" {
		if o.timeline, err = createOutput(f.traceOut, nil); err != nil {
			o.discard()
			return nil, fmt.Errorf("--trace-out: %w", err)
		}
	}
	return o, nil
}

// discard drops the files that were not finished.
func (o *runFiles) discard() {
	for _, f := range append(o.records, o.timeline) {
		if f != nil {
			_ = f.discard() // what failed before it is what the user hears of
		}
	}
	o.records, o.timeline = nil, nil
}

// finishFiles gives the files their names.
func (o *runFiles) finishFiles() error {
	records, timeline := o.records, o.timeline
	o.records, o.timeline = nil, nil
	var err error
	for _, f := range records {
		if e := f.commit(); e != nil {
			err = errors.Join(err, fmt.Errorf("--record: %w", e))
		}
	}
	if timeline != nil {
		if e := timeline.commit(); e != nil {
			err = errors.Join(err, fmt.Errorf("--trace-out: %w", e))
		}
	}
	return err
}

// runner runs the policies of one command.
type runner struct {
	*runSettings
	*runFiles
	stderr      io.Writer
	rows        []runRow
	interrupted bool
}

// runRow is a policy and its runs.
type runRow struct {
	policy namedPolicy
	runs   []*runOnce
	failed bool
}
