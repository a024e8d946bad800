package copyeng

import (
	"errors"

	"github.com/tritier/tritier/cuda"
)

// ArgumentError says which argument of a call on the GPU engine it cannot work
// with. Nothing was done.
type ArgumentError struct {
	Call string // "OpenGPU", "WrapQueue", "Queue.Wait", ...
	Name string // of the argument
	What string // what is wrong with it, and what to give instead
	Err  error  // the reason as errors.Is finds it; nil where there is none
}

// Error gives one line.
func (e *ArgumentError) Error() string {
	return "copy engine: " + e.Call + ": " + e.Name + ": " + e.What
}

// Unwrap gives the reason.
func (e *ArgumentError) Unwrap() error { return e.Err }

// closedToo makes an error of package cuda about something closed one of this
// package also: callers test for ErrClosed, whichever of the two noticed.
func closedToo(err error) error {
	if err == nil || !errors.Is(err, cuda.ErrClosed) || errors.Is(err, ErrClosed) {
		return err
	}
	return &closedError{err}
}

type closedError struct{ error }

func (e *closedError) Is(target error) bool { return target == ErrClosed }

func (e *closedError) Unwrap() error { return e.error }
