package volume

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed means that the volume or the array was closed.
	ErrClosed = errors.New("volume: closed")
	// ErrBusy means that arrays or batches are still in use.
	ErrBusy = errors.New("volume: still in use: close arrays and finish batches first")
	// ErrArrayExists means that the name is taken.
	ErrArrayExists = errors.New("volume: an array of this name exists")
	// ErrNoArray means that there is no array of this name.
	ErrNoArray = errors.New("volume: no array of this name")
	// ErrDeadline is a page that did not get its turn before the batch's deadline.
	ErrDeadline = errors.New("volume: the batch's deadline passed before the page was sent")
	// ErrStuck is a batch that its members did not end at its deadline. Its
	// memory is still in use: reset the controllers.
	ErrStuck = errors.New("volume: a member did not end its operations at the deadline; their memory is still in use until it is reset")
	// ErrHeld is metadata that is not touched because an earlier operation on it
	// timed out, or was left in flight by FlushContext, and may still land. Volume.Recover, or a reset of the member's
	// controller, ends that.
	ErrHeld = errors.New("volume: an operation on metadata timed out or has not ended and may still land; reset the member's controller (Volume.Recover), then try again")
	// ErrNoReset is a member whose controller the volume does not own.
	ErrNoReset = errors.New("volume: the member's controller is not the volume's to reset; reset it where it was opened")
)

// FencedPageError is a page that may not be written: an earlier write of it
// timed out, and could land over this one at any time.
type FencedPageError struct {
	Array  string
	Page   uint64 // in the array
	Member string
}

func (e *FencedPageError) Error() string {
	return fmt.Sprintf("volume: a write of page %d of array %q on %s timed out and may still land; reset the member's controller or queue (Volume.Recover), then continue",
		e.Page, e.Array, e.Member)
}

// DurabilityError is a Flush after writes that timed out: the content of their
// pages, old or new, is not known to be durable. All other pages are.
type DurabilityError struct {
	Pages []FencedPageError // not empty
}

func (e *DurabilityError) Error() string {
	return fmt.Sprintf("volume: the durability of %d pages is unknown, all others are durable; the first: %v", len(e.Pages), &e.Pages[0])
}

// Unwrap returns the first page's error.
func (e *DurabilityError) Unwrap() error { return &e.Pages[0] }

// CorruptPageError is a page whose bytes do not have the checksum that was
// recorded for them, on a volume that no crash interrupted: the storage has
// changed it. Restore the page from elsewhere.
type CorruptPageError struct {
	Array  string
	Page   uint64 // in the array
	Member string
	Offset int64 // bytes on the member
	Want   uint64
	Got    uint64
}

func (e *CorruptPageError) Error() string {
	return fmt.Sprintf("volume: page %d of array %q is corrupt: checksum %#016x, recorded %#016x (%s, byte %d)",
		e.Page, e.Array, e.Got, e.Want, e.Member, e.Offset)
}

// TornPageError is a page whose last write was interrupted, by a crash or by an
// error, so that it holds neither its old nor its new content. It is no
// corruption. Writing the page repairs it.
type TornPageError struct {
	Array string
	Page  uint64
}

func (e *TornPageError) Error() string {
	return fmt.Sprintf("volume: a write of page %d of array %q was interrupted; its content is undefined until it is written again", e.Page, e.Array)
}

// ChecksumTableError is a page that cannot be verified, since both copies of its
// block of the checksum table were damaged. The page may well be whole. Writing
// it repairs it; so it is with every page that the block covers.
type ChecksumTableError struct {
	Member    string
	Block     int
	FirstPage uint64 // of the volume; every Members-th page from here is covered
	Pages     uint64
}

func (e *ChecksumTableError) Error() string {
	return fmt.Sprintf("volume: block %d of the checksum table on %s was damaged in both copies: %d pages from volume page %d on cannot be verified until they are written",
		e.Block, e.Member, e.Pages, e.FirstPage)
}

// FormatError says why something is not a volume, or not one that this program
// can open.
type FormatError struct {
	Member string
	Reason string
}

func (e *FormatError) Error() string { return fmt.Sprintf("volume: %s: %s", e.Member, e.Reason) }

// NotEmptyError means that Create found data where it was to write.
type NotEmptyError struct {
	Member string
	Found  string
}

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("volume: %s is not empty: it holds %s; force the creation to overwrite it", e.Member, e.Found)
}

// NoSpaceError means that no gap is large enough for an array.
type NoSpaceError struct {
	Want    uint64 // pages
	Largest uint64 // pages of the largest gap
	Free    uint64 // pages in all gaps
}

func (e *NoSpaceError) Error() string {
	return fmt.Sprintf("volume: no room for %d pages in a row: the largest gap has %d of %d free pages", e.Want, e.Largest, e.Free)
}

// ErrOpenHere is wrapped by a LockedError when it is this process that holds the
// member.
var ErrOpenHere = errors.New("volume: opened already by this process")

// LockedError means that another process holds a member, or this one, which has
// opened it before.
type LockedError struct {
	Member string
	Owner  string // what the owner wrote about itself, if anything
	Err    error
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("volume: %s is in use by %s", e.Member, e.Owner)
}

// Unwrap returns the system's error.
func (e *LockedError) Unwrap() error { return e.Err }

// PageError says which page of a batch failed on which member.
type PageError struct {
	Array  string
	Page   uint64
	Write  bool
	Member string
	Err    error
}

func (e *PageError) Error() string {
	verb := "read"
	if e.Write {
		verb = "write"
	}
	return fmt.Sprintf("volume: %s page %d of array %q on %s: %v", verb, e.Page, e.Array, e.Member, e.Err)
}

// Unwrap returns the member's error.
func (e *PageError) Unwrap() error { return e.Err }
