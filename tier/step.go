package tier

import "github.com/tritier/tritier/placement"

// StepKind says how an access was served.
type StepKind uint8

// The kinds of steps. The first four are accesses, as the counters name them.
const (
	StepHit        StepKind = iota // the page is in T1
	StepT2Hit                      // moved from T2
	StepFetch                      // read from T3
	StepOverwrite                  // a frame without a move: the whole page is written
	StepPrefetchT2                 // a prefetch that moved the page from T2
	StepPrefetch                   // a prefetch that read it from T3
	StepIdle                       // a prefetch of a page in T1
	StepRefused                    // every frame was pinned: nothing moved
)

// Step is what one access did: how it was served, and which pages left a tier
// for it. Page numbers are placement.None where nothing left.
type Step struct {
	Kind   StepKind
	Copied bool           // Victim was copied to T2
	Saved  bool           // Victim is in T2 without a move: its clean copy was there
	Write  bool           // Victim was dirty and skipped T2: it is written to T3
	Victim placement.Page // left T1
	Second placement.Page // left T2, page or clean copy, to make room for Victim
	// WriteSecond says that Second was dirty: it is written to T3 from T2.
	WriteSecond bool
}

// Step performs one access and says in s what moved, for whoever wants to know
// how long moves take. Decisions and counters are those of Run, which is faster.
func (m *Machine) Step(a Access, s *Step) {
	p, op := a.Page(), a.Op()
	*s = Step{Victim: placement.None, Second: placement.None}
	e := m.table[p]
	switch {
	case m.enter(p, op, e, 0):
		m.t1.Hit(p)
	case op == Prefetch && e.State() == ResidentT1:
		s.Kind = StepIdle
	default:
		m.step = s
		m.miss(p, op, m.done)
		m.step = nil
		if s.Kind = kindOf(e, op); m.table[p].State() != ResidentT1 {
			s.Kind = StepRefused
		}
	}
	m.done++
	m.c.Accesses = m.now
}

// kindOf classifies a miss of a page that was in state from.
func kindOf(from Entry, op Op) StepKind {
	inT2 := from.State() == ResidentT2
	switch {
	case inT2 && op == Prefetch:
		return StepPrefetchT2
	case inT2:
		return StepT2Hit
	case op == Prefetch:
		return StepPrefetch
	case op == Overwrite:
		return StepOverwrite
	}
	return StepFetch
}

// Unsaved calls f with every dirty page, in the order of their numbers: what a
// flush would write, and whether from T1.
func (m *Machine) Unsaved(f func(p placement.Page, inT1 bool)) {
	for i, e := range m.table {
		if e.Dirty() {
			f(placement.Page(i), e.State() == ResidentT1)
		}
	}
}
