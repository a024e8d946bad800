package sim

import (
	"math"
	"math/bits"

	"github.com/tritier/tritier/tier"
)

// Bound computes the fewest SSD reads that any policy can reach on a trace
// with a given number of frames: Belady's MIN (IBM Systems Journal 5(2), 1966)
// in one pass, without knowledge of the future.
//
// Between two uses of a page lies an interval; keeping the page over it saves
// one read and takes one frame at every access strictly inside. The accessed
// page itself takes another. So MIN is the largest set of intervals of which
// at most frames-1 overlap, and the greedy choice by right end, each interval
// on the track that became free last, finds it (Faigle and Nawijn, Discrete
// Applied Mathematics 58, 1995). The track is found by union-find over time.
// A whole-page write reads nothing, so intervals that end in one save nothing
// and are left out. Prefetches count as reads.
//
// Memory is 4 B a page plus 4 B for each of at most 2*(pages+frames) time
// slots, whatever the trace's length: older slots are compacted.
type Bound struct {
	idle   int      // tracks not used yet
	tracks int      // frames - 1
	last   []uint32 // page -> slot of its last access; 0 never
	slots  []uint32 // union-find: slots[s] == s if a track is free since s
	reads  uint64   // accesses that read when they miss
	saved  uint64   // of these, the ones that MIN serves from a frame

	positions uint64
}

// NewBound returns a bound for frames frames; 0 frames are taken as 1, since
// the page in use needs one.
func NewBound(frames int) *Bound {
	tracks := max(frames-1, 0)
	return &Bound{idle: tracks, tracks: tracks, slots: make([]uint32, 1, 1<<12)}
}

// Positions is the number of accesses taken so far, prefetches included.
func (b *Bound) Positions() uint64 { return b.positions }

// Reads is the least possible number of SSD reads so far.
func (b *Bound) Reads() uint64 { return b.reads - b.saved }

// Run takes the next accesses of the trace. Pages are below pages.
func (b *Bound) Run(accs []tier.Access, pages int) {
	if pages > len(b.last) {
		b.last = append(b.last, make([]uint32, pages-len(b.last))...)
	}
	b.positions += uint64(len(accs))
	for len(accs) > 0 {
		n := min(len(accs), b.room())
		b.run(accs[:n])
		accs = accs[n:]
	}
}

// room makes space for at least one more slot and returns how many there are.
func (b *Bound) room() int {
	limit := 2*(len(b.last)+b.tracks) + 1<<20
	if len(b.slots) >= min(limit, math.MaxUint32) {
		b.compact()
	}
	if len(b.slots) == cap(b.slots) {
		grown := make([]uint32, len(b.slots), min(2*cap(b.slots), limit))
		copy(grown, b.slots)
		b.slots = grown
	}
	return cap(b.slots) - len(b.slots)
}

func (b *Bound) run(accs []tier.Access) {
	t := uint32(len(b.slots))
	slots, last := b.slots[:len(b.slots)+len(accs)], b.last
	for _, a := range accs {
		p := a.Page()
		prev := last[p]
		last[p] = t
		slots[t] = t - 1
		if a.Op() != tier.Overwrite {
			b.reads++
			if prev != 0 && (prev == t-1 || b.take(slots, prev, t)) {
				b.saved++
			}
		}
		t++
	}
	b.slots = slots
}

// take lets the track that became free last, but not after prev, serve the
// interval from prev to t. It is busy at the accesses strictly inside, so it
// is free again from t-1 on. No earlier search has passed slot t-1: searches
// start at the last use of a page, which only the next access can have there.
func (b *Bound) take(slots []uint32, prev, t uint32) bool {
	s := prev
	for slots[s] != s { // path halving
		slots[s] = slots[slots[s]]
		s = slots[s]
	}
	switch {
	case s > 0:
		slots[s] = s - 1
	case b.idle > 0:
		b.idle--
	default:
		return false
	}
	slots[t-1] = t - 1
	return true
}

// compact renumbers the slots that still matter, in order: those where a page
// was used last and those where a track is free. The newest slot is one of
// them, so that the test for adjacent uses stays right.
func (b *Bound) compact() {
	keep := make([]uint64, (len(b.slots)+63)/64)
	mark := func(s uint32) { keep[s/64] |= 1 << (s % 64) }
	for _, s := range b.last {
		mark(s)
	}
	mark(0)
	for s, up := range b.slots {
		if uint32(s) == up {
			mark(up)
		}
	}
	n := 0
	for s, up := range b.slots {
		if keep[s/64]>>(s%64)&1 == 0 {
			continue
		}
		if uint32(s) == up || n == 0 { // slot n <= s has been read already
			b.slots[n] = uint32(n)
		} else {
			b.slots[n] = uint32(n) - 1
		}
		n++
	}
	b.slots = b.slots[:n]
	rank := newRanks(keep)
	for p, s := range b.last {
		b.last[p] = rank.of(s)
	}
}

// ranks counts the marks before a bit.
type ranks struct {
	bits   []uint64
	before []uint32 // marks in all earlier words
}

func newRanks(marks []uint64) ranks {
	r := ranks{bits: marks, before: make([]uint32, len(marks))}
	sum := 0
	for i, w := range marks {
		r.before[i] = uint32(sum)
		sum += bits.OnesCount64(w)
	}
	return r
}

func (r ranks) of(bit uint32) uint32 {
	below := r.bits[bit/64] & (1<<(bit%64) - 1)
	return r.before[bit/64] + uint32(bits.OnesCount64(below))
}
