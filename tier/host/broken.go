package host

import (
	"errors"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// unsettledError is a store that does not say what became of requests, or does not end them.
// T1 and T2 hold what they did: of a wave whose reads and writes have not all ended nothing
// is in a frame.
type unsettledError struct{ err error }

func (e *unsettledError) Error() string { return e.err.Error() }
func (e *unsettledError) Unwrap() error { return e.err }

// fail notes that the memory can go on no more.
func (m *Memory) fail(err error) error {
	if m.broken == nil {
		var unsettled *unsettledError
		b := &BrokenError{Err: err, Kept: !m.torn && errors.As(err, &unsettled)}
		m.plan.Unsaved(func(p placement.Page) {
			if b.Lost++; len(b.Some) < MaxNamed {
				b.Some = append(b.Some, m.pageError(p, errors.New("not written back")))
			}
		})
		m.broken = b
	}
	return m.broken
}

// KeptPage is a page that T3 lacks, and where its bytes are.
type KeptPage struct {
	Array int // as given to NewArray
	Name  string
	Page  uint64 // in the array
	InT2  bool
	Index int32 // frame, or slot of T2
}

// Kept lists the pages that T3 lacks of a memory that is broken, when T1 and T2 still hold
// them (BrokenError.Kept), for whoever can write them by other ways. No call changes
// them any more. Slots may belong to requests that a drive still carries out: nothing may be
// put into one, but those of the pages listed can be read.
func (m *Memory) Kept() []KeptPage {
	m.mu.Lock()
	defer m.mu.Leave()
	if m.broken == nil || !m.broken.Kept {
		return nil
	}
	var list []KeptPage
	m.plan.Kept(func(at tier.Place) {
		a := m.find(at.Page)
		list = append(list, KeptPage{Array: a.id, Name: a.name, Page: uint64(at.Page - a.base), InT2: at.InT2, Index: at.Index})
	})
	return list
}
