package tier

import "fmt"

// Check proves the machine's invariants and returns the first one that is
// broken, or nil. It looks at the whole table.
//
//   - every page is at rest: no state outlives the access that began it;
//   - pages in T1 and T2 are as many as the evictors know, and fit the frames;
//   - only resident pages are dirty, only clean T1 pages have a T2 copy;
//   - the counters are conserved.
func (m *Machine) Check() error {
	var in [numStates]int
	copies := 0
	for p, e := range m.table {
		s := e.State()
		if s != Absent && s != ResidentT1 && s != ResidentT2 {
			return fmt.Errorf("tier: page %d is left %v", p, s)
		}
		in[s]++
		if e.Dirty() && s == Absent {
			return fmt.Errorf("tier: page %d is dirty but absent: its bytes are lost", p)
		}
		if e.T2Copy() {
			copies++
			if s != ResidentT1 || e.Dirty() {
				return fmt.Errorf("tier: page %d (%v, dirty %v) claims a clean copy in T2", p, s, e.Dirty())
			}
		}
	}
	if n := m.t1.Len(); n != in[ResidentT1] || n > m.t1.Cap() {
		return fmt.Errorf("tier: %d pages in T1, but its evictor holds %d of %d frames", in[ResidentT1], n, m.t1.Cap())
	}
	if m.t2 == nil {
		if in[ResidentT2] != 0 || copies != 0 {
			return fmt.Errorf("tier: %d pages in T2, which does not exist", in[ResidentT2]+copies)
		}
	} else if n := m.t2.Len(); n != in[ResidentT2]+copies || n > m.t2.Cap() {
		return fmt.Errorf("tier: %d pages and %d copies in T2, but its evictor holds %d of %d slots", in[ResidentT2], copies, n, m.t2.Cap())
	}
	if m.free1 != m.t1.Cap()-m.t1.Len() || m.t2 != nil && m.free2 != m.t2.Cap()-m.t2.Len() {
		return fmt.Errorf("tier: the free counts %d and %d do not match the evictors", m.free1, m.free2)
	}
	return m.c.Check()
}
