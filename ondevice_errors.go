package tritier

import (
	"errors"
	"fmt"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/libnvm"
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
// serve, as volume's queues do for the CPU, and to the want of one how the drive has failed: kernels
// have the status alone.
func explained(err error, members ...volume.Member) error {
	var status *bamio.StatusError
	if !errors.As(err, &status) {
		if errors.Is(err, gpu.ErrNotSent) || errors.Is(err, gpu.ErrFenced) {
			return blamed(err, bamio.QueueFailed, members)
		}
		return err
	}
	if _, answered := status.Status.NVMe(); !answered {
		return blamed(err, status.Status, members)
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

// blamed adds to what was not answered the drives that say themselves that they have failed, or
// are gone: kernels know only that they have nothing to wait for.
func blamed(err error, st bamio.Status, members []volume.Member) error {
	for _, m := range members {
		n, ok := m.(volume.NVMeMember)
		if !ok {
			continue
		}
		c, _ := n.NVMe()
		health := c.Health()
		if health == nil {
			continue
		}
		err = fmt.Errorf("%w; %w", err, &bamio.DriveError{Drive: m.Name(), Status: st, Err: health})
		var gone *libnvm.DeviceGoneError
		if !errors.As(health, &gone) {
			err = fmt.Errorf("%w: Close does that, and writes what T1 and T2 have; open the store anew then", err)
		}
	}
	return err
}
