package uring

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Errors of a ring.
var (
	// ErrFull means that every slot is taken: Submit and reap, then try again.
	ErrFull = errors.New("uring: all slots in flight; reap completions first")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("uring: ring is closed")
	// ErrBusy means that operations are still in flight: reap them first.
	ErrBusy = errors.New("uring: operations in flight; reap them before closing")
)

// UnsupportedError says why io_uring cannot be used here. Callers fall back to
// pread and pwrite, and say so.
type UnsupportedError struct {
	Reason string
	Err    error // the system's error, or nil
}

// Error gives the reason.
func (e *UnsupportedError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("uring: not usable: %s: %v", e.Reason, e.Err)
	}
	return "uring: not usable: " + e.Reason
}

// Unwrap returns the system's error.
func (e *UnsupportedError) Unwrap() error { return e.Err }

// disabledFile holds the switch that turns io_uring off for the whole system.
const disabledFile = "/proc/sys/kernel/io_uring_disabled"

// setupError explains why io_uring_setup failed.
func setupError(errno syscall.Errno) error {
	return classify(errno, readSysctl(disabledFile))
}

func readSysctl(file string) string {
	b, err := os.ReadFile(file)
	if err != nil { // kernels before 6.6 lack the switch
		return ""
	}
	return strings.TrimSpace(string(b))
}

// classify turns errno and the switch's value into an error that says what to do.
func classify(errno syscall.Errno, disabled string) error {
	switch errno {
	case unix.ENOSYS:
		return &UnsupportedError{"this kernel has no io_uring (5.11 or newer is needed), or a sandbox hides it", errno}
	case unix.EPERM, unix.EACCES:
		switch disabled {
		case "2":
			return &UnsupportedError{"it is switched off (sysctl kernel.io_uring_disabled=2)", errno}
		case "1":
			return &UnsupportedError{"it is reserved to CAP_SYS_ADMIN and the kernel.io_uring_group group (sysctl kernel.io_uring_disabled=1)", errno}
		}
		return &UnsupportedError{"a seccomp filter or security module forbids it, as container runtimes do by default", errno}
	case unix.ENOMEM:
		return &UnsupportedError{"the locked-memory limit is too low for the rings (raise ulimit -l)", errno}
	case unix.EINVAL:
		return &UnsupportedError{"this kernel refuses the set-up flags", errno}
	}
	return fmt.Errorf("uring: io_uring_setup: %w", errno)
}
