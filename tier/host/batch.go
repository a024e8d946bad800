package host

import (
	"context"
	"fmt"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// Span is a part of a page and its place in the caller's buffer.
type Span struct {
	Page   placement.Page
	Offset int32 // in the page, bytes
	Length int32 // bytes
	At     int64 // in the buffer, bytes
}

// Batch is work on pages: elements to read or write, or pages to prefetch.
type Batch struct {
	Op     tier.Op // Read, Write or Prefetch; a write that covers a page is made an Overwrite
	Spans  []Span
	Buffer Buffer // unused by Prefetch
	// Lanes is how many consecutive spans count as one access of each page among
	// them, as the lanes of a warp do; 1 when zero.
	Lanes int
}

// MaxLanes bounds Batch.Lanes.
const MaxLanes = 32

// batch is a Batch that is being carried out.
type batch struct {
	*Batch
	order  []Span   // spans, those of an access together
	access [][2]int // of each access by tag: its range in order
	failed BatchError
}

// mostAccesses bounds the accesses that are planned before they are carried out, so
// that a batch of hits alone does not grow without end.
const mostAccesses = 1 << 14

// Run carries a batch out. On a *BatchError the other accesses were made; any
// other error of a batch that began is a *BrokenError or ctx's, and what it did
// to the elements not reached is nothing.
func (m *Memory) Run(ctx context.Context, b *Batch) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Leave()
	if err := m.usable(); err != nil {
		return err
	}
	if err := m.checkBatch(b); err != nil {
		return err
	}
	return m.run(ctx, &batch{Batch: b})
}

func (m *Memory) run(ctx context.Context, run *batch) error {
	m.batch, m.ctx = run, ctx
	run.order, run.access = m.order[:0], m.access[:0]
	defer func() {
		m.order, m.access = run.order[:0], run.access[:0]
		m.dropTail() // of a memory that is broken now
		m.batch, m.ctx = nil, context.Background()
	}()
	lanes := max(run.Lanes, 1)
	for at := 0; at < len(run.Spans); at += lanes {
		if err := m.group(run, run.Spans[at:min(at+lanes, len(run.Spans))]); err != nil {
			return err
		}
	}
	if err := m.finish(run); err != nil {
		return err
	}
	if err := m.endTail(); err != nil {
		return m.fail(err)
	}
	if run.failed.Failed > 0 {
		return &run.failed
	}
	return nil
}

// group makes one access of each page that the spans name, in the order in which
// they first do.
func (m *Memory) group(run *batch, spans []Span) error {
	var done uint32 // spans that belong to an access already
	for i := range spans {
		if done>>i&1 == 1 {
			continue
		}
		page, from, bytes := spans[i].Page, len(run.order), int64(0)
		for j := i; j < len(spans); j++ {
			if spans[j].Page == page {
				done |= 1 << j
				run.order = append(run.order, spans[j])
				bytes += int64(spans[j].Length)
			}
		}
		op := run.Op
		if op == tier.Write && len(run.order)-from == 1 && bytes == int64(m.o.PageSize) {
			op = tier.Overwrite
		}
		run.access = append(run.access, [2]int{from, len(run.order)})
		if err := m.use(page, op, len(run.access)-1); err != nil {
			return err
		}
	}
	if len(run.access) < mostAccesses {
		return nil
	}
	return m.finish(run)
}

// use plans one access, unless the caller has given up.
func (m *Memory) use(page placement.Page, op tier.Op, tag int) error {
	if m.ctx.Err() != nil {
		return m.giveUp()
	}
	if m.o.Observe != nil {
		a := m.find(page)
		m.o.Observe(a.id, uint64(page-a.base), op)
	}
	if err := m.plan.Access(page, op, tag); err != nil {
		return m.fail(err)
	}
	return nil
}

// giveUp ends a batch whose context has ended: what is planned is carried out, so
// that the table stays true; the rest is not begun.
func (m *Memory) giveUp() error {
	cause := context.Cause(m.ctx)
	if err := m.plan.Finish(); err != nil {
		return m.fail(err)
	}
	if err := m.endTail(); err != nil {
		return m.fail(err)
	}
	return fmt.Errorf("the batch was ended before all of it was done: %w", cause)
}

func (m *Memory) finish(run *batch) error {
	if err := m.plan.Finish(); err != nil {
		return m.fail(err)
	}
	run.order, run.access = run.order[:0], run.access[:0]
	return nil
}

// checkBatch refuses what would reach outside of pages, arrays or the buffer.
func (m *Memory) checkBatch(b *Batch) error {
	if b.Op != tier.Read && b.Op != tier.Write && b.Op != tier.Prefetch {
		return fmt.Errorf("a batch with operation %d: want Read, Write or Prefetch", b.Op)
	}
	if b.Lanes < 0 || b.Lanes > MaxLanes {
		return fmt.Errorf("%d lanes: want 1 to %d", b.Lanes, MaxLanes)
	}
	if b.Op != tier.Prefetch && len(b.Spans) > 0 {
		if err := m.eng.Accepts(b.Buffer); err != nil {
			return err
		}
	}
	room := b.Buffer.size()
	for i := range b.Spans {
		s := &b.Spans[i]
		a := m.find(s.Page)
		switch {
		case a == nil || a.dropped:
			return fmt.Errorf("span %d: page %d belongs to no array", i, s.Page)
		case b.Op == tier.Prefetch:
		case s.Offset < 0 || s.Length <= 0 || int64(s.Offset)+int64(s.Length) > int64(m.o.PageSize):
			return fmt.Errorf("span %d: %d bytes at %d leave the page of %d", i, s.Length, s.Offset, m.o.PageSize)
		case s.At < 0 || s.At+int64(s.Length) > room:
			return fmt.Errorf("span %d: %d bytes at %d leave the buffer of %d", i, s.Length, s.At, room)
		}
	}
	return nil
}
