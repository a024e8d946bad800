package tritier

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/libnvm/volume"
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
	order  []int            // of found.Pages, drive by drive: what one does not do keeps no other up
	next   int              // of order
	silent map[int]error    // drives, by number, that are not asked any more, and why
	left   []*volume.Memory // that a drive may still read
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
	s := &salvage{o: o}
	found, failed := o.e.Salvage(ctx, func() error {
		err := o.v.Recover(context.WithoutCancel(ctx))
		s.silent = o.notReset(err)
		return err
	})
	s.found = found
	var running *gpu.RunningError
	var reset *gpu.ResetError
	switch {
	case failed == nil, errors.As(failed, &reset): // a drive that was not reset keeps no other up
	case errors.As(failed, &running), ctx.Err() != nil:
		o.owed = err
		return errors.Join(ErrNotClosed, err, failed)
	default:
		return errors.Join(err, failed)
	}
	if !s.dead() {
		o.resets.Add(1)
	}
	if failed := s.open(); failed != nil {
		return errors.Join(err, failed)
	}
	o.rest = s
	return o.rest.write(ctx)
}

// dead says whether no drive is left.
func (s *salvage) dead() bool { return len(s.silent) == len(s.o.v.Members()) }

// notReset are the drives, by number, that may still do what the GPU has asked for, after a
// Recover that ended with err.
func (o *onDevice) notReset(err error) map[int]error {
	list := map[int]error{}
	var failed *volume.RecoverError
	switch {
	case errors.As(err, &failed) && failed.Rest == nil:
		for i := range failed.Members {
			list[failed.Members[i].Member] = fmt.Errorf("not written, since the drive could not be reset: %w", &failed.Members[i])
		}
	case err != nil:
		for i := range o.v.Members() {
			list[i] = fmt.Errorf("not written, since it is not known whether the drive was reset: %w", err)
		}
	}
	return list
}

// salvageDepth is the most pages of a drive that are written at a time.
const salvageDepth = 32

func (s *salvage) open() error {
	o := s.o
	page := int(o.cfg.PageSize)
	q, err := o.v.OpenQueueWithout(queueDepth, func(drive int) error { return s.silent[drive] })
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
	for k := range s.found.Pages {
		s.order = append(s.order, k)
	}
	slices.SortStableFunc(s.order, func(a, b int) int { return s.drive(a) - s.drive(b) })
	return nil
}

func (s *salvage) depth() int { return max(min(salvageDepth, stagedBytes/int(s.o.cfg.PageSize)), 1) }

// stagedBytes bounds the copies of pages that are being written.
const stagedBytes = 8 << 20

// write writes the rest of the pages and has the drives make them durable. Between
// batches it looks at ctx: another Close goes on then.
func (s *salvage) write(ctx context.Context) error {
	for s.next < len(s.order) {
		if err := ctx.Err(); err != nil {
			return errors.Join(ErrNotClosed, err)
		}
		n := 1
		for n < min(s.depth(), len(s.order)-s.next) && s.drive(s.order[s.next+n]) == s.drive(s.order[s.next]) {
			n++
		}
		s.batch(context.WithoutCancel(ctx), s.order[s.next:s.next+n])
		s.next += n
	}
	if !s.dead() {
		s.failed.Err = s.t3.Flush(context.WithoutCancel(ctx))
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
func (s *salvage) drive(k int) int { return int(s.found.Pages[k] % uint64(len(s.o.v.Members()))) }

// batch writes pages, which are all of one drive.
func (s *salvage) batch(ctx context.Context, pages []int) {
	page, drive := s.t3.page, s.drive(pages[0])
	var list []host.Request
	var index []int
	for i, k := range pages {
		a := s.o.arrayOf(s.found.Pages[k])
		if err := s.silent[drive]; err != nil {
			s.fail(k, err)
			continue
		}
		if a == nil {
			s.fail(k, errors.New("it belongs to no array"))
			continue
		}
		if err := s.found.Read(ctx, k, s.t3.slots.Bytes()[i*page:(i+1)*page]); err != nil {
			s.fail(k, err)
			continue
		}
		list, index = append(list, host.Request{Array: a.id, Page: s.found.Pages[k] - a.first, Slot: int32(i), Write: true}), append(index, k)
	}
	for tries := 0; tries <= max(s.o.cfg.Retries, 0) && len(list) > 0 && s.silent[drive] == nil; tries++ {
		list, index = s.try(ctx, drive, list, index)
	}
	for i, k := range index {
		s.fail(k, list[i].Err)
		if list[i].Late && s.silent[drive] == nil {
			s.silent[drive] = errSilent
		}
	}
}

// try writes pages of a drive, and returns those that have failed.
func (s *salvage) try(ctx context.Context, drive int, list []host.Request, index []int) (left []host.Request, of []int) {
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
	if !late {
		return left, of
	}
	if err := s.t3.Recover(ctx); err != nil {
		s.resign(drive, err)
		return left, of
	}
	s.o.resets.Add(1)
	return left, of
}

// resign asks a drive nothing more that may still read what it was to write: the memory is its own
// from now on, or it would write the bytes of later pages.
func (s *salvage) resign(drive int, err error) {
	s.silent[drive] = fmt.Errorf("%w: %w", errSilent, err)
	m, err := s.o.v.Alloc(s.t3.page * s.depth())
	if err != nil {
		for i := range s.o.v.Members() {
			s.silent[i] = err
		}
		return
	}
	s.left, s.t3.slots = append(s.left, s.t3.slots), m
}

// fail notes page k of found as lost.
func (s *salvage) fail(k int, err error) {
	s.failed.Failed++
	if len(s.failed.Pages) >= host.MaxNamed {
		return
	}
	e := &PageError{Array: "?", Page: s.found.Pages[k], Err: err}
	if a := s.o.arrayOf(e.Page); a != nil {
		e.Array, e.Page = a.key.name, e.Page-a.first
	}
	s.failed.Pages = append(s.failed.Pages, e)
}

// close closes the queue. The arrays are closed with the others.
func (s *salvage) close() error {
	clear(s.t3.arrays)
	s.t3.q.Poll() // takes what a reset has ended
	if err := s.t3.q.Close(); err != nil {
		return fmt.Errorf("what was written at last may still be in flight: %w", err)
	}
	return nil
}

// free gives the memory back, once the drives are closed and read it no more.
func (s *salvage) free() error {
	if s == nil {
		return nil
	}
	var errs []error
	for _, m := range append(s.left, s.t3.slots) {
		errs = append(errs, m.Free())
	}
	s.left = nil
	return errors.Join(errs...)
}
