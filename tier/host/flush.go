package host

import (
	"context"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// Flush writes every dirty page to T3, which keeps its place in T1 or T2, and makes
// it durable. A *FlushError says what could not be written.
func (m *Memory) Flush(ctx context.Context) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Leave()
	if err := m.usable(); err != nil {
		return err
	}
	return m.flush(ctx)
}

// flushPages bounds the pages written at once; pages of T1 need a spare slot each.
const flushPages = 256

func (m *Memory) flush(ctx context.Context) error {
	spares := make([]int32, min(m.o.Spares, flushPages))
	spares = spares[:m.plan.Spare(spares)]
	defer m.plan.Return(spares)
	places := make([]tier.Place, len(spares))
	var failed FlushError
	for from := placement.Page(0); ; {
		n := m.plan.Dirty(from, places)
		if n == 0 {
			break
		}
		if ctx.Err() != nil {
			return m.unfinished(ctx, &failed)
		}
		if err := m.write(ctx, places[:n], spares, &failed); err != nil {
			return m.fail(err)
		}
		from = places[n-1].Page + 1
	}
	begun := m.began()
	failed.Err = m.t3.Flush(ctx)
	m.ended(EventFlush, begun, 1, 0)
	if failed.Err != nil || failed.Failed > 0 {
		return &failed
	}
	return nil
}

// unfinished is a flush whose context has ended: every page that is still dirty
// counts as not written.
func (m *Memory) unfinished(ctx context.Context, failed *FlushError) error {
	failed.Failed, failed.Pages = 0, nil
	cause := context.Cause(ctx)
	m.plan.Unsaved(func(p placement.Page) {
		if failed.Failed++; len(failed.Pages) < MaxNamed {
			failed.Pages = append(failed.Pages, m.pageError(p, cause))
		}
	})
	failed.Err = cause
	return failed
}

// write writes some dirty pages; those of T1 go through the spare slots. It
// returns an error when what became of them is unknown.
func (m *Memory) write(ctx context.Context, places []tier.Place, spares []int32, failed *FlushError) error {
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	var out []Copy
	list := make([]Request, len(places))
	for i, at := range places {
		slot := at.Index
		if !at.InT2 {
			slot = spares[len(out)]
			out = append(out, Copy{Frame: at.Index, Slot: slot})
		}
		list[i] = m.request(at.Page, slot, true)
	}
	if err := m.copy(t1ToT2, out); err != nil {
		return err
	}
	if err := m.begin(list).wait(ctx); err != nil {
		return err
	}
	if err := m.again(ctx, list); err != nil {
		return err
	}
	for i, at := range places {
		if err := list[i].Err; err != nil {
			if failed.Failed++; len(failed.Pages) < MaxNamed {
				failed.Pages = append(failed.Pages, m.pageError(at.Page, err))
			}
			continue
		}
		m.plan.Cleaned(at.Page)
		m.stats.Flushed++
	}
	return nil
}
