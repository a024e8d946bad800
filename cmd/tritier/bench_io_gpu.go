package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/bamio/iobench"
	"github.com/tritier/tritier/cuda"
)

// How drives are filled by the GPU: warps of fillLanes commands of at most
// fillBytes.
const (
	fillLanes = 32
	fillBytes = 64 << 10
	fillWarps = 64 // at most
)

// mailboxRounds is how often the round trip of the mailbox is taken: for about a
// millisecond.
const mailboxRounds = 500

// ioGPU is a group whose commands GPU threads submit.
type ioGPU struct {
	*ioBench
	g      *ioGroup
	engine *bamio.Engine
	bench  *iobench.Bench

	fill  int    // bytes of a command that fills or checks the area
	warps int    // of such a load
	holds uint64 // seed of the contents of all of the area, if known
	known bool
	fresh uint64 // seeds of contents given out
}

// runGPU opens the queues of a group and measures its combinations.
func (b *ioBench) runGPU(ctx context.Context, g *ioGroup) (err error) {
	defer b.processors(1)()
	s := &ioGPU{ioBench: b, g: g}
	b.arm(false)
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	for i := range g.cells {
		r := &ioRow{ioCell: g.cells[i], checked: true}
		r.queues = g.queues
		err := s.row(ctx, r, i)
		b.keep(r, err)
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *ioGPU) open(ctx context.Context) (err error) {
	bytes, buffer := s.g.payload(len(s.cpu.drives))
	o := bamio.Options{GPU: s.gpu, Queues: s.g.queues * len(s.cpu.drives), Depth: s.f.depth, BufferBytes: buffer,
		Buffers: int(bytes / uint64(buffer)), Requests: -1, Deadline: s.f.timeout}
	for _, d := range s.cpu.drives {
		o.Drives = append(o.Drives, bamio.Drive{Name: d.URI.String(), Controller: d.Controller})
	}
	if s.engine, err = bamio.Open(ctx, o); err != nil {
		return err
	}
	if s.bench, err = iobench.New(s.engine); err != nil {
		return err
	}
	s.fill = fillBytes
	for _, d := range s.engine.Drives() {
		for d.MaxBytes > 0 && s.fill > d.MaxBytes || s.cpu.area%uint64(s.fill) != 0 {
			s.fill /= 2
		}
	}
	n := len(s.cpu.drives)
	s.warps = max(1, min(fillWarps, int(bytes/uint64(fillLanes*s.fill)))/n) * n
	s.report.path = s.engine.Path()
	s.report.havePath = true
	return s.roundTrip(ctx)
}

// roundTrip measures the mailbox, once. A CPU too busy to answer is no reason to
// measure nothing else.
func (s *ioGPU) roundTrip(ctx context.Context) error {
	if s.report.mailbox > 0 {
		return nil
	}
	trip, err := s.bench.Mailbox(ctx, mailboxRounds)
	var late *cuda.DeadlineError
	switch {
	case errors.As(err, &late):
		s.left = true // its kernel runs on
		return err
	case err != nil && (ctx.Err() != nil || s.gpu.Err() != nil):
		return err
	}
	s.report.mailbox, s.report.mailboxErr = trip, err
	return nil
}

// close gives the queues back. Memory that a drive may still use waits for the
// drive to be closed.
func (s *ioGPU) close() error {
	if s.engine == nil {
		return nil
	}
	if s.left {
		return nil
	}
	var err error
	if s.bench != nil {
		err = s.bench.Close()
	}
	end := s.engine.Close()
	var held *bamio.HeldError
	var busy *bamio.BusyError
	switch {
	case errors.As(end, &held):
		s.ioBench.held = append(s.ioBench.held, s.engine)
		end = nil
	case errors.As(end, &busy):
		s.left = true
	}
	return errors.Join(err, end)
}

// row measures one combination. number tells its random blocks from others'.
func (s *ioGPU) row(ctx context.Context, r *ioRow, number int) error {
	if r.op != opWrite {
		if err := s.fillArea(ctx); err != nil {
			return err
		}
	}
	j := iobench.Job{Bytes: r.size, ReadShare: 1, Pattern: iobench.Random, Area: s.cpu.area, Warps: r.warps, PerBlock: s.f.block, Lanes: r.lanes,
		Latency: true, Data: s.holds}
	switch r.op {
	case opWrite:
		j.ReadShare = 0
	case opMixed:
		j.ReadShare = float64(s.f.reads) / 100
	}
	if r.pattern == patternSequential {
		j.Pattern = iobench.Sequential
	}
	seed := func(run int) uint64 { return mix64(s.f.seed + uint64(number)<<32 + uint64(run)) }
	if err := s.length(ctx, r, &j, seed); err != nil {
		return err
	}
	for n := range s.f.runs {
		j.Seed = seed(n)
		if err := s.timed(ctx, r, j); err != nil {
			return err
		}
		s.done.Add(1)
	}
	if r.op == opMixed {
		return s.checkArea(ctx, r)
	}
	return nil
}

// timed is one run that counts.
func (s *ioGPU) timed(ctx context.Context, r *ioRow, j iobench.Job) error {
	before, err := s.engine.Stats(ctx)
	if err != nil {
		return err
	}
	cpu := cpuTime(unix.RUSAGE_SELF)
	var after bamio.Stats
	res, err := s.run(ctx, r, j, func() (err error) {
		cpu = cpuTime(unix.RUSAGE_SELF) - cpu
		after, err = s.engine.Stats(ctx)
		return err
	})
	if err != nil {
		return err
	}
	r.addGPU(res, j.Bytes, &before, &after, cpu)
	r.sms = max(r.sms, res.SMs)
	if res.Errors > 0 && s.faults == nil {
		return s.failed(ctx, r, res)
	}
	return nil
}

// addGPU takes a run over that has done at least one I/O.
func (r *ioRow) addGPU(x *iobench.Result, bytes int, before, after *bamio.Stats, cpu time.Duration) {
	if x.Reads+x.Writes == 0 {
		return
	}
	f := ioFigures{
		iops: x.Rate(), gbps: x.Rate() * float64(bytes) / 1e9, seconds: x.Elapsed.Seconds(),
		p50: float64(x.Percentile(0.5)), p99: float64(x.Percentile(0.99)), p999: float64(x.Percentile(0.999)),
		serviceKnown: true,
	}
	if n := after.Commands - before.Commands; n > 0 {
		f.doorbells = float64(after.Doorbells-before.Doorbells) / float64(n)
	}
	var service time.Duration
	for i, c := range after.Controllers {
		if !c.Known {
			continue // a drive of its own needs no service threads
		}
		f.serviceKnown = f.serviceKnown && c.CPUKnown
		service += c.CPU - before.Controllers[i].CPU
	}
	f.serviceCPU, f.otherCPU = service.Seconds(), max(cpu-service, 0).Seconds()
	r.runs = append(r.runs, f)
	r.ios += x.Reads + x.Writes
}

// run runs a job, and checks what it has written by reading the same blocks.
// done is called in between. A write job gets contents that the drives do not
// hold yet.
func (s *ioGPU) run(ctx context.Context, r *ioRow, j iobench.Job, done func() error) (*iobench.Result, error) {
	if r.op == opWrite {
		s.fresh++
		j.Data, s.known = mix64(s.f.seed+s.fresh), false
	}
	s.arm(true)
	res, err := s.bench.Run(ctx, j)
	s.arm(false)
	if err == nil {
		err = done()
	}
	if err != nil {
		return nil, s.broken(err)
	}
	r.failAll(res)
	s.compare(r, &j, res)
	if r.op != opWrite || res.Reads+res.Writes == 0 {
		return res, nil
	}
	if res.Errors > 0 { // which blocks hold the new contents is not known
		r.checked = false
		return res, nil
	}
	j.ReadShare, j.Latency = 1, false
	return res, s.mustRead(ctx, r, j)
}

// mustRead runs a job that only reads, and none of whose reads may fail.
func (s *ioGPU) mustRead(ctx context.Context, r *ioRow, j iobench.Job) error {
	res, err := s.bench.Run(ctx, j)
	if err != nil {
		return s.broken(err)
	}
	if res.Errors > 0 {
		r.failAll(res)
		return s.failed(ctx, r, res)
	}
	s.compare(r, &j, res)
	return nil
}

// failAll counts the I/Os of a job that ended with an error, by status.
func (r *ioRow) failAll(res *iobench.Result) {
	for st, n := range res.Statuses {
		r.fail(st.String(), n)
	}
	r.fail("other statuses", res.OtherErrors)
}

// compare takes over what a job found in what it has read.
func (s *ioGPU) compare(r *ioRow, j *iobench.Job, res *iobench.Result) {
	r.verified += res.Reads * uint64(j.Bytes)
	if res.BadPieces > 0 {
		r.mistake(res.BadPieces, fmt.Sprintf("%d pieces of 16 bytes in %d reads of %s hold something else, near block %d", res.BadPieces, res.Reads, shortBytes(j.Bytes), res.BadBlock))
	}
}

// fillArea writes the contents that reads expect, unless they are there.
func (s *ioGPU) fillArea(ctx context.Context) error {
	if s.known {
		return nil
	}
	s.holds = mix64(s.f.seed)
	if err := s.bench.Fill(ctx, s.fill, s.warps, s.cpu.area, s.holds); err != nil {
		return s.broken(err)
	}
	s.known = true
	return nil
}

// checkArea reads all of it.
func (s *ioGPU) checkArea(ctx context.Context, r *ioRow) error {
	j := iobench.Job{Bytes: s.fill, ReadShare: 1, Pattern: iobench.Sequential, Area: s.cpu.area, Warps: s.warps, Lanes: fillLanes, Data: s.holds,
		Commands: s.cpu.area / uint64(s.fill) * uint64(len(s.cpu.drives))}
	return s.mustRead(ctx, r, j)
}
