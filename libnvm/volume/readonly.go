package volume

import (
	"errors"
	"fmt"
)

// ErrReadOnly is what a volume that OpenReadOnly has opened answers to changes.
var ErrReadOnly = errors.New("volume: opened read-only")

// UncleanError is a volume that was not closed properly, and that OpenReadOnly
// therefore cannot open: Open settles what a crash has left, which takes writing.
type UncleanError struct {
	Member string
	Owner  string // who used it last
}

// Error says who used it last and what to do.
func (e *UncleanError) Error() string {
	return fmt.Sprintf("volume on %s: %s did not close it: open it for writing, which settles what was being written then", e.Member, e.Owner)
}

// OpenReadOnly opens a volume without writing anything: members may be read-only.
// Arrays can be opened and read, and Scrub works, but ScrubReport.Repaired counts what
// it would repair; all changes
// give ErrReadOnly. A volume that was not closed properly gives an *UncleanError, one of which
// that is not known (Recovery.Uncertain) opens. On
// success the volume owns the members.
func OpenReadOnly(members []Member) (*Volume, error) {
	return OpenWith(members, OpenOptions{ReadOnly: true})
}
