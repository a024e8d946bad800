package bamio

import (
	"fmt"

	"github.com/tritier/tritier/bamio/layout"
	"github.com/tritier/tritier/libnvm"
)

// Status is what a command or a request ends with on the GPU: 0, the 15-bit
// status field of a completion, or one of the values here.
type Status uint32

// What the queue code of the device adds to a completion's status.
const (
	OK            Status = layout.OK
	Timeout       Status = layout.Timeout
	QueueFailed   Status = layout.QueueFailed
	DeviceGone    Status = layout.DeviceGone
	BadArgument   Status = layout.BadArgument
	Stopped       Status = layout.Stopped
	NoCompletion  Status = layout.NoCompletion
	RequestFailed Status = layout.RequestFailed
	Busy          Status = layout.Busy
	NotBegun      Status = layout.NotBegun
)

// nvmeMask is SC and SCT of a completion's status field.
const nvmeMask = 0x7ff

var statusTexts = map[Status]string{
	OK:            "success",
	Timeout:       "no completion within the deadline",
	QueueFailed:   "the queue has failed before",
	DeviceGone:    "the drive is gone",
	BadArgument:   "the command is outside the drive, the buffer, or the limits of a command",
	Stopped:       "the host asked kernels to end",
	NoCompletion:  "a completion of another generation of the command id",
	RequestFailed: "the CPU could not do what was requested",
	Busy:          "no place in the queue or ring within the deadline; nothing was sent",
	NotBegun:      "the request was withdrawn before the CPU began",
}

// String is the status in words.
func (s Status) String() string {
	if t, ok := statusTexts[s]; ok {
		return t
	}
	if s < 1<<15 {
		return libnvm.Status(s & nvmeMask).String()
	}
	return fmt.Sprintf("unknown status %#x", uint32(s))
}

// Err is nil for success, otherwise a *StatusError.
func (s Status) Err() error {
	if s == OK {
		return nil
	}
	return &StatusError{Status: s}
}

// NVMe is the drive's own status, if it comes from a completion.
func (s Status) NVMe() (libnvm.Status, bool) {
	return libnvm.Status(s & nvmeMask), s != OK && s < 1<<15
}

// StatusError is a command or request that ended on the GPU with something else
// than success.
type StatusError struct{ Status Status }

func (e *StatusError) Error() string {
	if _, ok := e.Status.NVMe(); ok {
		return fmt.Sprintf("bamio: the drive answers %s", e.Status)
	}
	return fmt.Sprintf("bamio: %s (%#x)", e.Status, uint32(e.Status))
}

// Is compares statuses.
func (e *StatusError) Is(target error) bool {
	t, ok := target.(*StatusError)
	return ok && t.Status == e.Status
}
