package libnvm

import (
	"fmt"
	"strings"
)

// Status is the status field of a completion without its flags: the status
// code in bits 7:0, the status code type in bits 10:8 (NVMe base
// specification, completion queue entry, dword 3).
type Status uint16

// Statuses that the driver or the software controller name in code. The whole
// table is in Status.String.
const (
	StatusSuccess            Status = 0x000
	StatusInvalidOpcode      Status = 0x001
	StatusInvalidField       Status = 0x002
	StatusCommandIDConflict  Status = 0x003
	StatusDataTransferError  Status = 0x004
	StatusInternalError      Status = 0x006
	StatusAbortRequested     Status = 0x007
	StatusAbortedSQDeletion  Status = 0x008
	StatusInvalidNamespace   Status = 0x00b
	StatusCommandSequence    Status = 0x00c
	StatusInvalidCMBUse      Status = 0x012
	StatusPRPOffsetInvalid   Status = 0x013
	StatusWriteProtected     Status = 0x020
	StatusLBAOutOfRange      Status = 0x080
	StatusCapacityExceeded   Status = 0x081
	StatusNamespaceNotReady  Status = 0x082
	StatusInvalidCQ          Status = 0x100
	StatusInvalidQueueID     Status = 0x101
	StatusInvalidQueueSize   Status = 0x102
	StatusAERLimitExceeded   Status = 0x105
	StatusInvalidVector      Status = 0x108
	StatusInvalidLogPage     Status = 0x109
	StatusInvalidQueueDelete Status = 0x10c
	StatusFeatureNotSaveable Status = 0x10d
	StatusFeatureNotSettable Status = 0x10e
	StatusWriteFault         Status = 0x280
	StatusUnrecoveredRead    Status = 0x281
	StatusCompareFailure     Status = 0x285
	StatusUnwrittenBlock     Status = 0x287
	StatusCommandAbortedPath Status = 0x371
)

// Status code types and the parts of the 15-bit status field.
const (
	typeCommandSpecific = 1
	typeMedia           = 2
	typePath            = 3
	typeVendor          = 7
	statusMask          = 0x7ff
)

// Code is the status code, SC.
func (s Status) Code() uint8 { return uint8(s) }

// Type is the status code type, SCT.
func (s Status) Type() uint8 { return uint8(s >> 8 & 7) }

// OK reports success.
func (s Status) OK() bool { return s&statusMask == 0 }

// String is the specification's name of the status; a code that it does not
// define comes out with its numbers.
func (s Status) String() string {
	if n, ok := statusNames[s&statusMask]; ok {
		return n
	}
	kind := "reserved status code type"
	switch s.Type() {
	case 0:
		kind = "generic command status"
	case typeCommandSpecific:
		kind = "command specific status"
	case typeMedia:
		kind = "media and data integrity error"
	case typePath:
		kind = "path related status"
	case typeVendor:
		kind = "vendor specific status"
	}
	return fmt.Sprintf("%s %#02x", kind, s.Code())
}

// A StatusError is a command that the controller completed with an error.
type StatusError struct {
	Status Status
	DNR    bool // do not retry: the same command is expected to fail again
	More   bool // the error information log has more
	CRD    uint8
	Opcode Opcode
	Admin  bool
	NSID   uint32
	LBA    uint64 // first block of the failed command; 0 for commands without blocks
	Blocks uint32
	Queue  uint16
	CID    uint16
	DW0    uint32 // command specific result
}

func (e *StatusError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "libnvm: %s", e.Opcode.Name(e.Admin))
	if e.NSID != 0 {
		fmt.Fprintf(&b, " of namespace %d", e.NSID)
	}
	if e.Blocks != 0 {
		fmt.Fprintf(&b, " at LBA %d, %d blocks", e.LBA, e.Blocks)
	}
	fmt.Fprintf(&b, ": %s (SCT %d, SC %#02x", e.Status, e.Status.Type(), e.Status.Code())
	if e.DNR {
		b.WriteString(", do not retry")
	}
	if e.More {
		b.WriteString(", more in the error log")
	}
	fmt.Fprintf(&b, "; queue %d, command id %#x)", e.Queue, e.CID)
	return b.String()
}

// Is makes errors.Is(err, &StatusError{Status: s}) match on the status alone.
func (e *StatusError) Is(target error) bool {
	t, ok := target.(*StatusError)
	return ok && t.Status == e.Status
}
