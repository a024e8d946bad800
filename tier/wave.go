package tier

import (
	"fmt"

	"github.com/tritier/tritier/placement"
)

// Wave is a set of moves that are independent of each other, and the accesses
// that they are for.
type Wave struct {
	Misses   []Miss
	Accesses []WaveAccess
}

// WaveAccess is one access of a wave.
type WaveAccess struct {
	Page placement.Page
	Op   Op
	Tag  int   // the caller's
	Err  error // why its page is not in a frame; valid after Resolve

	miss  int // place in Misses, or -1
	class uint8
}

// Miss is one page's way into T1, and what had to leave for it.
type Miss struct {
	Page   placement.Page
	Op     Op
	Frame  int32  // where it goes
	Slot   int32  // where it comes from, or the buffer of its read; NoPlace for an overwrite
	Read   bool   // Slot is to be filled from T3 first
	Victim Victim // of T1
	Second Victim // of T2, which made room for the first
	Err    error  // why the page is not in its frame

	from   Entry
	class  uint8
	undone bool
}

// Victim is a page that leaves a tier; Page is placement.None when none does.
type Victim struct {
	Page  placement.Page
	Place int32 // frame of a victim of T1, slot of one of T2
	Slot  int32 // slot that a victim of T1 is copied to; NoPlace: it need not be
	Write bool  // to T3: a victim of T1 from Slot, one of T2 from Place

	entry Entry
	toT2  bool // a victim of T1 that is now a page of T2
	saved bool // without a move: its clean copy was there
}

// The ways in which an access is counted. Those of misses come first.
const (
	asT2Hit uint8 = iota
	asFetch
	asOverwrite
	asPrefetch     // moved the page from T2
	asPrefetchRead // moved it from T3
	asHit
	asNothing // a prefetch of a page that is there
	asError
)

// AbortError is an access that was not made, since a page had to be written to T3
// before and could not be. That page is where it was, and so is this one.
type AbortError struct {
	Page   placement.Page // of the access
	Victim placement.Page // that could not be written
	Err    error
}

// Error names both pages.
func (e *AbortError) Error() string {
	return fmt.Sprintf("page %d was not moved to T1: page %d had to be written to T3 before, which failed: %v", e.Page, e.Victim, e.Err)
}

// Unwrap returns the error of the write.
func (e *AbortError) Unwrap() error { return e.Err }

// Abort takes back the misses from number first on: victim, a victim of that
// miss, could not be written. It is for Carry, before anything was put into a
// frame; it may be called again with a lower number.
func (w *Wave) Abort(first int, victim placement.Page, err error) {
	for i := first; i < len(w.Misses); i++ {
		m := &w.Misses[i]
		m.Err, m.undone = &AbortError{m.Page, victim, err}, true
	}
}

// Resolve gives every access the error of its page's miss. Carry calls it before
// it moves the accesses' elements.
func (w *Wave) Resolve() {
	for i := range w.Accesses {
		a := &w.Accesses[i]
		if a.miss >= 0 && a.Err == nil {
			a.Err = w.Misses[a.miss].Err
		}
	}
}

func (w *Wave) reset() {
	clear(w.Misses) // errors
	clear(w.Accesses)
	w.Misses, w.Accesses = w.Misses[:0], w.Accesses[:0]
}
