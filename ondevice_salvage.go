package tritier

import (
	"context"
	"errors"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/tier/gpu"
)

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
	var silent map[int]error
	found, failed := o.e.Salvage(ctx, func() error {
		err := o.v.Recover(context.WithoutCancel(ctx))
		silent = notReset(o.v, err)
		return err
	})
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
	s := &salvage{cfg: o.cfg, v: o.v, silent: silent, read: found.Read, saved: &o.saved, resets: &o.resets, pages: o.unsaved(found)}
	arrays := map[int]namedArray{}
	for _, a := range o.arrays {
		arrays[a.id] = namedArray{a.key.name, a.v}
	}
	if failed := s.open(arrays); failed != nil {
		return errors.Join(err, failed)
	}
	o.rest = s
	return o.rest.write(ctx)
}

// unsaved are the pages that were found.
func (o *onDevice) unsaved(found *gpu.Salvage) []unsavedPage {
	list := make([]unsavedPage, len(found.Pages))
	for k, p := range found.Pages {
		x := unsavedPage{name: "?", page: p, drive: int(p % uint64(len(o.v.Members()))), number: k}
		if a := o.arrayOf(p); a != nil {
			x.array, x.name, x.page = a.id, a.key.name, p-a.first
		} else {
			x.err = errors.New("it belongs to no array")
		}
		list[k] = x
	}
	return list
}
