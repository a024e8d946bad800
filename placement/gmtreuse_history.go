package placement

// reuseClass is a class of remaining reuse distance: the tier in which a page
// would have been found in time.
type reuseClass uint8

const (
	reuseShort   reuseClass = iota // below |T1|: T1 should have kept the page
	reuseMedium                    // below |T1|+|T2|: it belonged in T2
	reuseLong                      // longer: T3 is soon enough
	reuseUnknown                   // no eviction of the page was judged yet

	reuseClasses = 3 // known ones
)

// reuseHistory is what is known of one page, packed into 64 bits so that a
// GPU thread loads it at once:
//
//	bits  0..53  nine 6-bit counters, history[from][to] at 6*(3*from+to)
//	bits 54..55  3 minus the class of the last judged eviction; 0: none was
//	bits 56..57  3 minus the class predicted for the next one; 0: none is
//	bit  58      evicted, and not judged since
//	bit  59      kept in T1 since it came there
type reuseHistory uint64

const (
	countBits = 6
	countMax  = 1<<countBits - 1
	rowBits   = countBits * reuseClasses
	lastShift = rowBits * reuseClasses
	nextShift = lastShift + 2

	reuseAway  = reuseHistory(1) << (nextShift + 2)
	reuseKept  = reuseHistory(1) << (nextShift + 3)
	reuseFlags = reuseAway | reuseKept

	countsMask = reuseHistory(1)<<lastShift - 1
	// halfMask is every counter's bits but the highest: what a shift by one
	// moves over from the counter above is cut off.
	halfMask = countsMask / countMax * (countMax >> 1)
)

// last is the class of the last judged eviction, or reuseUnknown.
func (h reuseHistory) last() reuseClass { return reuseUnknown - reuseClass(h>>lastShift&3) }

// next is the predicted class of the coming eviction, or reuseUnknown.
func (h reuseHistory) next() reuseClass {
	return reuseUnknown - reuseClass(h>>nextShift&3)
}

// judge notes that the page's last eviction turned out to be of class c, and
// predicts the next one. A full counter halves all nine first: they age
// together and never wrap.
func (h reuseHistory) judge(c reuseClass) reuseHistory {
	last := h.last()
	known := one(last != reuseUnknown)
	shift := (rowBits*uint(last) + countBits*uint(c)) & 63
	if h>>shift&countMax == countMax && known == 1 {
		h = h&^countsMask | h>>1&halfMask
	}
	h += reuseHistory(known << shift)
	h &= countsMask | reuseFlags
	return h | reuseHistory(reuseUnknown-c)<<lastShift | (reuseHistory(reuseUnknown)-h.successor(c))<<nextShift
}

// successor is the most frequent successor of class c. Of equally frequent
// ones, c itself is preferred, then the shorter distance: an empty row
// predicts the same class again, and a page placed too near costs a slot, one
// placed too far an SSD read. Each candidate is a key of count, preference and
// class, so that the choice is a maximum, without branches.
func (h reuseHistory) successor(c reuseClass) reuseHistory {
	const same = 3 << 2
	row := h >> (rowBits * uint(c) & 63)
	keys := [reuseClasses]reuseHistory{
		row&countMax<<4 | 2<<2 | reuseHistory(reuseShort),
		row>>countBits&countMax<<4 | 1<<2 | reuseHistory(reuseMedium),
		row>>(2*countBits)&countMax<<4 | reuseHistory(reuseLong),
	}
	keys[c] |= same
	return max(keys[reuseShort], keys[reuseMedium], keys[reuseLong]) & 3
}
