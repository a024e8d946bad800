package placement

// starvation is the rule that keeps T2 in use: while more than a share of the
// last evictions was bound for T3, every second such victim goes to T2. It
// counts where victims were bound, not where its own grants sent them: with
// the grants counted, half of all victims, it would switch itself off. The
// rule waits for a full window.
type starvation struct {
	bound  []uint64 // bitmap of the last evictions: bound for T3?
	window uint32
	above  uint32 // starved when more than this many of the window were
	at     uint32 // next place in the window
	t3     uint32 // ones in the window
	full   bool
	second bool // the next T3-bound victim is the second of two
}

// newStarvation makes the rule for a window of evictions and a share.
func newStarvation(window int, share float64) starvation {
	return starvation{
		bound:  make([]uint64, (window+wordBits-1)/wordBits),
		window: uint32(window),
		above:  uint32(share*float64(window) + 1e-9), // 0.29*100 is 29, not 28.999...
	}
}

// grant notes an eviction and says whether it goes to T2 though bound for T3.
func (s *starvation) grant(t3 bool) (grant bool) {
	if t3 && s.full && s.t3 > s.above {
		grant = s.second
		s.second = !s.second
	}
	word, bit := &s.bound[s.at/wordBits], s.at%wordBits
	is, was := one(t3), *word>>bit&1
	*word ^= (is ^ was) << bit
	s.t3 += uint32(is) - uint32(was)
	if s.at++; s.at == s.window {
		s.at, s.full = 0, true
	}
	return grant
}
