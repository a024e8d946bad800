package placement

import "math/bits"

// sampler measures reuse distances on one in k pages, chosen by a hash. All
// accesses of a chosen page are seen, so that distances among chosen pages are
// exact, and times k they estimate those among all (spatial sampling: SHARDS,
// FAST 2015). One in k accesses would measure nothing of the kind.
type sampler struct {
	seed, k uint64
	chosen  []uint64 // bitmap of the pages
	before  []uint32 // chosen pages below each word of it
	pages   int
	n       int      // chosen pages
	now     uint64   // the latest virtual time
	lastUse []uint64 // by rank among the chosen: virtual time, 0: none
	stack   lruStack // by rank
}

// sampleSeed keeps the choice of pages apart from the policy's other draws.
const sampleSeed = 0x73616d706c65

// samples says whether p is one of the chosen.
func (s *sampler) samples(p Page) bool {
	return Hash(s.seed^sampleSeed, 0, p)%s.k == 0
}

// grow prepares for pages below pages: their ranks are known from then on.
func (s *sampler) grow(pages int) {
	if pages <= s.pages {
		return
	}
	words := (pages + wordBits - 1) / wordBits
	s.chosen = grown(s.chosen, words)
	s.before = grown(s.before, words)
	for p := s.pages; p < pages; p++ {
		if p%wordBits == 0 {
			s.before[p/wordBits] = uint32(s.n)
		}
		if s.samples(Page(p)) {
			s.chosen[p/wordBits] |= 1 << (p % wordBits)
			s.n++
		}
	}
	s.pages = pages
	s.lastUse = grown(s.lastUse, s.n)
	s.stack.grow(s.n)
}

// access notes an access to p; ok when p is chosen and was seen before. Of warps that run
// at once the accesses come out of order by a little: they count as made at the latest
// time, which is the order that distances are measured in. A time before the page's last
// use would be a distance of 2^64, after which no line fits.
func (s *sampler) access(now uint64, p Page) (sample reuseSample, ok bool) {
	w := int(p) / wordBits
	if w >= len(s.chosen) || s.chosen[w]>>(p%wordBits)&1 == 0 {
		return sample, false
	}
	rank := s.before[w] + uint32(bits.OnesCount64(s.chosen[w]&lowBits(int(p%wordBits))))
	now = max(now, s.now)
	s.now = now
	distance, again := s.stack.access(rank)
	sample = reuseSample{vtd: now - s.lastUse[rank], rd: uint64(distance) * s.k}
	s.lastUse[rank] = now
	return sample, again
}
