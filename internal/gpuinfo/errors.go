package gpuinfo

import (
	"errors"
	"fmt"
)

// ErrUnavailable is what every [*UnavailableError] is.
var ErrUnavailable = errors.New("not available")

// ErrClosed is the error of a Reader that has been closed.
var ErrClosed = errors.New("gpuinfo: the reader is closed")

// Reason says why a source does not answer.
type Reason string

// The reasons.
const (
	NoCgo       Reason = "built without cgo" // so NVML cannot be reached
	NoLibrary   Reason = "library missing"   // NVML is not installed
	OldLibrary  Reason = "library too old"   // NVML lacks the function
	Refused     Reason = "refused"           // the driver said no
	NotReported Reason = "not reported"      // sysfs lacks it, or says that it does not know
	Timeout     Reason = "no answer in time" // the driver hangs
)

// UnavailableError says what is not available, and why.
type UnavailableError struct {
	What   string // "NVML", or the function or file that was asked
	Reason Reason
	Detail string // the library's or the system's own words, "" for none
	Err    error  // the system's error, if there is one
}

func (e *UnavailableError) Error() string {
	s := fmt.Sprintf("%s is not available: %s", e.What, e.Reason)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Is makes it ErrUnavailable.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap gives the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Advice says what to do about it, "" when there is nothing to be done.
func (e *UnavailableError) Advice() string {
	switch e.Reason {
	case NoCgo:
		return "build tritier with CGO_ENABLED=1 and a C compiler"
	case NoLibrary:
		return "install the driver's libnvidia-ml.so.1 (in a container: the capability \"utility\")"
	case OldLibrary:
		return "update the NVIDIA driver"
	case Refused, Timeout:
		return "see whether nvidia-smi works, and the kernel's log (dmesg)"
	}
	return ""
}

// NotFoundError says that no source knows a PCI address.
type NotFoundError struct {
	Address string
	Err     error // why NVML did not answer
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("gpuinfo: no PCI function at %q: %v", e.Address, e.Err)
}

// Unwrap gives NVML's reason.
func (e *NotFoundError) Unwrap() error { return e.Err }
