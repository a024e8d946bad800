// Package tier holds the page table, the residency state machine and the
// three-tier engine that the live system and the simulator share.
//
// # Life cycle of a page
//
//	Absent -> Filling -> ResidentT1 -> Demoting -> ResidentT2 -> WritingBack -> Absent
//	                         |                          |
//	                         +--> WritingBack           +--> Absent (clean)
//	                         +--> Absent (clean)        +--> Filling (promote)
//
// States and events are named here once; next is the only place that says
// which transition is legal.
package tier

import "fmt"

// State is where a page is in its life. It occupies the low three bits of an
// Entry.
type State uint8

// The states of a page.
const (
	Absent      State = iota // T3 only
	Filling                  // on its way into a T1 frame, from T3 or T2
	ResidentT1               // in GPU memory
	Demoting                 // chosen as T1's victim, on its way to T2
	ResidentT2               // in host memory
	WritingBack              // dirty, on its way to T3
	numStates
)

var stateNames = [numStates]string{"Absent", "Filling", "ResidentT1", "Demoting", "ResidentT2", "WritingBack"}

// String names the state.
func (s State) String() string {
	if s < numStates {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Event moves a page from one state to another.
type Event uint8

// The events of a page's life.
const (
	BeginFill       Event = iota // a miss took a frame for it
	EndFill                      // its bytes are in the frame
	FailFill                     // the fill from T3 failed: every waiter gets the error
	FailPromote                  // the fill from T2 failed: it stays in T2
	BeginDemote                  // T1's victim, bound for T2
	EndDemote                    // its bytes are in a T2 slot
	BeginWriteBack               // dirty victim, bound for T3
	EndWriteBack                 // its bytes are on T3
	FailWriteBackT1              // write-back failed: it stays in T1, dirty
	FailWriteBackT2              // write-back failed: it stays in T2, dirty
	FailDemote                   // demotion failed: it stays in T1
	Drop                         // clean victim: forgotten
	numEvents
)

var eventNames = [numEvents]string{"BeginFill", "EndFill", "FailFill", "FailPromote", "BeginDemote", "EndDemote",
	"BeginWriteBack", "EndWriteBack", "FailWriteBackT1", "FailWriteBackT2", "FailDemote", "Drop"}

// String names the event.
func (e Event) String() string {
	if e < numEvents {
		return eventNames[e]
	}
	return fmt.Sprintf("Event(%d)", uint8(e))
}

// illegal marks a transition that must not happen.
const illegal State = 0xff

// next holds every legal transition; anything else is illegal.
var next = buildTransitions()

func buildTransitions() (t [numStates][numEvents]State) {
	for s := range t {
		for e := range t[s] {
			t[s][e] = illegal
		}
	}
	t[Absent][BeginFill] = Filling
	t[Filling][EndFill] = ResidentT1
	t[Filling][FailFill] = Absent
	t[Filling][FailPromote] = ResidentT2
	t[ResidentT1][BeginDemote] = Demoting
	t[ResidentT1][BeginWriteBack] = WritingBack
	t[ResidentT1][Drop] = Absent
	t[Demoting][EndDemote] = ResidentT2
	t[Demoting][FailDemote] = ResidentT1
	t[ResidentT2][BeginFill] = Filling
	t[ResidentT2][BeginWriteBack] = WritingBack
	t[ResidentT2][Drop] = Absent
	t[WritingBack][EndWriteBack] = Absent
	t[WritingBack][FailWriteBackT1] = ResidentT1
	t[WritingBack][FailWriteBackT2] = ResidentT2
	return t
}

// TransitionError is a transition that the life cycle does not allow.
type TransitionError struct {
	From  State
	Event Event
}

// Error names the state and the event.
func (e *TransitionError) Error() string {
	return fmt.Sprintf("tier: no transition from %v on %v", e.From, e.Event)
}

// Next returns the state after e, or a *TransitionError.
func (s State) Next(e Event) (State, error) {
	if s >= numStates || e >= numEvents || next[s][e] == illegal {
		return s, &TransitionError{From: s, Event: e}
	}
	return next[s][e], nil
}
