package tritier

import (
	"context"
	"errors"
	"fmt"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/tier/gpu"
	"github.com/tritier/tritier/tier/host"
)

// salvage is the end of a Close that finds pages which kernels could not write, since the
// drives have left their commands unanswered: the drives are reset, and the CPU
// writes them.
type salvage struct {
	o      *onDevice
	found  *gpu.Salvage
	t3     *tier3
	next   int             // of found.Pages
	silent map[uint64]bool // drives, by number, that have not answered after a reset either
	failed FlushError
}

// unanswered says whether pages of a flush that failed may be written once the drives were
// reset: what a drive itself has refused is not among them.
func unanswered(err error) bool {
	var failed *FlushError
	var lost *bamio.DriveError
	if !errors.As(err, &failed) {
		return false
	}
	for _, is := range []error{gpu.ErrFenced, gpu.ErrTimeout, gpu.ErrNotSent, gpu.ErrNoSlot, gpu.ErrMove, gpu.ErrGivenUp} {
		if errors.Is(err, is) {
			return true
		}
	}
	var status *bamio.StatusError
	if errors.As(err, &status) {
		if _, answered := status.Status.NVMe(); !answered {
			return true
		}
	}
	return errors.As(err, &lost) || failed.Failed > len(failed.Pages) // of which some can be
}

// salvage begins to write what is left after a flush that failed with err.
func (o *onDevice) salvage(ctx context.Context, err error) error {
	found, failed := o.e.Salvage(ctx, func() error { return o.v.Recover(context.WithoutCancel(ctx)) })
	var running *gpu.RunningError
	var reset *gpu.ResetError
	switch {
	case failed == nil:
	case errors.As(failed, &running), ctx.Err() != nil && !errors.As(failed, &reset):
		return errors.Join(ErrNotClosed, err, failed)
	default:
		return errors.Join(err, failed)
	}
	o.resets.Add(1)
	s := &salvage{o: o, found: found, silent: map[uint64]bool{}}
	if failed := s.open(); failed != nil {
		return errors.Join(err, failed)
	}
	o.rest = s
	return o.rest.write(ctx)
}

// salvageDepth is the most pages that are written at a time.
const salvageDepth = 64

func (s *salvage) open() error {
	o := s.o
	page := int(o.cfg.PageSize)
	q, err := o.v.OpenQueue(queueDepth)
	if err != nil {
		return err
	}
	m, err := o.v.Alloc(page * s.depth())
	if err != nil {
		return joinClose(err, q.Close)
	}
	s.t3 = &tier3{v: o.v, q: q, slots: m, page: page, timeout: o.cfg.Timeout, arrays: map[int]namedArray{}}
	for _, a := range o.arrays {
		s.t3.add(a.id, a.key.name, a.v)
	}
	return nil
}

func (s *salvage) depth() int { return max(min(salvageDepth, stagedBytes/int(s.o.cfg.PageSize)), 1) }

// stagedBytes bounds the copies of pages that are being written.
const stagedBytes = 8 << 20

// write writes the rest of the pages and has the drives make them durable. Between
// batches it looks at ctx: another Close goes on then.
func (s *salvage) write(ctx context.Context) error {
	for s.next < len(s.found.Pages) {
		if err := ctx.Err(); err != nil {
			return errors.Join(ErrNotClosed, err)
		}
		n := min(s.depth(), len(s.found.Pages)-s.next)
		s.batch(context.WithoutCancel(ctx), n)
		s.next += n
	}
	if err := s.t3.Flush(context.WithoutCancel(ctx)); err != nil {
		s.failed.Err = err
	}
	err := s.close()
	if s.failed.Failed > 0 || s.failed.Err != nil {
		return errors.Join(&s.failed, err)
	}
	return err
}

// errSilent is a page that was not tried, so that a dead drive costs the time-outs of one batch.
var errSilent = errors.New("not tried, after others have waited in vain for the drive, also after a reset")

// drive is the number of the drive that has page k of found.
func (s *salvage) drive(k int) uint64 { return s.found.Pages[k] % uint64(len(s.o.v.Members())) }

// batch writes n pages from the next on.
func (s *salvage) batch(ctx context.Context, n int) {
	page := s.t3.page
	var list []host.Request
	var index []int
	for i := range n {
		k := s.next + i
		a := s.o.arrayOf(s.found.Pages[k])
		if s.silent[s.drive(k)] {
			s.fail(k, k+1, errSilent)
			continue
		}
		if a == nil {
			s.fail(k, k+1, errors.New("it belongs to no array"))
			continue
		}
		if err := s.found.Read(ctx, k, s.t3.slots.Bytes()[i*page:(i+1)*page]); err != nil {
			s.fail(k, k+1, err)
			continue
		}
		list, index = append(list, host.Request{Array: a.id, Page: s.found.Pages[k] - a.first, Slot: int32(i), Write: true}), append(index, k)
	}
	for tries := 0; tries <= max(s.o.cfg.Retries, 0) && len(list) > 0; tries++ {
		list, index = s.try(ctx, list, index)
	}
	for i, k := range index {
		s.fail(k, k+1, list[i].Err)
		if list[i].Late {
			s.silent[s.drive(k)] = true
		}
	}
}

// try writes pages, and returns those that have failed.
func (s *salvage) try(ctx context.Context, list []host.Request, index []int) (left []host.Request, of []int) {
	p, err := s.t3.Start(list)
	if err == nil {
		err = p.Wait(ctx)
	}
	late := false
	for i, r := range list {
		if err != nil { // of the batch: its pages have none of their own
			r.Err, r.Late = err, true
		}
		if r.Err != nil {
			late = late || r.Late
			left, of = append(left, r), append(of, index[i])
		}
	}
	s.o.saved.Add(uint64(len(list) - len(left)))
	if late && s.t3.Recover(ctx) == nil {
		s.o.resets.Add(1)
	}
	return left, of
}

// fail notes pages from..to of found as lost.
func (s *salvage) fail(from, to int, err error) {
	s.failed.Failed += to - from
	for k := from; k < to && len(s.failed.Pages) < host.MaxNamed; k++ {
		e := &PageError{Array: "?", Page: s.found.Pages[k], Err: err}
		if a := s.o.arrayOf(e.Page); a != nil {
			e.Array, e.Page = a.key.name, e.Page-a.first
		}
		s.failed.Pages = append(s.failed.Pages, e)
	}
}

// close gives back what open has taken. The arrays are closed with the others.
func (s *salvage) close() error {
	clear(s.t3.arrays)
	if err := s.t3.freed(); err != nil {
		return fmt.Errorf("what was written at last may still be in flight: %w", err)
	}
	return nil
}
