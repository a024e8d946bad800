package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tritier/tritier/libnvm"
)

// cpuCell is a combination as nvme bench runs it.
func (b *ioBench) cpuCell(x *ioCell) cell {
	w := ioPattern{name: x.op, random: x.pattern == patternRandom, read: x.op == opRead, mix: x.op == opMixed}
	return cell{work: w, size: x.size, depth: b.f.depth - 1, queues: max(1, x.queues)}
}

// runCPU measures the combinations of a group whose commands CPU threads submit.
func (b *ioBench) runCPU(ctx context.Context, g *ioGroup) error {
	b.arm(false)
	for i := range b.cpu.drives {
		if err := b.cpu.fill(ctx, i); err != nil {
			return err
		}
	}
	for i := range g.cells {
		x := g.cells[i]
		x.queues = g.queues
		r := &ioRow{ioCell: x, checked: true}
		err := b.rowCPU(ctx, r)
		b.keep(r, err)
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *ioBench) rowCPU(ctx context.Context, r *ioRow) error {
	c := b.cpuCell(&r.ioCell)
	for n := range b.f.runs {
		b.arm(true)
		res, err := b.cpu.runCell(ctx, c, n)
		b.arm(false)
		if err == nil {
			r.addCPU(res)
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		b.done.Add(1)
	}
	if c.work.read {
		return nil
	}
	for i := range b.cpu.drives {
		if err := b.readBack(ctx, i, r); err != nil {
			return err
		}
	}
	return nil
}

// addCPU takes a run over. One without a single good I/O has no figures.
func (r *ioRow) addCPU(x *runResult) {
	for kind, n := range x.errors {
		r.fail(kind, n)
	}
	if x.mismatch != nil {
		r.mistake(1, x.mismatch.Error())
	}
	r.verified += x.verified
	if x.ios == 0 {
		return
	}
	s := x.elapsed.Seconds()
	r.runs = append(r.runs, ioFigures{
		iops: float64(x.ios) / s, gbps: float64(x.bytes) / s / 1e9, doorbells: float64(x.sqDoorbells) / float64(x.ios), seconds: s,
		p50: float64(x.latency.percentile(0.5)), p99: float64(x.latency.percentile(0.99)), p999: float64(x.latency.percentile(0.999)),
		serviceCPU: x.otherCPU.Seconds(), otherCPU: x.driverCPU.Seconds(), serviceKnown: true,
	})
	r.ios += x.ios
}

// readBack compares the whole area of drive number i with the pattern, after
// writes.
func (b *ioBench) readBack(ctx context.Context, i int, r *ioRow) (err error) {
	d := b.cpu.drives[i]
	ns, err := firstNamespace(d)
	if err != nil {
		return err
	}
	q, err := d.Controller.CreateQueuePair(libnvm.QueueConfig{Depth: min(16, d.Controller.MaxDepth())})
	if err != nil {
		return fmt.Errorf("%s: %w", d.URI, err)
	}
	mem, err := d.Transport.Alloc(fillSize)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", d.URI, err), q.Close())
	}
	defer func() { err = errors.Join(err, q.Close(), mem.Free()) }()
	key, block := patternKey(b.f.seed, i), uint64(ns.BlockSize)
	for at := uint64(0); at < b.cpu.area; at += fillSize {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(fillSize, b.cpu.area-at)
		got := mem.Bytes()[:n]
		spoil(got, key, at)
		if err := q.Do(&libnvm.Request{Op: libnvm.OpRead, NS: ns, LBA: at / block, Blocks: n / block, Mem: mem}); err != nil {
			return fmt.Errorf("%s: reading back what was written: %w", d.URI, err)
		}
		r.verified += n
		if m := verify(got, key, at); m != nil {
			m.Drive, m.LBA = d.URI.String(), m.Offset/block
			r.mistake(1, m.Error())
		}
	}
	return nil
}
