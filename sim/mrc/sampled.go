package mrc

import (
	"math"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/tier"
)

// SampledLRU estimates the stack distances of a trace in one pass from the pages
// whose hash lies below a rate (SHARDS), which is fixed or falls so that there are
// never more than so many. It has one owner.
//
// A page's accesses are in the sample together or not at all, so that a few hot
// pages decide how well the sample counts. A CorrectHot sample therefore counts
// hot pages apart. Of all accesses, one at a random place in every 1/rate of them
// is chosen; a page of which hotAfter were chosen is hot from then on, and counted
// by its chosen accesses, whether it is sampled or not. The stack of the sampled
// pages measures them all the same: each page bears a bookmark of how the stack
// was when it was used last, and the sampled pages used since then are its depth.
//
// Where the authors of SHARDS take the rate for the share of the pages that are
// sampled, it is counted here, which takes the chance out of it.
//
// Memory is about 20 B for each page ever sampled, and, with hot pages apart, 5 B
// for every page, else half a byte.
type SampledLRU struct {
	method Method
	set    pageSet
	stack  *stack

	bookmark []uint32 // page -> slot from which on marks are younger
	chosen   []uint8  // page -> how often it was chosen
	period   int      // one access in so many is chosen, in the stretch now
	left     int      // accesses until the next stretch
	choose   int      // accesses until the chosen one; negative: it is behind
	stretch  uint64   // stretches so far

	cold, hot, first [kinds]tally
	rare, rareHot    [kinds]uint64 // accesses of the kinds but fetches, sampled or not; these, of hot pages
	hotAccesses      uint64        // accesses of hot pages, all kinds
	positions        uint64        // accesses of all kinds
	sampled          uint64        // of sampled pages
	bucket           bool          // depths are in buckets of frames of the whole
	seen             int           // distinct pages so far
	phase            float64       // where in its range of depths the next access is counted
}

// hotAfter is how often a page must have been chosen to be hot: it was then used
// in about one of 1/(3 rate) accesses for a while.
const hotAfter = 3

// NewSampledLRU measures a sample: at a rate, or of at most so many pages.
func NewSampledLRU(m Method) *SampledLRU {
	if m.Correction == "" {
		m.Correction = CorrectHot
	}
	s := &SampledLRU{method: m, stack: newStack(0)}
	s.set = pageSet{seed: m.Seed, below: sim.SampledBelow(1), limit: m.MaxPages}
	if m.MaxPages == 0 {
		s.set.below = max(1, sim.SampledBelow(m.Rate))
	}
	return s
}

// apart says whether hot pages are counted apart.
func (s *SampledLRU) apart() bool { return s.method.Correction == CorrectHot }

// chosenDomain keeps the choice of accesses apart from that of pages.
const chosenDomain = 0x63686f73

// Run takes the next accesses of the trace. Pages are numbered in order of first
// appearance, and are below pages.
func (s *SampledLRU) Run(accs []tier.Access, pages int) {
	s.positions += uint64(len(accs))
	if s.set.limit == 0 {
		s.meet(pages) // at a rate that falls, pages are decided on as they come
	}
	if !s.apart() {
		s.run(accs)
		return
	}
	for len(accs) > 0 {
		if s.left == 0 {
			s.begin()
		}
		n := min(len(accs), s.left)
		if s.choose >= 0 {
			n = min(n, s.choose)
		}
		if n > 0 {
			s.runMarking(accs[:n])
		} else { // this is the chosen one
			hot := s.look(accs[0])
			n = 1
			s.runMarking(accs[:1])
			if !hot {
				s.note(accs[0].Page())
			}
		}
		s.choose -= n
		s.left -= n
		accs = accs[n:]
	}
}

// begin begins a stretch of accesses of which one is chosen.
func (s *SampledLRU) begin() {
	s.stretch++
	s.period = max(1, int(math.Round(1/s.set.rate())))
	s.left = s.period
	s.choose = int(placement.Hash(s.method.Seed, s.stretch, chosenDomain) % uint64(s.period))
}

// run takes accesses where hot pages are not counted apart.
func (s *SampledLRU) run(accs []tier.Access) {
	words, known, seen := s.set.words, s.set.pages, s.seen
	for _, a := range accs {
		p, op := a.Page(), a.Op()
		seen = max(seen, int(p)+1)
		if int(p) >= known {
			s.meet(int(p) + 1)
			words, known = s.set.words, s.set.pages
		}
		if sampled := words[p/64].sampled >> (p % 64) & 1; sampled != 0 || op > tier.Write {
			s.take(p, op, sampled, 0)
		}
	}
	s.seen = seen
}

// runMarking takes accesses and leaves a bookmark at each one's page.
func (s *SampledLRU) runMarking(accs []tier.Access) {
	words, known, bookmark, next := s.set.words, s.set.pages, s.bookmark, s.stack.next
	hotAccesses, seen := uint64(0), s.seen
	for _, a := range accs {
		p, op := a.Page(), a.Op()
		seen = max(seen, int(p)+1)
		if int(p) >= known {
			s.meet(int(p) + 1)
			words, known, bookmark = s.set.words, s.set.pages, s.bookmark
		}
		w := &words[p/64]
		hot := w.hot >> (p % 64) & 1
		hotAccesses += hot
		if sampled := w.sampled >> (p % 64) & 1; sampled != 0 || op > tier.Write {
			s.take(p, op, sampled, hot)
			next = s.stack.next
		}
		bookmark[p] = next
	}
	s.hotAccesses += hotAccesses
	s.seen = seen
}

// meet makes room for the pages below pages, and decides on those that are new.
func (s *SampledLRU) meet(pages int) {
	if pages <= s.set.pages {
		return
	}
	left := s.set.grow(pages)
	s.stack.grow(s.set.ever)
	if len(left) > 0 && !s.bucket {
		s.toBuckets()
	}
	for _, gone := range left { // a new one may be among them
		s.stack.remove(gone.entry)
	}
	if s.apart() {
		s.bookmark = extend(s.bookmark, s.set.pages)
		s.chosen = extend(s.chosen, s.set.pages)
	}
}

// take counts an access that is of a sampled page, or of a kind that many traces
// lack.
func (s *SampledLRU) take(p placement.Page, op tier.Op, sampled, hot uint64) {
	kind := kindOf[op]
	if kind != fetches {
		s.rare[kind]++
		s.rareHot[kind] += hot
	}
	if sampled == 0 {
		return
	}
	if s.stack.room() == 0 {
		s.stack.compact(s.bookmark)
	}
	s.sampled++
	switch depth := s.stack.use(s.set.number(p)); {
	case depth == 0:
		s.first[kind].sum += s.weight()
	case hot == 0:
		s.count(&s.cold[kind], depth, s.weight())
	}
}

// look counts the chosen access a if its page is hot, and says whether it is.
func (s *SampledLRU) look(a tier.Access) bool {
	p := a.Page()
	if int(p) >= s.set.pages || s.set.words[p/64].hot>>(p%64)&1 == 0 {
		return false
	}
	depth := uint32(1)
	if at := s.bookmark[p]; at < s.stack.next {
		depth += s.stack.from(at)
	}
	s.count(&s.hot[kindOf[a.Op()]], depth, float64(s.period))
	return true
}

// note notes that an access of p was chosen. Only the accesses after it may be
// those of a hot page: this one was chosen for certain.
func (s *SampledLRU) note(p placement.Page) {
	if s.chosen[p]++; s.chosen[p] >= hotAfter {
		s.set.words[p/64].hot |= 1 << (p % 64)
	}
}

// weight is how many pages a sampled one stands for.
func (s *SampledLRU) weight() float64 {
	if s.set.limit == 0 {
		return 1 // the same throughout: it is put in at the end
	}
	return float64(s.set.pages) / float64(max(s.set.live, 1))
}

// count adds an access that found its page at a depth of the sample. In the
// whole trace it lies somewhere from depth-1 to depth pages of the sample, each of
// which stands for so many; at a rate that changes, consecutive accesses are
// spread evenly over that range.
func (s *SampledLRU) count(t *tally, depth uint32, weight float64) {
	if !s.bucket {
		t.add(int(depth), weight)
		return
	}
	t.add(spread(depth, s.weight(), &s.phase), weight)
}

// toBuckets goes over to depths in frames of the whole trace, when the first page
// leaves the sample: until then they were that, too.
func (s *SampledLRU) toBuckets() {
	s.bucket = true
	for kind := range s.cold {
		for _, t := range []*tally{&s.cold[kind], &s.hot[kind]} {
			var b tally
			for d, w := range t.depths {
				if w > 0 {
					b.add(bucketOf(uint64(d)), w)
				}
			}
			*t = b
		}
	}
}

// Profile is what was measured so far. It does not change when s goes on.
func (s *SampledLRU) Profile() *Profile {
	p := &Profile{Method: s.method, SampledPages: s.set.live, Pages: s.seen, SampledAccesses: s.sampled,
		share: float64(s.set.live) / float64(max(s.set.pages, 1)), bucket: s.bucket}
	switch {
	case s.bucket:
		p.Method.Rate = s.set.rate()
	case s.set.limit > 0: // every page is sampled
		p.Method = Method{Rate: 1, Seed: s.method.Seed, Correction: CorrectHot}
	}
	for kind := range p.kinds {
		k := &p.kinds[kind]
		k.all = float64(s.rare[kind])
		k.hotAll = float64(s.rareHot[kind])
		k.first = s.first[kind].sum
		k.again.upTo, k.hot.upTo = s.cold[kind].upTo(), s.hot[kind].upTo()
	}
	f := &p.kinds[fetches]
	f.all = float64(s.positions - s.rare[overwrites] - s.rare[prefetches])
	f.hotAll = float64(s.hotAccesses - s.rareHot[overwrites] - s.rareHot[prefetches])
	p.sum()
	p.correct()
	if p.Method.exact() {
		p.Method.Correction = ""
	}
	return p
}
