package tritier

import (
	"errors"
	"fmt"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/libnvm/volume"
	"github.com/tritier/tritier/tier/gpu"
)

// named gives pages their arrays' names.
func (o *onDevice) named(err error, accesses int) error {
	var failed *gpu.AccessError
	if errors.Is(err, gpu.ErrClosed) {
		return ErrClosed
	}
	if !errors.As(err, &failed) {
		return err
	}
	if failed.Needed > 0 {
		frames, _, _ := o.cfg.pages()
		return &PinError{Frames: frames, Pinned: frames, Needs: failed.Needed}
	}
	return &BatchError{Accesses: accesses, Failed: failed.Failed, Pages: o.pageErrors(failed, false)}
}

// pageErrors names the pages that failed. own says that each of them is itself what could not
// be written: of a flush.
func (o *onDevice) pageErrors(failed *gpu.AccessError, own bool) []*PageError {
	members := o.v.Members()
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []*PageError
	for _, p := range failed.Pages {
		e := &PageError{Array: "?", Page: p.Page, Err: p.Err}
		for _, a := range o.arrays {
			if p.Page >= a.first && p.Page-a.first < a.pages {
				e.Array, e.Page = a.key.name, p.Page-a.first
			}
		}
		mine := members[p.Page%uint64(len(members))] // as the volume stripes
		var back *gpu.WriteBackError
		switch {
		case !errors.As(p.Err, &back):
			e.Err = explained(p.Err, mine)
		case own:
			e.Err = explained(back.Err, mine)
		default: // it is not known of which drive the page was that had to leave
			e.Err = &gpu.WriteBackError{Err: explained(back.Err, members...)}
		}
		list = append(list, e)
	}
	return list
}

// explained adds to a drive's status what the system says of the files that software drives
// serve, as volume's queues do for the CPU: kernels have the status alone.
func explained(err error, members ...volume.Member) error {
	var status *bamio.StatusError
	if !errors.As(err, &status) {
		return err
	}
	if _, answered := status.Status.NVMe(); !answered {
		return err
	}
	for _, m := range members {
		if h, ok := m.(volume.HostErrorer); ok {
			if host := h.HostError(); host != nil {
				err = fmt.Errorf("%w; the host says: %w", err, host)
			}
		}
	}
	return err
}
