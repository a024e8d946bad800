package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tritier/tritier/libnvm"
)

// fence keeps writes from a page of which an earlier write timed out: until its
// member was reset, that write may still land, over newer data and after a
// Flush.
type fence struct {
	array string
	page  uint64  // in the array
	mem   Mapping // held until the command can no longer land
}

// mayLand says whether a write that ended with err may still be carried out. A
// member that has answered, with any status, is done with it; otherwise it is
// not as long as it holds the memory.
func mayLand(mem Mapping, err error) bool {
	var status *libnvm.StatusError
	return err != nil && mem.Held() > 0 && !errors.As(err, &status)
}

// fence closes a page to writes.
func (v *Volume) fence(f *flight) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := f.req
	v.fences[f.page] = fence{r.Array.info.Name, r.Page, r.Mem.maps[f.member]}
	v.fenced.Store(int64(len(v.fences)))
}

// fenceOf returns the error for a write of a page, nil when it may go on. The
// count spares the lock where nothing has timed out, which is nearly always;
// who writes a page knows that its last write has ended, so sees its fence.
func (v *Volume) fenceOf(page uint64) error {
	if v.fenced.Load() == 0 {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.liftFences()
	if f, ok := v.fences[page]; ok {
		return v.fencedError(page, f)
	}
	return nil
}

func (v *Volume) fencedError(page uint64, f fence) *FencedPageError {
	member, _ := v.locate(page)
	return &FencedPageError{f.array, f.page, v.members[member].Name()}
}

// liftFences opens the pages whose members hold their memory no longer. Needs mu.
func (v *Volume) liftFences() {
	for page, f := range v.fences {
		if f.mem.Held() == 0 {
			delete(v.fences, page)
		}
	}
	v.fenced.Store(int64(len(v.fences)))
}

// fencedIn returns the fence of the first of n pages that has one, for an array
// that is to be made of them. Needs mu.
func (v *Volume) fencedIn(first, n uint64) error {
	v.liftFences()
	for page, f := range v.fences {
		if page >= first && page-first < n {
			return v.fencedError(page, f)
		}
	}
	return nil
}

// unknown reports the pages whose durability nobody knows. Needs mu.
func (v *Volume) unknown() error {
	v.liftFences()
	if len(v.fences) == 0 {
		return nil
	}
	e := &DurabilityError{}
	for page, f := range v.fences {
		e.Pages = append(e.Pages, *v.fencedError(page, f))
	}
	slices.SortFunc(e.Pages, func(a, b FencedPageError) int {
		return cmp.Or(cmp.Compare(a.Array, b.Array), cmp.Compare(a.Page, b.Page))
	})
	return e
}

// Resetter is a Member that owns its controller, so that Volume.Recover may
// reset it.
type Resetter interface {
	// Reset ends every operation of the member, so that none can land any more.
	// Queues and mappings stay usable. ErrNoReset says that the controller is
	// not the member's.
	Reset() error
}

// Recover resets the members whose operations timed out, and so lifts the
// fences of pages, frees memory in quarantine, and lets metadata be written
// again (but for a directory whose write failed: open the volume again then).
// Operations in flight on them end with libnvm.ErrReset. No goroutine
// may be inside a method of a Queue of this volume meanwhile, nor send anything
// else to these controllers.
//
// Members of OpenFiles are reset, and those with NamespaceOptions.Reset. For
// others reset the controller, or the queue pair, yourself: that lifts the
// fences, too. An error wraps ErrNoReset where that is needed, or a
// *DurabilityError when fences are left. A page whose fence is lifted holds its
// old content or that of the write, until it is written again. ctx is looked at
// between members.
func (v *Volume) Recover(ctx context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return ErrClosed
	}
	v.liftFences()
	needed := map[int]bool{}
	for page := range v.fences {
		member, _ := v.locate(page)
		needed[member] = true
	}
	failed := &RecoverError{}
	for i, m := range v.members {
		r, ok := m.(Resetter)
		if !ok {
			r = noReset{}
		}
		if err := ctx.Err(); err != nil {
			failed.Rest = err
			return failed
		}
		err := r.Reset()
		if errors.Is(err, ErrNoReset) && !needed[i] && !v.meta[i].held() {
			continue
		}
		if err != nil {
			failed.Members = append(failed.Members, ResetError{i, m.Name(), err})
		}
	}
	if failed.Rest = v.unknown(); failed.Rest == nil && len(failed.Members) == 0 {
		return nil
	}
	return failed
}

// RecoverError says of which members operations may still land after a Recover. Those
// that it does not name were reset, if it is Complete.
type RecoverError struct {
	Members []ResetError // could not be reset
	Rest    error        // a *DurabilityError, or why others were not tried
}

// Complete says whether Members are all that may still carry something out: all were tried,
// and the fences that are left are theirs.
func (e *RecoverError) Complete() bool {
	if e.Rest == nil {
		return true
	}
	var fences *DurabilityError
	if !errors.As(e.Rest, &fences) {
		return false
	}
	for i := range fences.Pages {
		if !slices.ContainsFunc(e.Members, func(m ResetError) bool { return m.Name == fences.Pages[i].Member }) {
			return false
		}
	}
	return true
}

// ResetError is a member that could not be reset.
type ResetError struct {
	Member int // its number in the volume
	Name   string
	Err    error
}

// Error names the member.
func (e *ResetError) Error() string { return fmt.Sprintf("volume: %s: %v", e.Name, e.Err) }

// Unwrap returns the reason.
func (e *ResetError) Unwrap() error { return e.Err }

// Error joins all of them.
func (e *RecoverError) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap returns all of them.
func (e *RecoverError) Unwrap() []error {
	var errs []error
	for i := range e.Members {
		errs = append(errs, &e.Members[i])
	}
	if e.Rest != nil {
		errs = append(errs, e.Rest)
	}
	return errs
}

// noReset stands for a member that has no Reset.
type noReset struct{}

func (noReset) Reset() error { return ErrNoReset }
