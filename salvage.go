package tritier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/tritier/tritier/libnvm/volume"
	"github.com/tritier/tritier/tier/host"
)

// salvage is the end of a Close that finds pages which could not be written, since drives have
// left commands unanswered: the drives are reset, and the CPU writes the pages of those that
// could be, from memory of its own.
type salvage struct {
	cfg    *parsed
	v      *volume.Volume
	pages  []unsavedPage // drive by drive: what one does not do keeps no other up
	read   func(ctx context.Context, number int, dst []byte) error
	t3     *tier3
	next   int              // of pages
	silent map[int]error    // drives, by number, that are not asked any more, and why
	left   []*volume.Memory // that a drive may still read
	failed FlushError
	saved  *atomic.Uint64 // pages
	resets *atomic.Uint64 // of the drives
}

// unsavedPage is a page whose newest bytes only T1 or T2 has.
type unsavedPage struct {
	array  int // as engines number them
	name   string
	page   uint64 // in the array
	drive  int
	number int   // for salvage.read
	err    error // why it cannot be written
}

// dead says whether no drive is left.
func (s *salvage) dead() bool { return len(s.silent) == len(s.v.Members()) }

// notReset are the drives, by number, that may still do what they were asked for, after a
// Recover that ended with err.
func notReset(v *volume.Volume, err error) map[int]error {
	list := map[int]error{}
	var failed *volume.RecoverError
	switch {
	case errors.As(err, &failed) && failed.Complete():
		for i := range failed.Members {
			list[failed.Members[i].Member] = fmt.Errorf("not written, since the drive could not be reset: %w", &failed.Members[i])
		}
	case err != nil:
		for i := range v.Members() {
			list[i] = fmt.Errorf("not written, since it is not known whether the drive was reset: %w", err)
		}
	}
	return list
}

// salvageDepth is the most pages of a drive that are written at a time.
const salvageDepth = 32

// open prepares to write, right after a Recover that silent tells of.
func (s *salvage) open(arrays map[int]namedArray) error {
	if !s.dead() {
		s.resets.Add(1)
	}
	page := int(s.cfg.PageSize)
	q, err := s.v.OpenQueueWithout(queueDepth, func(drive int) error { return s.silent[drive] })
	if err != nil {
		return err
	}
	m, err := s.v.Alloc(page * s.depth())
	if err != nil {
		return joinClose(err, q.Close)
	}
	s.t3 = &tier3{v: s.v, q: q, slots: m, page: page, timeout: s.cfg.Timeout, resets: s.resets, arrays: arrays}
	slices.SortStableFunc(s.pages, func(a, b unsavedPage) int { return a.drive - b.drive })
	return nil
}

func (s *salvage) depth() int { return max(min(salvageDepth, stagedBytes/int(s.cfg.PageSize)), 1) }

// stagedBytes bounds the copies of pages that are being written.
const stagedBytes = 8 << 20

// write writes the rest of the pages and has the drives make them durable. Between
// batches it looks at ctx: another Close goes on then.
func (s *salvage) write(ctx context.Context) error {
	for s.next < len(s.pages) {
		if err := ctx.Err(); err != nil {
			return errors.Join(ErrNotClosed, err)
		}
		n := 1
		for n < min(s.depth(), len(s.pages)-s.next) && s.pages[s.next+n].drive == s.pages[s.next].drive {
			n++
		}
		s.batch(context.WithoutCancel(ctx), s.pages[s.next:s.next+n])
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

// batch writes pages, which are all of one drive.
func (s *salvage) batch(ctx context.Context, pages []unsavedPage) {
	size, drive := s.t3.page, pages[0].drive
	var list []host.Request
	var of []*unsavedPage
	for i := range pages {
		x := &pages[i]
		err := s.silent[drive]
		if err == nil {
			err = x.err
		}
		if err == nil {
			err = s.read(ctx, x.number, s.t3.slots.Bytes()[i*size:(i+1)*size])
		}
		if err != nil {
			s.fail(x, err)
			continue
		}
		list, of = append(list, host.Request{Array: x.array, Page: x.page, Slot: int32(i), Write: true}), append(of, x)
	}
	for tries := 0; tries <= max(s.cfg.Retries, 0) && len(list) > 0 && s.silent[drive] == nil; tries++ {
		list, of = s.try(ctx, drive, list, of)
	}
	for i, x := range of {
		s.fail(x, list[i].Err)
		if list[i].Late && s.silent[drive] == nil {
			s.silent[drive] = errSilent
		}
	}
}

// try writes pages of a drive, and returns those that have failed.
func (s *salvage) try(ctx context.Context, drive int, list []host.Request, of []*unsavedPage) (left []host.Request, ofLeft []*unsavedPage) {
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
			left, ofLeft = append(left, r), append(ofLeft, of[i])
		}
	}
	s.saved.Add(uint64(len(list) - len(left)))
	if !late {
		return left, ofLeft
	}
	err = s.t3.Recover(ctx)
	if notReset(s.v, err)[drive] != nil { // another one that cannot be reset is no reason
		s.resign(drive, err)
		return left, ofLeft
	}
	s.resets.Add(1)
	return left, ofLeft
}

// resign asks a drive nothing more that may still read what it was to write: the memory is its own
// from now on, or it would write the bytes of later pages.
func (s *salvage) resign(drive int, err error) {
	s.silent[drive] = fmt.Errorf("%w: %w", errSilent, err)
	m, err := s.v.Alloc(s.t3.page * s.depth())
	if err != nil {
		for i := range s.v.Members() {
			s.silent[i] = err
		}
		return
	}
	s.left, s.t3.slots = append(s.left, s.t3.slots), m
}

// fail notes a page as lost.
func (s *salvage) fail(x *unsavedPage, err error) {
	if s.failed.Failed++; len(s.failed.Pages) < host.MaxNamed {
		s.failed.Pages = append(s.failed.Pages, &PageError{Array: x.name, Page: x.page, Err: err})
	}
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
