package mrc

import (
	"github.com/tritier/tritier/tier"
)

// The kinds of accesses differ in what a miss counts as: a fetch, an overwrite
// or a prefetch that reads.
const (
	fetches = iota
	overwrites
	prefetches
	kinds
)

// kindOf is the kind of an operation.
var kindOf = [4]uint8{tier.Read: fetches, tier.Write: fetches, tier.Overwrite: overwrites, tier.Prefetch: prefetches}

// measurer measures stack distances block by block. It has one owner.
type measurer interface {
	// Run takes the next accesses of the trace. Pages are numbered densely, and
	// are below pages.
	Run(accs []tier.Access, pages int)
	// Profile is what was measured so far. It does not change afterwards.
	Profile() *Profile
}

// newMeasurer makes the one for a method. pages is the number of distinct pages,
// 0 when it is unknown: a sample of all pages needs no sampling.
func (m Method) newMeasurer(pages int) measurer {
	if m.exact() || m.MaxPages > 0 && pages > 0 && pages <= m.MaxPages {
		return NewLRU(m.Seed)
	}
	return NewSampledLRU(m)
}

// LRU measures the stack distances of a trace exactly, in one pass. It is fed
// blocks in order and has one owner. Memory depends on the distinct pages, not on
// the trace's length: about 15 B for each.
type LRU struct {
	seed  uint64
	stack *stack
	// depths[kind][d] counts accesses that found their page at depth d; 0: at
	// its first use.
	depths [kinds][]uint64
	prev   [batch]uint32
	warm   uint64 // keeps the loads that fetch marks into the cache alive
}

// batch is how many accesses look up their page's last slot before any of them
// is counted, so that the waits for memory overlap.
const batch = 256

// NewLRU measures every access. The seed is only noted.
func NewLRU(seed uint64) *LRU {
	l := &LRU{seed: seed, stack: newStack(0)}
	l.depths[fetches] = make([]uint64, 1)
	return l
}

// Run takes the next accesses of the trace. Pages are below pages.
func (l *LRU) Run(accs []tier.Access, pages int) {
	l.stack.grow(pages)
	for len(accs) > 0 {
		if l.stack.room() == 0 {
			l.stack.compact(nil)
		}
		l.depths[fetches] = extend(l.depths[fetches], int(l.stack.live)+batch+1)
		n := min(len(accs), batch, l.stack.room())
		l.run(accs[:n])
		accs = accs[n:]
	}
}

func (l *LRU) run(accs []tier.Access) {
	last, marks, next, warm := l.stack.last, l.stack.marks, l.stack.next, uint64(0)
	for i, a := range accs {
		p := a.Page()
		prev := last[p]
		l.prev[i&(batch-1)] = prev
		last[p] = next + uint32(i)
		warm |= marks[prev/64]
	}
	l.warm = warm
	depths := l.depths[fetches]
	for i, a := range accs {
		d := l.stack.move(l.prev[i&(batch-1)])
		if kind := kindOf[a.Op()]; kind == fetches {
			depths[d]++
		} else {
			l.rare(kind, d)
		}
	}
}

// rare counts an access of a kind that many traces lack.
func (l *LRU) rare(kind uint8, d uint32) {
	l.depths[kind] = extend(l.depths[kind], int(d)+1)
	l.depths[kind][d]++
}

// Profile is what was measured so far. It does not change when l goes on.
func (l *LRU) Profile() *Profile {
	p := &Profile{Method: Method{Rate: 1, Seed: l.seed}, SampledPages: int(l.stack.live), Pages: int(l.stack.live), share: 1}
	for kind, counts := range l.depths {
		c := make([]float64, max(len(counts), 1))
		for d, n := range counts {
			if d > 0 {
				c[d] = c[d-1] + float64(n)
			}
		}
		k := &p.kinds[kind]
		if len(counts) > 0 {
			k.first = float64(counts[0])
		}
		k.again.upTo, k.again.scale = c, 1
		k.all = k.first + c[len(c)-1]
	}
	p.sum()
	return p
}
