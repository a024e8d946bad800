package libnvm

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrQueueFull says that a queue pair takes no request now. Poll, then try again.
	ErrQueueFull = errors.New("libnvm: queue pair is full; poll for completions first")
	// ErrClosed says that the controller or the queue pair was closed.
	ErrClosed = errors.New("libnvm: closed")
	// ErrUnknownTicket says that no outstanding request has the ticket: it was
	// never given out, or its completion was delivered already.
	ErrUnknownTicket = errors.New("libnvm: no request with this ticket is outstanding or undelivered")
	// ErrReset is what outstanding requests of a queue pair end with when the
	// queue pair or its controller is reset. The command may have been executed.
	ErrReset = errors.New("libnvm: the queue was reset while the request was outstanding; whether it was executed is not known")
	// ErrHeadStalled says that the controller has completed every command and
	// still reports, by SQHD, that it has fetched too few for another to fit.
	// Reset the queue pair.
	ErrHeadStalled = errors.New("libnvm: nothing is outstanding, but the controller has not freed the submission queue's entries (SQHD); reset the queue pair")
	// ErrQuarantineFull says that every command id of a queue pair belongs to a
	// command that timed out. Reset the queue pair.
	ErrQuarantineFull = errors.New("libnvm: every command id is quarantined after time-outs; reset the queue pair")
)

// A TimeoutError is a wait that ran out. For a request, the command ids and the
// memory stay quarantined until the queue pair or the controller is reset.
type TimeoutError struct {
	What  string        // what was waited for
	After time.Duration // how long
	State string        // what was seen last: registers, or the queue's positions
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("libnvm: %s: no answer within %v (%s)", e.What, e.After, e.State)
}

// Timeout makes the error recognisable as a time-out, as package net does.
func (e *TimeoutError) Timeout() bool { return true }

// A DeviceGoneError says that the controller's registers read all ones: it was
// unplugged, lost power, or its link is down.
type DeviceGoneError struct{ What string }

func (e *DeviceGoneError) Error() string {
	return fmt.Sprintf("libnvm: %s: the device is gone (its registers read all ones); close the controller and open it anew once it is back", e.What)
}

// A ControllerFatalError says that the controller reports CSTS.CFS.
type ControllerFatalError struct {
	What string
	CSTS uint32
}

func (e *ControllerFatalError) Error() string {
	return fmt.Sprintf("libnvm: %s: the controller reports a fatal status (CSTS %#x); reset it with Controller.Reset", e.What, e.CSTS)
}

// A NotReadyError says that CSTS.RDY is clear although the driver has the
// controller enabled. Either something else has reset it (another program, the
// kernel, a reset of the PCI function), or nothing answers at its address any
// more and the bus reads as zeroes, which some root complexes give in place of
// all ones.
type NotReadyError struct {
	What     string
	CSTS, CC uint32
	// NoAnswer says that CAP is that of no controller either.
	NoAnswer bool
}

func (e *NotReadyError) Error() string {
	why := "it was reset behind the driver's back; keep others from it and reset it with Controller.Reset"
	if e.NoAnswer {
		why = "nothing answers at its registers, all of which read zero; close the controller and open it anew once it is back"
	}
	return fmt.Sprintf("libnvm: %s: the controller is not ready although it was enabled (CSTS %#x, CC %#x): %s", e.What, e.CSTS, e.CC, why)
}

// An UnsupportedError says what of a controller or namespace the driver, or
// the controller, cannot do.
type UnsupportedError struct{ What, Detail string }

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("libnvm: %s is not supported: %s", e.What, e.Detail)
}

// A ProtocolError says that a controller answered with something that the
// specification does not allow.
type ProtocolError struct{ What, Detail string }

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("libnvm: the controller violates the protocol: %s: %s", e.What, e.Detail)
}

// A RequestError says why a request was refused before it reached the controller.
type RequestError struct {
	Op     Opcode
	LBA    uint64
	Blocks uint64
	Reason string
}

func (e *RequestError) Error() string {
	return fmt.Sprintf("libnvm: %s at LBA %d, %d blocks: %s", e.Op.Name(false), e.LBA, e.Blocks, e.Reason)
}

func isUnsupported(err error) bool {
	var u *UnsupportedError
	return errors.As(err, &u)
}
