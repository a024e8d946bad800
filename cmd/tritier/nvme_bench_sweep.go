package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/drive"
)

// firstNamespace is the one that is measured.
func firstNamespace(d *drive.Drive) (*libnvm.Namespace, error) {
	all, err := d.Controller.Namespaces()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.URI, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no namespace that the driver can use; tritier nvme identify says why", d.URI)
	}
	return all[0], nil
}

// prepare chooses the area, makes sure that nothing is lost unasked, and fills
// what must be filled.
func (b *bench) prepare(ctx context.Context) error {
	if err := b.chooseArea(); err != nil {
		return err
	}
	if err := b.checkCells(); err != nil {
		return err
	}
	for i, d := range b.drives {
		if b.writes && !d.Fresh {
			if err := b.mayOverwrite(d); err != nil {
				return err
			}
		}
		if d.Fresh || b.f.verify {
			if err := b.fill(ctx, i); err != nil {
				return err
			}
		}
	}
	if b.faults != nil {
		b.faults.armed.Store(true)
	}
	return nil
}

// chooseArea is the same part of every drive, of whole largest I/Os.
func (b *bench) chooseArea() error {
	b.area = uint64(b.f.area)
	for _, d := range b.drives {
		ns, err := firstNamespace(d)
		if err != nil {
			return err
		}
		have := ns.Bytes()
		if uint64(b.f.area) > have {
			return fmt.Errorf("--area %s is more than %s has, %s", units.ExactBytes(uint64(b.f.area)), d.URI, units.ExactBytes(have))
		}
		if b.f.area == 0 {
			if d.Fresh || b.f.verify {
				have = min(have, fillArea)
			}
			if b.area == 0 || have < b.area {
				b.area = have
			}
		}
	}
	unit := uint64(0)
	for _, c := range b.cells {
		unit = max(unit, uint64(c.size))
	}
	if b.area/unit == 0 {
		return fmt.Errorf("an area of %s is smaller than one I/O of %s: give a larger --area or drive, or a smaller --size", units.ExactBytes(b.area), units.ExactBytes(unit))
	}
	b.area -= b.area % unit
	return nil
}

// notForced says what flag a drive that holds something takes.
func notForced(e *drive.HoldsError) error {
	return fmt.Errorf("%s holds a %s: it is not overwritten without --force", e.URI, e.What)
}

// mayOverwrite refuses a drive that holds something, and says what will be lost.
func (b *bench) mayOverwrite(d *drive.Drive) error {
	what, err := d.Content()
	if err != nil {
		return err
	}
	if what != "" && !b.f.drive.force {
		return notForced(&drive.HoldsError{URI: d.URI.String(), What: what})
	}
	if what != "" {
		what = ", with its " + what
	}
	_, err = fmt.Fprintf(b.stderr, "tritier: overwriting the first %s of %s%s\n", units.FormatBytes(b.area), d.URI, what)
	return err
}

// fillSize is the size of the writes that fill a drive, fillDepth how many are in flight.
const (
	fillSize  = 256 << 10
	fillDepth = 8
)

// fill writes the pattern over the area of drive number i.
func (b *bench) fill(ctx context.Context, i int) (err error) {
	d := b.drives[i]
	ns, err := firstNamespace(d)
	if err != nil {
		return err
	}
	q, err := d.Controller.CreateQueuePair(libnvm.QueueConfig{Depth: min(16*fillDepth, d.Controller.MaxDepth())})
	if err != nil {
		return fmt.Errorf("%s: %w", d.URI, err)
	}
	mem, err := d.Transport.Alloc(fillSize * fillDepth)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", d.URI, err), q.Close())
	}
	defer func() { err = errors.Join(err, q.Close(), mem.Free()) }()
	var filled atomic.Int64
	defer startProgress(b.stderr, "filling", func() (int64, int64) { return filled.Load(), int64(b.area) })()
	key, block := patternKey(b.f.seed, i), uint64(ns.BlockSize)
	var tickets [fillDepth]libnvm.Ticket
	for at, k := uint64(0), 0; at < b.area; k = (k + 1) % fillDepth {
		if err := ctx.Err(); err != nil {
			return err
		}
		if tickets[k] != 0 {
			if _, err := q.Wait(tickets[k], 0); err != nil {
				return fmt.Errorf("%s: filling it: %w", d.URI, err)
			}
		}
		n := min(fillSize, b.area-at)
		stamp(mem.Bytes()[k*fillSize:][:n], key, at)
		tickets[k], err = q.Submit(&libnvm.Request{Op: libnvm.OpWrite, NS: ns, LBA: at / block, Blocks: n / block, Mem: mem, Offset: k * fillSize})
		if err != nil {
			return fmt.Errorf("%s: filling it: %w", d.URI, err)
		}
		at += n
		filled.Store(int64(at))
	}
	for _, t := range tickets {
		if t == 0 {
			continue
		}
		if _, err := q.Wait(t, 0); err != nil {
			return fmt.Errorf("%s: filling it: %w", d.URI, err)
		}
	}
	return flush(d, q, ns)
}

// flushTimeout bounds how long writing back what was filled may take.
const flushTimeout = 2 * time.Minute

// flush keeps the write-back of the filling out of what is measured.
func flush(d *drive.Drive, q *libnvm.QueuePair, ns *libnvm.Namespace) error {
	if err := q.Do(&libnvm.Request{Op: libnvm.OpFlush, NS: ns, Timeout: flushTimeout}); err != nil {
		return fmt.Errorf("%s: flush: %w", d.URI, err)
	}
	return nil
}

// sweep runs every cell. What is known stays in rows when it ends early.
func (b *bench) sweep(ctx context.Context) error {
	var done atomic.Int64
	total := int64(len(b.cells) * b.f.runs)
	defer startProgress(b.stderr, "measuring", func() (int64, int64) { return done.Load(), total })()
	for _, c := range b.cells {
		r := row{cell: c}
		for n := range b.f.runs {
			res, err := b.runCell(ctx, c, n)
			if err == nil {
				b.note(res)
			}
			if err == nil && res.ios > 0 {
				r.add(res)
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				b.keep(r)
				return err
			}
			done.Add(1)
		}
		b.keep(r)
	}
	return nil
}

// note counts a run's errors, also those of one without a single good I/O.
func (b *bench) note(x *runResult) {
	if b.seen == nil {
		b.seen = map[string]uint64{}
	}
	for k, n := range x.errors {
		b.seen[k] += n
	}
	b.resets += x.resets
}

// keep takes a row over, if anything was measured for it.
func (b *bench) keep(r row) {
	if len(r.runs) > 0 {
		b.rows = append(b.rows, r)
	}
}
