package host

import (
	"fmt"
	"time"

	"github.com/tritier/tritier/tier"
)

// EventKind is what an Event tells of.
type EventKind uint8

// The kinds of events.
const (
	EventMiss     EventKind = iota // a wave: misses that are served together, from their start to their end; with engine gpu, one
	EventRead                      // pages on their way from T3 to T2
	EventWrite                     // pages on their way from T2 to T3
	EventDemote                    // pages copied from T1 to T2
	EventPromote                   // pages copied from T2 to T1
	EventElements                  // elements copied between T1 and the caller's buffer
	EventFlush                     // the store made its writes durable
	EventSave                      // a page that a flush writes back, from the look at it to its end; engine gpu alone
	EventKinds
)

var eventNames = [EventKinds]string{"miss", "read", "write", "demote", "promote", "elements", "flush", "save"}

// String names the kind.
func (k EventKind) String() string {
	if k < EventKinds {
		return eventNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", uint8(k))
}

// Event is a move of pages or elements that has ended, successfully or not. Events
// of different kinds overlap.
type Event struct {
	Kind  EventKind
	Start time.Time
	Took  time.Duration
	Count int    // pages that moved, misses of a wave, or pieces of elements
	Bytes uint64 // that moved; 0 for EventMiss, EventFlush and EventSave

	// Engine gpu tells of single pages, and of these too. A miss or a save comes when it has
	// ended, and after it its moves, which lie within it.
	Array  string // "": an event of another engine; "?": of an array that was dropped meanwhile
	Page   uint64 // of the array
	Op     tier.Op
	Failed bool
	SM     int // multiprocessor
	Stripe int // the number, modulo 128, by which the kernel's warps call themselves
}

// began is the start of an event, or nothing when nobody listens.
func (m *Memory) began() (t time.Time) {
	if m.o.Events != nil {
		t = time.Now()
	}
	return t
}

// ended tells of an event that began at start.
func (m *Memory) ended(kind EventKind, start time.Time, count int, bytes uint64) {
	if m.o.Events != nil && count > 0 {
		m.o.Events(Event{Kind: kind, Start: start, Took: time.Since(start), Count: count, Bytes: bytes})
	}
}

// handed tells of elements that were copied.
func (m *Memory) handed(list []Piece, start time.Time) {
	if m.o.Events == nil {
		return
	}
	var bytes uint64
	for i := range list {
		bytes += uint64(list[i].Length)
	}
	m.ended(EventElements, start, len(list), bytes)
}

// moved tells of requests to T3 that ended, those that failed included.
func (m *Memory) moved(list []Request, start time.Time) {
	if m.o.Events == nil {
		return
	}
	writes := 0
	for i := range list {
		if list[i].Write {
			writes++
		}
	}
	size, reads := uint64(m.o.PageSize), len(list)-writes
	m.ended(EventRead, start, reads, uint64(reads)*size)
	m.ended(EventWrite, start, writes, uint64(writes)*size)
}
