package host

import (
	"context"
	"errors"

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

// flushing is a flush under way.
type flushing struct {
	m      *Memory
	spares []int32
	failed FlushError
	vain   map[int]int // drives, by number: how many tries in a row they have not answered
}

func (m *Memory) flush(ctx context.Context) error {
	spares := make([]int32, min(m.o.Spares, flushPages))
	spares = spares[:m.plan.Spare(spares)]
	defer m.plan.Return(spares)
	places := make([]tier.Place, len(spares))
	f := flushing{m: m, spares: spares, vain: map[int]int{}}
	for from := placement.Page(0); ; {
		n := m.plan.Dirty(from, places)
		if n == 0 {
			break
		}
		if ctx.Err() != nil {
			return m.unfinished(ctx, &f.failed)
		}
		from = places[n-1].Page + 1
		if err := f.write(ctx, f.answering(places[:n])); err != nil {
			return m.fail(err)
		}
	}
	begun := m.began()
	f.failed.Err = m.t3.Flush(ctx)
	m.ended(EventFlush, begun, 1, 0)
	if f.failed.Err != nil || f.failed.Failed > 0 {
		return &f.failed
	}
	return nil
}

// mostVain is how many tries in a row a drive may leave without an answer before the rest of
// its pages is not tried: a dead drive costs a flush the time-outs of these, and not
// of every set of pages.
const mostVain = 3

var errSilent = errors.New("not tried, after others have waited in vain for the drive")

// answering leaves out the pages of drives that answer nothing any more: they have failed.
func (f *flushing) answering(places []tier.Place) []tier.Place {
	kept := places[:0]
	for _, at := range places {
		r := f.m.request(at.Page, at.Index, true)
		if f.vain[f.m.t3.Drive(r.Array, r.Page)] >= mostVain {
			f.lost(at.Page, errSilent)
			continue
		}
		kept = append(kept, at)
	}
	return kept
}

// heard looks which drives have written anything of what was tried. What was not even sent
// in time, behind requests that timed out, is no answer.
func (f *flushing) heard(list []Request) {
	late, wrote := map[int]bool{}, map[int]bool{}
	for _, r := range list {
		drive := f.m.t3.Drive(r.Array, r.Page)
		late[drive] = late[drive] || r.Err != nil && r.Late
		wrote[drive] = wrote[drive] || r.Err == nil
	}
	for drive, is := range late {
		if is && !wrote[drive] {
			f.vain[drive]++
		} else {
			f.vain[drive] = 0
		}
	}
}

// lost notes a page that T3 lacks.
func (f *flushing) lost(p placement.Page, err error) {
	if f.failed.Failed++; len(f.failed.Pages) < MaxNamed {
		f.failed.Pages = append(f.failed.Pages, f.m.pageError(p, err))
	}
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
func (f *flushing) write(ctx context.Context, places []tier.Place) error {
	if len(places) == 0 {
		return nil
	}
	m := f.m
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	var out []Copy
	list := make([]Request, len(places))
	for i, at := range places {
		slot := at.Index
		if !at.InT2 {
			slot = f.spares[len(out)]
			out = append(out, Copy{Frame: at.Index, Slot: slot})
		}
		list[i] = m.request(at.Page, slot, true)
	}
	if err := m.copy(t1ToT2, out); err != nil {
		return err
	}
	if err := f.send(ctx, list); err != nil {
		return err
	}
	for i, at := range places {
		if err := list[i].Err; err != nil {
			f.lost(at.Page, err)
			continue
		}
		m.plan.Cleaned(at.Page)
		m.stats.Flushed++
	}
	return nil
}

// send is begin, wait and again, and keeps account of the drives' answers.
func (f *flushing) send(ctx context.Context, list []Request) error {
	m := f.m
	if err := m.begin(list).wait(ctx); err != nil {
		return err
	}
	if err := m.settle(ctx, list); err != nil {
		return err
	}
	f.heard(list)
	for range m.o.Retries {
		again, err := m.retry(ctx, list)
		if err != nil {
			return err
		}
		if len(again) == 0 {
			return nil
		}
		f.heard(again)
	}
	return nil
}
