package tier

import "github.com/tritier/tritier/placement"

//go:generate go run ../internal/genloops .

// ahead is how many accesses before its turn a loop touches a page's entry:
// enough to hide the second-level cache's latency behind a mispredicted branch.
const ahead = 12

// batch counts what one call of a two-tier loop does. T1 hits are what
// remains: the loop does not count them one by one.
type batch struct {
	fetches, overwrites, prefetched uint64
	idle                            uint64 // prefetches of pages in T1 already
	evicted                         uint64
	writebacks                      uint64
	onMiss                          func(pos uint64) uint64
	watch                           uint64 // trace position from which a miss is told
	warm                            Entry  // entries touched ahead; keeps those loads alive
	base                            uint64 // trace position of the first access
}

func (m *Machine) begin(accs []Access) batch {
	return batch{onMiss: m.onMiss, watch: m.watch, base: m.done}
}

// add takes over what the loop counted in registers; dirty is in units of
// dirtyBit, since the loop adds the bit itself.
func (b *batch) add(fetches, evicted, dirty int, warm Entry) {
	b.fetches += uint64(fetches)
	b.evicted, b.writebacks, b.warm = uint64(evicted), uint64(dirty)/uint64(dirtyBit), warm
}

// miss counts a miss that is not a plain read and returns its page's entry.
func (b *batch) miss(op Op) Entry {
	switch op {
	case Write:
		b.fetches++
	case Overwrite:
		b.overwrites++
	default:
		b.prefetched++
		return Entry(ResidentT1)
	}
	return Entry(ResidentT1) | dirtyBit
}

// note tells of the miss at accs[i], and when the next one matters.
func (b *batch) note(op Op, i int) {
	if op != Prefetch {
		b.watch = b.onMiss(b.base + uint64(i))
	}
}

// end adds b to the machine's counters. Without a host tier every victim
// skips it.
func (m *Machine) end(accs []Access, b batch) {
	accesses := uint64(len(accs)) - b.prefetched - b.idle
	m.c.Accesses += accesses
	m.c.T1Hits += accesses - b.fetches - b.overwrites
	m.c.T3Fetches += b.fetches
	m.c.Overwrites += b.overwrites
	m.c.Prefetches += b.prefetched
	m.c.PrefetchReads += b.prefetched
	m.c.Evictions += b.evicted
	m.c.Bypasses += b.evicted
	m.c.Writebacks += b.writebacks
	m.now += accesses
	m.watch = b.watch
	m.done += uint64(len(accs))
}

// enter advances virtual time, lets the observer see a sampled access, and
// says whether it is a T1 hit; the caller then tells T1's evictor. A prefetch
// is never a hit. i is the access's place in its block.
func (m *Machine) enter(p placement.Page, op Op, e Entry, i int) bool {
	if m.future != nil {
		m.future.At(uint32(m.done) + uint32(i))
		if e.T2Copy() {
			m.t2.Hit(p) // the copy's next use has moved on with the page's
		}
	}
	if op == Prefetch {
		if e.Sampled() && m.models != nil {
			m.models.Watch(m.now, p, placement.UsePrefetch)
		}
		return false
	}
	m.now++
	if e.Sampled() {
		m.observe(p, op)
	}
	if e.State() != ResidentT1 {
		return false
	}
	m.c.T1Hits++
	if op != Read {
		m.hitWrite(p, e)
	}
	return true
}

// observe lets the placer see an access.
func (m *Machine) observe(p placement.Page, op Op) {
	if m.models != nil {
		m.models.Watch(m.now, p, placement.Use(op))
		return
	}
	m.obs.Observe(m.now, p)
}

// leave accounts for the accesses of a three-tier loop.
func (m *Machine) leave(accs []Access) {
	m.c.Accesses = m.now
	m.done += uint64(len(accs))
}

// threeTierAny runs accs through all tiers, with an evictor that has no loop
// of its own.
func (m *Machine) threeTierAny(accs []Access) {
	for i, a := range accs {
		p, op := a.Page(), a.Op()
		e := m.table[p]
		if m.enter(p, op, e, i) {
			m.t1.Hit(p)
		} else if op != Prefetch || e.State() != ResidentT1 {
			m.miss(p, op, m.done+uint64(i))
		}
	}
	m.leave(accs)
}
