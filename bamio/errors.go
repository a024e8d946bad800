package bamio

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrClosed says that the engine was closed before the call, or while it waited.
var ErrClosed = errors.New("bamio: the engine is closed")

// SetupError is a step of Open that failed. Everything before it was undone.
type SetupError struct {
	Step   string // such as "register the submission queue"
	On     string // drive, queue or amount
	Remedy string // what to do, or ""
	Err    error
}

func (e *SetupError) Error() string {
	s := "bamio: " + e.Step
	if e.On != "" {
		s += " of " + e.On
	}
	s += ": " + e.Err.Error()
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

func (e *SetupError) Unwrap() error { return e.Err }

// BusyError says that something did not end in time that had been asked to. Of
// Close it means that nothing was freed: call it again once that has ended.
type BusyError struct {
	Call  string // close, or serve
	What  string // "kernels are", "methods of the engine are", "a request handler is"
	After time.Duration
	Err   error
}

func (e *BusyError) Error() string {
	s := fmt.Sprintf("bamio: %s: %s still in progress after %v", e.Call, e.What, e.After)
	if e.Call == "close" {
		s += "; nothing was freed: close again once they have ended"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *BusyError) Unwrap() error { return e.Err }

// HeldError says that drives did not give up the engine's queues, so that they
// may still move data: the payload memory stays mapped. Close the drives, then
// close the engine again.
type HeldError struct {
	Drives []string
	Err    error
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("bamio: close: %s may still use the payload memory, which stays: close the drive, then the engine again: %v",
		strings.Join(e.Drives, ", "), e.Err)
}

func (e *HeldError) Unwrap() error { return e.Err }

// DriveError says that a drive failed while kernels ran. Its queues were marked
// as failed, so that kernels got Status instead of waiting for their deadline.
type DriveError struct {
	Drive  string
	Status Status
	Err    error
}

func (e *DriveError) Error() string {
	return fmt.Sprintf("bamio: %s: %v", e.Drive, e.Err)
}

func (e *DriveError) Unwrap() error { return e.Err }
