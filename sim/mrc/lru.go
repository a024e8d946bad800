package mrc

import (
	"github.com/tritier/tritier/sim"
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

// LRU measures the stack distances of a trace, of all its pages or of a sample,
// in one pass. It is fed blocks in order and has one owner. Memory depends on the
// distinct pages, not on the trace's length: about 15 B for each that is measured,
// and for a sample an eighth of a byte for each that is not.
type LRU struct {
	rate   float64
	seed   uint64
	sample *pageSet // nil: every page
	stack  *stack
	// depths[kind][d] counts accesses that found their page at depth d; 0: at
	// its first use.
	depths [kinds][]uint64
	pages  int // distinct pages so far, sampled or not

	positions, prefetched uint64 // accesses so far, sampled or not; of these, prefetches

	prev [batch]uint32
	kept []tier.Access
}

const (
	// batch is how many accesses look up their page's last slot before any of
	// them is counted, so that the waits for memory overlap.
	batch = 256
	// filterBlock bounds the sampled accesses that are copied at a time.
	filterBlock = 1 << 13
)

// NewLRU measures all pages exactly (rate 1), or at a lower rate above 0 a
// sample that the seed chooses: SHARDS at a fixed rate.
func NewLRU(rate float64, seed uint64) *LRU {
	l := &LRU{rate: min(rate, 1), seed: seed, stack: newStack(0)}
	l.depths[fetches] = make([]uint64, 1)
	if rate < 1 {
		l.sample = newPageSet(sim.SampledBelow(rate), seed)
		l.kept = make([]tier.Access, filterBlock)
	}
	return l
}

// Run takes the next accesses of the trace. Pages are numbered densely, and are
// below pages.
func (l *LRU) Run(accs []tier.Access, pages int) {
	l.pages = max(l.pages, pages)
	l.positions += uint64(len(accs))
	if l.sample == nil {
		l.stack.grow(pages)
		for _, a := range accs {
			l.prefetched += uint64(kindOf[a.Op()]) >> 1
		}
		l.run(accs)
		return
	}
	l.stack.grow(l.sample.grow(pages))
	for len(accs) > 0 {
		n := min(len(accs), filterBlock)
		l.run(l.filter(accs[:n]))
		accs = accs[n:]
	}
}

// filter returns the sampled ones of accs under their numbers in the sample.
func (l *LRU) filter(accs []tier.Access) []tier.Access {
	n, prefetched, words := 0, uint64(0), l.sample.words
	for _, a := range accs {
		prefetched += uint64(a.Op()) & uint64(a.Op()>>1)
		if p := a.Page(); words[p/64]>>(p%64)&1 != 0 {
			l.kept[n] = tier.MakeAccess(l.sample.number(p), a.Op())
			n++
		}
	}
	l.prefetched += prefetched
	return l.kept[:n]
}

// run counts accs, whose pages are entries of the stack.
func (l *LRU) run(accs []tier.Access) {
	for len(accs) > 0 {
		if l.stack.room() == 0 {
			l.stack.compact()
		}
		l.depths[fetches] = extend(l.depths[fetches], int(l.stack.live)+batch+1)
		n := min(len(accs), batch, l.stack.room())
		l.runBatch(accs[:n])
		accs = accs[n:]
	}
}

func (l *LRU) runBatch(accs []tier.Access) {
	last, next := l.stack.last, l.stack.next
	for i, a := range accs {
		p := a.Page()
		l.prev[i&(batch-1)] = last[p]
		last[p] = next + uint32(i)
	}
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

// sampled is the number of pages measured.
func (l *LRU) sampled() int { return int(l.stack.live) }

// Profile is what was measured so far. It does not change when l goes on.
func (l *LRU) Profile() *Profile {
	p := &Profile{
		Method: Method{Rate: l.rate, Seed: l.seed}, SampledPages: l.sampled(), Pages: l.pages,
		Accesses: l.positions - l.prefetched, Prefetches: l.prefetched, share: 1,
	}
	if l.sample != nil && l.pages > 0 {
		p.share = float64(l.sampled()) / float64(l.pages)
	}
	for kind, counts := range l.depths {
		sum := 0.0
		c := make([]float64, max(len(counts), 1))
		for d, n := range counts {
			if d > 0 {
				sum += float64(n)
				c[d] = sum
			} else {
				p.first[kind] = float64(n)
			}
		}
		p.upTo[kind] = c
		p.SampledAccesses += uint64(p.first[kind] + sum)
	}
	return p
}
