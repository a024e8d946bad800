package gpu

import (
	"errors"
	"fmt"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/tier/layout"
)

// Status is how an access ended on the GPU: 0, the status field of a completion, or
// one of the values of package layout.
type Status uint32

// Errors of accesses, for errors.Is.
var (
	ErrTimeout   = errors.New("a wait on the GPU took longer than the deadline")
	ErrStopped   = errors.New("kernels were asked to end")
	ErrAllPinned = errors.New("every frame of T1 is pinned")
	ErrNoSlot    = errors.New("no spare slot became free: more of them (Spares) let more warps miss at once")
	ErrPins      = errors.New("more pins on one page than its entry can count")
	ErrRange     = errors.New("an index outside of the array")
	ErrCall      = errors.New("arguments that no call may have")
	ErrNotSent   = errors.New("the drive was not asked: it has failed or is gone, or the batch was given up")
	ErrFenced    = errors.New("an earlier write of the page was not answered in time and may still be carried out: the page is kept where it is until the drive has answered; flush again then")
	ErrMove      = errors.New("a copy engine's copy of the page was begun and did not end in time: frame or slot are kept out of use until it has; the page is where it was")
	ErrGivenUp   = errors.New("after one of them has waited in vain the rest was not tried")
	ErrInvariant = errors.New("an invariant of the page table does not hold: memory of the tables was overwritten, or tritier is at fault")
)

var statusErrors = map[Status]error{layout.WaitTimeout: ErrTimeout, layout.WaitStopped: ErrStopped, layout.AllPinned: ErrAllPinned,
	layout.NoSlot: ErrNoSlot, layout.TooManyPins: ErrPins, layout.OutOfRange: ErrRange, layout.BadCall: ErrCall, layout.Broken: ErrInvariant, layout.NotSent: ErrNotSent,
	layout.Fenced: ErrFenced, layout.MoveLost: ErrMove}

// WriteBackError is an access that was not made, since a victim could not be written
// to T3: the victim is where it was, dirty.
type WriteBackError struct{ Err error }

// Error says why.
func (e *WriteBackError) Error() string {
	return fmt.Sprintf("no room in the tiers: a page that had to be written to T3 could not be: %v", e.Err)
}

// Unwrap returns the drive's error.
func (e *WriteBackError) Unwrap() error { return e.Err }

// DriveFlushError is a Flush that wrote every page, but whose drives did not make them
// durable: flush again.
type DriveFlushError struct{ Err error }

// Error says why.
func (e *DriveFlushError) Error() string {
	return fmt.Sprintf("the drives could not be made durable: %v", e.Err)
}

// Unwrap returns the drive's error.
func (e *DriveFlushError) Unwrap() error { return e.Err }

// Err is the status as an error, nil for success.
func (s Status) Err() error {
	if s == 0 {
		return nil
	}
	if err := statusErrors[s]; err != nil {
		return err
	}
	if s >= layout.WriteBack {
		return &WriteBackError{Status(s - layout.WriteBack).Err()}
	}
	return bamio.Status(s).Err()
}

// PageError is a page that could not be accessed.
type PageError struct {
	Page uint64 // of the engine
	Err  error
}

// Error names the page.
func (e *PageError) Error() string { return fmt.Sprintf("page %d: %v", e.Page, e.Err) }

// Unwrap returns the reason.
func (e *PageError) Unwrap() error { return e.Err }

// AccessError is a batch of which some elements, or pages of a run, were not moved;
// the others were. After one that has waited in vain the rest was not tried.
type AccessError struct {
	Failed int
	Pages  []*PageError // of the first that failed; a page may be there more than once
	Needed int          // frames of T1 that would do, when all were pinned; else 0
	Drive  error        // a *bamio.DriveError when a drive was lost meanwhile

	ended bool // the rest was not tried
}

// Error names the first page.
func (e *AccessError) Error() string {
	s := fmt.Sprintf("%d accesses failed", e.Failed)
	if len(e.Pages) > 0 {
		s += ": " + e.Pages[0].Error()
	}
	if e.ended {
		s += "; " + ErrGivenUp.Error()
	}
	if e.Drive != nil {
		s += fmt.Sprintf("; %v", e.Drive)
	}
	if e.Needed > 0 {
		s += fmt.Sprintf("; a T1 of %d frames would do", e.Needed)
	}
	return s
}

// Unwrap returns the pages' errors.
func (e *AccessError) Unwrap() []error {
	var list []error
	for _, p := range e.Pages {
		list = append(list, p)
	}
	if e.ended {
		list = append(list, ErrGivenUp)
	}
	if e.Drive != nil {
		list = append(list, e.Drive)
	}
	return list
}
