package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/libnvm/drive"
)

// ioBench is a checked command line at work.
type ioBench struct {
	*ioSettings
	stderr io.Writer
	dump   *ioDump
	report *ioReport

	gpu  *cuda.Context // nil without a GPU
	cpu  *bench        // drives, area, and the load of the CPU
	held []*bamio.Engine
	// left says that kernels did not end when they were asked to: what they use
	// must stay until the process ends.
	left bool
	done atomic.Int64 // runs, for the progress bar
}

// measure fills the report. What is known stays there when it ends early.
func (b *ioBench) measure(ctx context.Context) (err error) {
	total := int64(len(b.cells) * b.f.runs)
	defer startProgress(b.stderr, "measuring", func() (int64, int64) { return b.done.Load(), total })()
	if b.dev != nil {
		if b.gpu, err = b.dev.Retain(); err != nil {
			return err
		}
		defer func() {
			if !b.left {
				err = errors.Join(err, b.gpu.Close())
			}
		}()
	}
	groups := b.groups()
	for len(groups) > 0 {
		n := 1
		for n < len(groups) && groups[n].service == groups[0].service {
			n++
		}
		if err := b.withDrives(ctx, groups[:n]); err != nil {
			return err
		}
		groups = groups[n:]
	}
	if b.dev != nil {
		b.report.pcie = pcieLink(ctx, b.dev.PCIAddress()) // while the link is awake
	}
	return nil
}

// withDrives opens the drives with so many service threads and runs the groups
// that want them.
func (b *ioBench) withDrives(ctx context.Context, groups []ioGroup) (err error) {
	if err := b.open(ctx, groups); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.closeDrives()) }()
	if err := b.prepare(groups); err != nil {
		discardUnless(false, b.cpu.drives) // nothing has come of a file that was made for this
		return err
	}
	for i := range groups {
		run := b.runCPU
		if groups[i].initiator == byGPU {
			run = b.runGPU
		}
		if err := run(ctx, &groups[i]); err != nil {
			return b.explain(err)
		}
	}
	return nil
}

// open opens the drives, with the right to write only to what is fresh unless
// --write was given: all drives are filled.
func (b *ioBench) open(ctx context.Context, groups []ioGroup) error {
	service := groups[0].service
	b.cpu = &bench{
		f:    &benchFlags{drive: b.f.drive, reads: b.f.reads, threads: service, seed: b.f.seed, area: b.f.area, verify: true, write: b.f.write, timeout: b.f.timeout},
		list: b.list, count: len(b.drives), ios: b.ios, length: seconds(b.f.seconds), model: b.model, faults: b.faults, stderr: b.stderr, writes: true,
	}
	if b.ios > 0 {
		b.cpu.length = iosSeconds * seconds(1)
	}
	for _, g := range groups {
		for _, x := range g.cells {
			b.cpu.cells = append(b.cpu.cells, b.cpuCell(&x))
		}
	}
	o, err := b.f.drive.options(b.stderr)
	if err != nil {
		return err
	}
	o.Threads, o.Model, o.Seed, o.Driver.IOTimeout, o.Access = service, b.model, b.f.seed, b.f.timeout, drive.FreshOnly
	if b.faults != nil {
		o.Faults = b.faults.plan
	}
	if b.f.write {
		o.Access = drive.ReadWrite
	}
	// Ctrl-C must not end the service threads: I/Os in flight are waited for.
	b.cpu.drives, err = drive.OpenList(context.WithoutCancel(ctx), b.list, o)
	var exists *drive.ExistsError
	if errors.As(err, &exists) {
		return fmt.Errorf("%w: bench io verifies every byte and so must fill drives first: add --write if what it holds may be lost", err)
	}
	var holds *drive.HoldsError
	if errors.As(err, &holds) {
		return notForced(holds)
	}
	discardUnless(b.f.keep, b.cpu.drives)
	return err
}

// prepare chooses the area and makes sure that nothing is lost unasked.
func (b *ioBench) prepare(groups []ioGroup) error {
	if err := b.cpu.chooseArea(); err != nil {
		return err
	}
	for i := range groups {
		if err := b.checkGroup(&groups[i]); err != nil {
			return err
		}
	}
	for _, d := range b.cpu.drives {
		if !d.Fresh {
			if err := b.cpu.mayOverwrite(d); err != nil {
				return err
			}
		}
	}
	b.report.opened(b)
	return nil
}

// checkGroup refuses what the drives cannot do, before anything is written. It
// chooses the number of queues where none was asked for.
func (b *ioBench) checkGroup(g *ioGroup) error {
	if g.queues == 0 {
		g.queues = 1
		if g.initiator == byGPU {
			g.queues = max(1, gpuQueues/len(b.cpu.drives))
		}
		for _, d := range b.cpu.drives {
			g.queues = min(g.queues, d.Controller.QueueLimit())
		}
	}
	block := 0
	for _, d := range b.cpu.drives {
		ns, err := firstNamespace(d)
		if err != nil {
			return err
		}
		switch limit, depth := d.Controller.QueueLimit(), d.Controller.MaxDepth(); {
		case g.queues > limit:
			return fmt.Errorf("%s: --queues %d is more than it grants, %d", d.URI, g.queues, limit)
		case b.f.depth > depth:
			return fmt.Errorf("%s: --depth %d is more than its queues hold, %d", d.URI, b.f.depth, depth)
		case block != 0 && block != ns.BlockSize && g.initiator == byGPU:
			return fmt.Errorf("%s has blocks of %d bytes, another drive of %d: a GPU measures drives of one block size together", d.URI, ns.BlockSize, block)
		}
		block = ns.BlockSize
		for _, x := range g.cells {
			limit := d.Controller.MaxTransfer()
			switch {
			case x.size%block != 0:
				return fmt.Errorf("%s: --size %s is no multiple of its blocks of %d bytes", d.URI, shortBytes(x.size), block)
			case g.initiator == byGPU && limit > 0 && x.size > limit:
				return fmt.Errorf("%s: --size %s is more than one of its commands moves, %s", d.URI, shortBytes(x.size), shortBytes(limit))
			case g.initiator == byCPU && b.cpu.area/uint64(g.queues) < uint64(x.size):
				return fmt.Errorf("%s: the area of %s is too small for %d queues with I/Os of %s", d.URI, units.FormatBytes(b.cpu.area), g.queues, shortBytes(x.size))
			}
		}
	}
	return nil
}

// processors lets service threads, which poll, each have one beside the
// program's own work. The returned function takes it back.
func (b *ioBench) processors(own int) (restore func()) {
	n := runtime.GOMAXPROCS(max(len(b.drives)*b.cpu.f.threads+own+2, runtime.NumCPU()))
	return func() { runtime.GOMAXPROCS(n) }
}

// arm lets the drives misbehave, or keeps them from it: while they are filled,
// and while what was written is read back.
func (b *ioBench) arm(on bool) {
	if b.faults != nil {
		b.faults.armed.Store(on)
	}
}

// closeDrives closes the drives, and then the engines whose payload they held.
func (b *ioBench) closeDrives() error {
	if b.left { // drives too
		var err error
		for _, d := range b.cpu.drives {
			err = errors.Join(err, d.Abandon())
		}
		return err
	}
	err := drive.CloseAll(b.cpu.drives)
	for _, e := range b.held {
		err = errors.Join(err, e.Close())
	}
	b.held = nil
	return err
}

// keep takes a row over, unless it ended with an error before anything was
// measured for it. One whose runs were too short for an I/O has no figures.
func (b *ioBench) keep(r *ioRow, err error) {
	if err == nil || len(r.runs) > 0 || len(r.errors) > 0 || r.wrong > 0 {
		b.report.rows = append(b.report.rows, *r)
	}
}
