package tier

import "github.com/tritier/tritier/placement"

// Op is what an access does to its page. It occupies the low two bits of an
// Access.
type Op uint8

// The operations of an Access.
const (
	Read      Op = iota
	Write        // writes a part: the rest of the page is needed
	Overwrite    // writes the whole page: nothing needs to be fetched
	Prefetch     // moves the page to T1; not counted as an access
)

// opBits is the width of Op within an Access.
const opBits = 2

// Access is one page access, packed: the page's dense index and the Op.
type Access uint32

// MakeAccess packs p and op. p must be below placement.MaxPages.
func MakeAccess(p placement.Page, op Op) Access { return Access(p)<<opBits | Access(op) }

// Page is the page accessed.
func (a Access) Page() placement.Page { return placement.Page(a >> opBits) }

// Op is what the access does.
func (a Access) Op() Op { return Op(a & (1<<opBits - 1)) }

// Entry is one page's record in the page table: its State and flags in one
// byte, so that the table of a large trace stays in the CPU's cache.
type Entry uint8

// The parts of an Entry.
const (
	stateMask Entry = 7
	dirtyBit  Entry = 1 << 3 // T1 or T2 holds bytes that T3 lacks
	copyBit   Entry = 1 << 4 // resident in T1, and a clean copy keeps its T2 slot
	sampleBit Entry = 1 << 5 // the placer observes this page's accesses
)

// State is the page's place in its life cycle.
func (e Entry) State() State { return State(e & stateMask) }

// Dirty says whether the page's newest bytes are not on T3.
func (e Entry) Dirty() bool { return e&dirtyBit != 0 }

// T2Copy says whether a clean copy of a page in T1 still holds its T2 slot.
func (e Entry) T2Copy() bool { return e&copyBit != 0 }

// Sampled says whether the placer observes the page's accesses.
func (e Entry) Sampled() bool { return e&sampleBit != 0 }

// with returns e in state s, flags kept.
func (e Entry) with(s State) Entry { return e&^stateMask | Entry(s) }

// The compositions below are transitions that take no virtual time when a
// machine without I/O drives the table. A test replays each of them event by
// event through State.Next, so that the life cycle stays the only authority.

// filled is BeginFill, EndFill.
func (e Entry) filled() Entry { return e.with(ResidentT1) }

// demoted is BeginDemote, EndDemote. A demoted page has no second copy.
func (e Entry) demoted() Entry { return (e &^ copyBit).with(ResidentT2) }

// forgotten is Drop for a clean page, and BeginWriteBack, EndWriteBack for a
// dirty one. Only the sampling mark outlives residency.
func (e Entry) forgotten() Entry { return e & sampleBit }
