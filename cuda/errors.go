package cuda

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// The errors that callers test for with errors.Is. Any other Result can be
// tested for in the same way.
var (
	// ErrNoDevice: the driver works, but there is no GPU that this process may use.
	ErrNoDevice error = NoDevice
	// ErrOutOfMemory: device memory, or pinned host memory, does not suffice.
	ErrOutOfMemory error = OutOfMemory
	// ErrNotFound: a module has no kernel or global of that name.
	ErrNotFound error = NotFound
	// ErrNotSupported: the device or the driver cannot do it. A
	// *MissingSymbolError counts as this too.
	ErrNotSupported error = NotSupported
	// ErrSticky: the context is lost. The chain holds the first error.
	ErrSticky = errors.New("the CUDA context is lost")
	// ErrClosed: the object, or its context, was closed before the call.
	ErrClosed = errors.New("already closed")
	// ErrLegacyStream: the call does not take the legacy default stream.
	ErrLegacyStream = errors.New("the legacy default stream is not allowed here")
)

// errNotReady is how a query says that work is still in flight. It never
// leaves the package.
var errNotReady error = NotReady

// Error is a failed call of the driver, or one that this package did not make
// since the driver would fault or guess.
type Error struct {
	// Call is the driver's function, such as "cuLaunchKernel"; for a call that
	// was not made, this package's, such as "cuda.Function.Launch".
	Call string
	// Result is what it returned. For a call on a context that was lost
	// before, it is the result that lost it.
	Result Result
	// Name and Text are CUDA's own words for the result.
	Name, Text string
	// On says what the call was about: a device, a size, a kernel.
	On string
	// Hint says what to do about it, where there is something to do.
	Hint string
	// Log is the JIT compiler's log, for a module that does not load.
	Log string

	cause error // the context's first sticky error, or why the call was refused
	own   bool  // of this package: the driver was not called
}

// Error is one line; of a log it has the first line only.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Call)
	switch {
	case e.own:
		b.WriteString(": " + e.On)
	case e.On != "":
		b.WriteString(" (" + e.On + ")")
	}
	if !e.own {
		fmt.Fprintf(&b, ": %s (%d)", e.Name, uint32(e.Result))
	}
	if e.Text != "" {
		b.WriteString(": " + e.Text)
	}
	if line := firstLine(e.Log); line != "" {
		b.WriteString(": " + line)
	}
	if e.cause != nil {
		b.WriteString(": " + e.cause.Error())
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Format prints the whole log for %+v.
func (e *Error) Format(s fmt.State, verb rune) {
	switch {
	case verb == 'q':
		fmt.Fprintf(s, "%q", e.Error())
	case verb == 'v' && s.Flag('+') && e.Log != "":
		_, _ = io.WriteString(s, e.Error()+"\n"+strings.TrimRight(e.Log, "\n"))
	default:
		_, _ = io.WriteString(s, e.Error())
	}
}

// Is makes an Error equal to its Result, and to ErrSticky where the result
// means that the context is lost.
func (e *Error) Is(target error) bool {
	if target == ErrSticky {
		return e.Result.Sticky()
	}
	r, ok := target.(Result)
	return ok && r == e.Result
}

// Unwrap gives the context's first error, if this call failed because of it.
func (e *Error) Unwrap() error { return e.cause }

// firstLine is the first line of a log that says anything.
func firstLine(log string) string {
	for line := range strings.Lines(log) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

// about adds what a failed call was about. The function that made the call
// knows it; the one that found the error does not.
func about(err error, format string, args ...any) error {
	if e, ok := err.(*Error); ok && e.On == "" {
		e.On = fmt.Sprintf(format, args...)
	}
	return err
}

// refused is the error of a call that this package does not pass on, since
// the driver would fault or guess. call is this package's function.
func refused(call, hint, format string, args ...any) *Error {
	return &Error{
		Call: call, Result: InvalidValue, Name: InvalidValue.String(),
		On: fmt.Sprintf(format, args...), Hint: hint, own: true,
	}
}

// missing is the error of a call on something that is nil, or that nobody made:
// a program that has ignored an error has one.
func missing(call, what string) error {
	return refused(call, "check the error of the call that should have made it", "the %s is nil, or was never made", what)
}

// closedError is the error of a call on something closed.
func closedError(call, what string) error {
	return fmt.Errorf("%s: the %s is %w", call, what, ErrClosed)
}

// MissingLibraryError says that the driver's library cannot be loaded.
type MissingLibraryError struct {
	// Tried holds the names that were given to the dynamic linker.
	Tried []string
	// Reason is what it said about the last of them.
	Reason string
}

func (e *MissingLibraryError) Error() string {
	return fmt.Sprintf("the CUDA driver is missing: cannot load %s: %s; install the NVIDIA driver (in a container: start it with the GPU's libraries)",
		strings.Join(e.Tried, " or "), e.Reason)
}

// MissingSymbolError says that the driver is older than the function needs.
type MissingSymbolError struct {
	Symbol Symbol
	// Have is the CUDA version that the driver supports.
	Have Version
}

func (e *MissingSymbolError) Error() string {
	return fmt.Sprintf("driver older than CUDA %s: it lacks %s (it supports CUDA %s); update the NVIDIA driver",
		e.Symbol.Since(), e.Symbol, e.Have)
}

// Is makes a missing function equal to NotSupported.
func (e *MissingSymbolError) Is(target error) bool { return target == ErrNotSupported }

// DeadlineError says that a wait ended before the work did. The work stays
// in flight: memory that it uses must stay valid.
type DeadlineError struct {
	// Wait says what was waited for.
	Wait string
	// Elapsed is how long.
	Elapsed time.Duration
	// Err is the context's error: context.DeadlineExceeded or Canceled, or
	// the cause that was given for it.
	Err error
}

func (e *DeadlineError) Error() string {
	return fmt.Sprintf("waited %v for %s: %v; the work is still in flight", e.Elapsed, e.Wait, e.Err)
}

// Unwrap gives the context's error.
func (e *DeadlineError) Unwrap() error { return e.Err }
