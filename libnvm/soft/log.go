package soft

import (
	"sync"
	"sync/atomic"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/internal/spec"
)

const eventLimit = 4

// violation is what a host did wrong with a doorbell.
type violation uint8

const (
	violationNone     violation = iota
	violationRange              // a value outside the queue
	violationBackward           // a value behind the last, or past what is free
)

// violated counts a wrong doorbell value and raises an error event.
func (c *Controller) violated(v violation) {
	c.violations[v].Add(1)
	c.events.add(event{spec.EventError, spec.EventInfoBadValue, spec.LogError})
}

// event is an asynchronous event that was not reported yet.
type event struct{ kind, info, log uint8 }

// eventQueue collects events of all threads, each kind once.
type eventQueue struct {
	count   atomic.Int32 // length of pending, cheap to look at
	mu      sync.Mutex
	pending []event
	warning uint8 // SMART critical warning
}

func (q *eventQueue) add(e event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.pending {
		if p == e {
			return
		}
	}
	if len(q.pending) < 64 {
		q.pending = append(q.pending, e)
		q.count.Store(int32(len(q.pending)))
	}
}

func (q *eventQueue) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = nil
	q.count.Store(0)
}

// SetCriticalWarning sets the critical warning bits of the SMART log and, when
// the host has asked for events of one of them, raises one.
func (c *Controller) SetCriticalWarning(bits uint8) {
	c.events.mu.Lock()
	c.events.warning = bits
	c.events.mu.Unlock()
	if bits != 0 {
		c.events.add(event{spec.EventSMART, 0, spec.LogSMART})
	}
}

// reportEvents completes asynchronous event requests with pending events. A
// kind that was reported is masked until its log page was read.
func (c *Controller) reportEvents(t *thread) {
	if c.events.count.Load() == 0 || len(c.host.waiting) == 0 {
		return
	}
	for _, e := range c.takeEvents() {
		cmd := c.host.waiting[0]
		c.host.waiting = c.host.waiting[1:]
		cmd.dw0 = uint32(e.kind) | uint32(e.info)<<8 | uint32(e.log)<<16
		t.finish(cmd)
	}
}

// takeEvents removes the events that can be reported now, and masks their kinds.
func (c *Controller) takeEvents() []event {
	h, q := &c.host, &c.events
	q.mu.Lock()
	defer q.mu.Unlock()
	var keep, report []event
	for _, e := range q.pending {
		wanted := e.kind != spec.EventSMART || h.features[spec.FeatAsyncEvents]&uint32(q.warning) != 0
		if len(report) == len(h.waiting) || h.masked[e.kind&7] || !wanted {
			keep = append(keep, e)
			continue
		}
		h.masked[e.kind&7] = true
		report = append(report, e)
	}
	q.pending = keep
	q.count.Store(int32(len(keep)))
	return report
}

// errorLog is a ring of the newest errors.
type errorLog struct {
	mu    sync.Mutex
	count uint64
	ring  [errorLogEntries]logEntry
}

type logEntry struct {
	count  uint64
	sq     uint16
	cid    uint16
	status uint16
	lba    uint64
	nsid   uint32
}

func (c *Controller) logError(cmd *command) {
	e := logEntry{sq: cmd.sq.id, cid: cmd.sqe.CID, status: uint16(cmd.status) << 1, nsid: cmd.sqe.NSID}
	if e.sq != 0 {
		e.lba, _ = cmd.blocks()
	}
	l := &c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	e.count = l.count
	l.ring[l.count%errorLogEntries] = e
}

// logPage answers Get Log Page.
func (c *Controller) logPage(t *thread, cmd *command) libnvm.Status {
	s := &cmd.sqe
	n := uint64(s.CDW10>>16&0xffff|s.CDW11&0xffff<<16) + 1
	off := uint64(s.CDW12) | uint64(s.CDW13)<<32
	var page []byte
	switch uint8(s.CDW10) {
	case spec.LogError:
		page = c.errorPage()
	case spec.LogSMART:
		page = c.smartPage()
	case spec.LogFirmware:
		page = make([]byte, 512)
		page[0] = 1
		copy(page[8:], "1.0     ")
	default:
		return libnvm.StatusInvalidLogPage
	}
	if off > uint64(len(page)) || off%4 != 0 || n*4 > 1<<20 {
		return libnvm.StatusInvalidField
	}
	out := make([]byte, n*4)
	copy(out, page[off:])
	st := t.copyOut(cmd, out)
	if st == libnvm.StatusSuccess && s.CDW10>>15&1 == 0 { // RAE clear: the event is over
		switch uint8(s.CDW10) {
		case spec.LogError:
			c.host.masked[spec.EventError] = false
		case spec.LogSMART:
			c.host.masked[spec.EventSMART] = false
		}
	}
	return st
}

func (c *Controller) errorPage() []byte {
	b := make([]byte, errorLogEntries*64)
	l := &c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range uint64(min(l.count, errorLogEntries)) {
		e := l.ring[(l.count-i)%errorLogEntries]
		x := b[i*64:]
		le.PutUint64(x, e.count)
		le.PutUint16(x[8:], e.sq)
		le.PutUint16(x[10:], e.cid)
		le.PutUint16(x[12:], e.status)
		le.PutUint64(x[16:], e.lba)
		le.PutUint32(x[24:], e.nsid)
	}
	return b
}

func (c *Controller) smartPage() []byte {
	b := make([]byte, 512)
	c.events.mu.Lock()
	b[0] = c.events.warning
	c.events.mu.Unlock()
	st := c.Stats()
	le.PutUint16(b[1:], 300)
	b[3], b[4] = 100, 10
	units := func(bytes uint64) uint64 { return (bytes + 511999) / 512000 }
	le.PutUint64(b[32:], units(st.ReadBytes))
	le.PutUint64(b[48:], units(st.WriteBytes))
	le.PutUint64(b[64:], st.Reads)
	le.PutUint64(b[80:], st.Writes)
	le.PutUint64(b[112:], 1)
	c.log.mu.Lock()
	le.PutUint64(b[176:], c.log.count)
	c.log.mu.Unlock()
	return b
}
