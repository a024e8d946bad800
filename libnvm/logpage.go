package libnvm

import (
	"fmt"
	"math"

	"github.com/tritier/tritier/libnvm/internal/spec"
)

// SMART is the SMART / health information log (log page 02h). The 128-bit
// counters are cut off at the largest uint64.
type SMART struct {
	CriticalWarning  uint8
	Temperature      int // kelvin
	AvailableSpare   int // per cent
	SpareThreshold   int // per cent
	PercentageUsed   int
	DataUnitsRead    uint64 // thousands of 512-byte units
	DataUnitsWritten uint64
	HostReads        uint64 // commands
	HostWrites       uint64
	BusyMinutes      uint64
	PowerCycles      uint64
	PowerOnHours     uint64
	UnsafeShutdowns  uint64
	MediaErrors      uint64
	ErrorLogEntries  uint64
}

// SMART reads the health log of the whole controller.
func (c *Controller) SMART() (SMART, error) {
	var b [512]byte
	if err := c.LogPage(spec.LogSMART, spec.AllNamespaces, b[:]); err != nil {
		return SMART{}, err
	}
	u := func(at int) uint64 {
		if le.Uint64(b[at+8:]) != 0 {
			return math.MaxUint64
		}
		return le.Uint64(b[at:])
	}
	return SMART{
		CriticalWarning: b[0], Temperature: int(le.Uint16(b[1:])), AvailableSpare: int(b[3]), SpareThreshold: int(b[4]), PercentageUsed: int(b[5]),
		DataUnitsRead: u(32), DataUnitsWritten: u(48), HostReads: u(64), HostWrites: u(80), BusyMinutes: u(96), PowerCycles: u(112),
		PowerOnHours: u(128), UnsafeShutdowns: u(144), MediaErrors: u(160), ErrorLogEntries: u(176),
	}, nil
}

// ErrorEntry is an entry of the error information log (log page 01h).
type ErrorEntry struct {
	Count  uint64 // number of the error since the controller was made
	Queue  uint16
	CID    uint16
	Status Status
	LBA    uint64
	NSID   uint32
}

const errorEntryBytes = 64

// ErrorLog reads the newest errors, newest first, at most n.
func (c *Controller) ErrorLog(n int) ([]ErrorEntry, error) {
	n = min(n, c.info.ErrorEntries)
	if n < 1 {
		return nil, nil
	}
	b := make([]byte, n*errorEntryBytes)
	if err := c.LogPage(spec.LogError, spec.AllNamespaces, b); err != nil {
		return nil, err
	}
	var es []ErrorEntry
	for ; len(b) > 0; b = b[errorEntryBytes:] {
		e := ErrorEntry{
			Count: le.Uint64(b), Queue: le.Uint16(b[8:]), CID: le.Uint16(b[10:]),
			Status: Status(le.Uint16(b[12:]) >> 1 & statusMask), LBA: le.Uint64(b[16:]), NSID: le.Uint32(b[24:]),
		}
		if e.Count != 0 {
			es = append(es, e)
		}
	}
	return es, nil
}

// Event is an asynchronous event.
type Event struct {
	Type uint8 // 0 error, 1 SMART / health, 2 notice, 6 command set, 7 vendor
	Info uint8
	Log  uint8 // the log page that has more; the driver has read it, which clears the event
}

func (e Event) String() string {
	kinds := map[uint8]string{spec.EventError: "error", spec.EventSMART: "SMART", spec.EventNotice: "notice", 6: "command set", 7: "vendor"}
	k, ok := kinds[e.Type]
	if !ok {
		k = fmt.Sprintf("type %d", e.Type)
	}
	if e.Type == spec.EventError {
		if i := int(e.Info); i < len(errorEvents) {
			return "error event: " + errorEvents[i]
		}
	}
	return fmt.Sprintf("%s event, information %#02x, log page %#02x", k, e.Info, e.Log)
}

var errorEvents = [...]string{"write to an invalid doorbell register", "invalid doorbell value", "diagnostic failure",
	"persistent internal error", "transient internal error", "firmware image load error"}

// eventState is the controller's asynchronous event requests, under adminMu.
type eventState struct {
	enabled     bool
	outstanding int
}

// eventTag marks asynchronous event requests among the admin queue's.
const eventTag = 1 << 63

// EnableEvents asks for asynchronous events: mask is the value of feature 0Bh
// (critical warnings of the SMART log in bits 7:0, notices above). Error events
// always come. Events delivers them.
func (c *Controller) EnableEvents(mask uint32) error {
	if _, err := c.SetFeature(spec.FeatAsyncEvents, 0, mask, false); err != nil {
		return err
	}
	c.adminMu.Lock()
	defer c.adminMu.Unlock()
	c.events.enabled = true
	return c.armEvents()
}

// armEvents keeps requests outstanding, which have no deadline.
func (c *Controller) armEvents() error {
	limit := min(c.info.EventLimit, 4, len(c.admin.slots)-1)
	if limit < 1 {
		return &UnsupportedError{"asynchronous events", "the admin queue is too shallow"}
	}
	for c.events.outstanding < limit {
		if _, err := c.admin.SubmitCommand(&Command{Opcode: AdminAsyncEvent}, nil, eventTag, math.MaxInt64/2); err != nil {
			return err
		}
		c.events.outstanding++
	}
	return nil
}

// Events takes over events that have come, at most len(out), reads the log page
// of each, and asks for more. It does not wait for events.
func (c *Controller) Events(out []Event) (int, error) {
	c.adminMu.Lock()
	defer c.adminMu.Unlock()
	if c.State() != StateReady {
		return 0, ErrClosed
	}
	n := 0
	var got [1]Completion
	for n < len(out) && c.admin.Poll(got[:]) == 1 {
		if got[0].Tag != eventTag {
			continue
		}
		c.events.outstanding--
		if got[0].Err != nil {
			return n, fmt.Errorf("asynchronous event request: %w", got[0].Err)
		}
		d := got[0].DW0
		out[n] = Event{Type: uint8(d & 7), Info: uint8(d >> 8), Log: uint8(d >> 16)}
		n++
	}
	for _, e := range out[:n] {
		if e.Log == 0 {
			continue
		}
		b := make([]byte, 512) // of any length: the read itself clears the event
		if err := c.logPageLocked(e.Log, spec.AllNamespaces, b); err != nil {
			return n, err
		}
	}
	return n, c.armEvents()
}
