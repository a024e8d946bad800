package host

import (
	"time"

	"github.com/tritier/tritier/tier"
)

// tail is the end of a wave whose reads and writes have ended: pages from slots to frames,
// then the caller's elements. There is one only while a batch runs, and it is done before
// the next wave's, and before anything else is done to frames.
type tail struct {
	in     []Copy
	pieces []Piece
	source []bool // of each slot: in names it
	begun  time.Time
	misses int
	open   bool
}

// needs says whether requests fill slots that the tail has still to read.
func (t *tail) needs(list []Request) bool {
	if len(t.in) == 0 {
		return false
	}
	for i := range list {
		if r := &list[i]; !r.Write && t.source[r.Slot] {
			return true
		}
	}
	return false
}

// beginTail notes what is left of the wave, and which of its accesses have failed.
func (m *Memory) beginTail(w *tier.Wave, begun time.Time) {
	t := &m.io.tail
	t.begun, t.misses, t.open = begun, len(w.Misses), true
	for i := range w.Misses {
		if x := &w.Misses[i]; x.Err == nil && x.Slot != tier.NoPlace {
			t.in = append(t.in, Copy{Frame: x.Frame, Slot: x.Slot})
			t.source[x.Slot] = true
		}
	}
	run := m.batch
	if run == nil {
		return
	}
	for i := range w.Accesses {
		a := &w.Accesses[i]
		run.failed.Accesses++
		if a.Err != nil {
			run.failed.add(m.pageError(a.Page, m.explain(a.Err)))
			continue
		}
		if run.Op == tier.Prefetch {
			continue
		}
		frame := m.plan.Frame(a.Page)
		for _, s := range run.order[run.access[a.Tag][0]:run.access[a.Tag][1]] {
			t.pieces = append(t.pieces, Piece{Frame: frame, Offset: s.Offset, Length: s.Length, At: s.At})
		}
	}
}

// endTail does what is left of the last wave. An error leaves the frames unknown.
func (m *Memory) endTail() error {
	t := &m.io.tail
	if !t.open {
		return nil
	}
	defer m.dropTail()
	if err := m.copy(t2ToT1, t.in); err != nil {
		return err
	}
	if err := m.elements(t.pieces); err != nil {
		return err
	}
	m.ended(EventMiss, t.begun, t.misses, 0)
	return nil
}

// dropTail forgets it: it was done, or the memory is broken.
func (m *Memory) dropTail() {
	t := &m.io.tail
	for _, c := range t.in {
		t.source[c.Slot] = false
	}
	t.in, t.pieces, t.open = t.in[:0], t.pieces[:0], false
}

// elements moves what the accesses were for.
func (m *Memory) elements(pieces []Piece) error {
	if len(pieces) == 0 {
		return nil
	}
	move, begun := m.eng.Store, m.began()
	if m.batch.Op == tier.Read {
		move = m.eng.Load
	}
	err := move(m.batch.Buffer, pieces)
	m.torn = m.torn || err != nil
	m.handed(pieces, begun)
	return err
}
