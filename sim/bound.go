package sim

import (
	"slices"

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
// Applied Mathematics 58, 1995). Free tracks are a set of time slots, searched
// for the last one before the interval's start.
// A whole-page write reads nothing, so intervals that end in one save nothing
// and are left out. Prefetches count as reads.
//
// Memory is 4 B a page plus one bit for each of at most 4*(pages+frames) time
// slots, whatever the trace's length: older slots are compacted.
type Bound struct {
	idle   int      // tracks not used yet
	tracks int      // frames - 1
	last   []uint32 // page -> slot of its last access; 0 never
	free   slotSet  // s is a member if a track is free since the access of slot s
	next   uint32   // slot of the next access
	reads  uint64   // accesses that read when they miss
	saved  uint64   // of these, the ones that MIN serves from a frame

	positions uint64
}

// NewBound returns a bound for frames frames; 0 frames are taken as 1, since
// the page in use needs one. It has room for pages pages, and grows.
func NewBound(frames, pages int) *Bound {
	tracks := max(frames-1, 0)
	return &Bound{idle: tracks, tracks: tracks, next: 1, free: newSlotSet(boundSlack), last: make([]uint32, 0, pages)}
}

// Positions is the number of accesses taken so far, prefetches included.
func (b *Bound) Positions() uint64 { return b.positions }

// Reads is the least possible number of SSD reads so far.
func (b *Bound) Reads() uint64 { return b.reads - b.saved }

// Run takes the next accesses of the trace. Pages are below pages.
func (b *Bound) Run(accs []tier.Access, pages int) {
	if pages > len(b.last) {
		b.last = slices.Grow(b.last, pages-len(b.last))[:pages]
	}
	b.positions += uint64(len(accs))
	for len(accs) > 0 {
		if int(b.next) == b.free.size() {
			b.compact()
		}
		n := min(len(accs), b.free.size()-int(b.next))
		b.run(accs[:n])
		accs = accs[n:]
	}
}

func (b *Bound) run(accs []tier.Access) {
	t, last := b.next, b.last
	for _, a := range accs {
		p := a.Page()
		prev := last[p]
		last[p] = t
		if a.Op() != tier.Overwrite {
			b.reads++
			if prev != 0 && (prev == t-1 || b.take(prev, t)) {
				b.saved++
			}
		}
		t++
	}
	b.next = t
}

// take lets the track that became free last, but not after prev, serve the
// interval from prev to t. It is busy at the accesses strictly inside, so it
// is free again from t-1 on.
func (b *Bound) take(prev, t uint32) bool {
	s, ok := b.free.upTo(prev)
	switch {
	case ok:
		b.free.remove(s)
	case b.idle > 0:
		b.idle--
	default:
		return false
	}
	b.free.add(t - 1)
	return true
}

// boundSlack keeps compactions rare on small traces.
const boundSlack = 1 << 16

// compact renumbers the slots that still matter, in order: those where a page
// was used last and those where a track is free, at most half of the room that
// it leaves. The newest slot is one of them, so that the test for adjacent uses
// stays right.
func (b *Bound) compact() {
	keep := slices.Clone(b.free.levels[0])
	mark := func(s uint32) { keep[s/64] |= 1 << (s % 64) }
	mark(0) // stays "never"
	for _, s := range b.last {
		mark(s)
	}
	rank := newRanks(keep)
	free := newSlotSet(max(b.free.size(), 4*(len(b.last)+b.tracks)+boundSlack))
	for s, ok := b.free.upTo(b.next - 1); ok; s, ok = b.free.upTo(b.next - 1) {
		b.free.remove(s)
		free.add(rank.of(s))
	}
	for p, s := range b.last {
		b.last[p] = rank.of(s)
	}
	b.free, b.next = free, rank.total
}
