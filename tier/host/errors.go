package host

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tritier/tritier/tier"
)

// ErrClosed is what a closed memory answers.
var ErrClosed = errors.New("the memory is closed")

// ErrNotClosed is a Close whose context ended before everything was written: the
// memory is still open, and can be closed again.
var ErrNotClosed = errors.New("the memory is still open, since not everything was written: close it again")

// PageError is a page that an operation could not be done on.
type PageError struct {
	Array string
	Page  uint64 // in the array
	Err   error
}

// Error names the page.
func (e *PageError) Error() string {
	return fmt.Sprintf("array %q, page %d: %v", e.Array, e.Page, e.Err)
}

// Unwrap returns the reason.
func (e *PageError) Unwrap() error { return e.Err }

// BatchError is a batch of which some accesses failed; the others were made.
type BatchError struct {
	Accesses int          // in the batch
	Failed   int          // of them
	Pages    []*PageError // the first of those that failed, at most MaxNamed
}

// MaxNamed bounds the pages that an error names.
const MaxNamed = 16

// first is the page that an error names: a caller may have made the error without any.
func first(pages []*PageError) error {
	if len(pages) == 0 {
		return errors.New("none of them is named")
	}
	return pages[0]
}

// Error says how many accesses failed and names the first.
func (e *BatchError) Error() string {
	return fmt.Sprintf("%d of %d page accesses failed: %v", e.Failed, e.Accesses, first(e.Pages))
}

// Unwrap returns the pages' errors.
func (e *BatchError) Unwrap() []error { return unwrapPages(e.Pages) }

func unwrapPages(list []*PageError) []error {
	errs := make([]error, len(list))
	for i, p := range list {
		errs[i] = p
	}
	return errs
}

func (e *BatchError) add(p *PageError) {
	if e.Failed++; len(e.Pages) < MaxNamed {
		e.Pages = append(e.Pages, p)
	}
}

// FlushError is a flush that could not write every page: T3 lacks the newest bytes
// of the pages named. They are still in the tiers above.
type FlushError struct {
	Failed int
	Pages  []*PageError // at most MaxNamed
	Err    error        // of the store's own flush, or of a drive that is lost
}

// Error says what is not durable.
func (e *FlushError) Error() string {
	var parts []string
	if e.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d pages could not be written to T3: %v", e.Failed, first(e.Pages)))
	}
	if e.Err != nil {
		parts = append(parts, fmt.Sprintf("T3 could not be flushed: %v", e.Err))
	}
	return strings.Join(parts, "; ")
}

// Unwrap returns the reasons.
func (e *FlushError) Unwrap() []error { return append(unwrapPages(e.Pages), e.Err) }

// BrokenError is a memory that can go on no more: its upper tiers can no longer be trusted,
// or, with Kept, a drive neither answers nor can be reset.
type BrokenError struct {
	Err  error
	Lost int          // pages that T3 lacks
	Some []*PageError // the first of them
	Kept bool         // T1 and T2 still hold these: a tritier.Memory's Close writes those of drives that can be reset
}

// Error says how much is lost.
func (e *BrokenError) Error() string {
	if e.Kept {
		return fmt.Sprintf("T3 leaves requests unanswered and cannot be reset, and lacks %d pages: %v; close the memory, which writes those that other drives take, and open it again", e.Lost, e.Err)
	}
	return fmt.Sprintf("the tiers above T3 are lost with %d pages that were not written back: %v; close the memory and open it again", e.Lost, e.Err)
}

// Unwrap returns the reason.
func (e *BrokenError) Unwrap() error { return e.Err }

// PinError is a T1 too small for the pages that were to be pinned together.
type PinError struct {
	Frames int // of T1
	Pinned int // frames that are pinned
	Needs  int // the smallest number of frames that works: all pinned pages, and one for everything else
}

// Error names the smallest size that works.
func (e *PinError) Error() string {
	return fmt.Sprintf("T1 has %d frames, %d of them pinned: %d would do for all that is to be pinned and one page more", e.Frames, e.Pinned, e.Needs)
}

// Unwrap returns tier.ErrAllPinned.
func (e *PinError) Unwrap() error { return tier.ErrAllPinned }

// VictimError is an access that was not made: another page had to be written to
// T3 before, which failed. That page is where it was, and nothing is lost.
type VictimError struct{ Victim *PageError }

// Error names the other page.
func (e *VictimError) Error() string {
	return fmt.Sprintf("no room in the tiers: a page that had to be written to T3 could not be: %v", e.Victim)
}

// Unwrap returns the other page's error.
func (e *VictimError) Unwrap() error { return e.Victim }
