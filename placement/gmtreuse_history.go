package placement

// reuseClass is a class of remaining reuse distance: the tier in which a page
// would have been found in time.
type reuseClass uint8

const (
	reuseShort  reuseClass = iota // below |T1|: T1 should have kept the page
	reuseMedium                   // below |T1|+|T2|: it belonged in T2
	reuseLong                     // longer: T3 is soon enough
	reuseClasses
)

// reuseHistory is what is known of one page, packed into 64 bits so that a
// GPU thread loads it at once:
//
//	bits  0..53  nine 6-bit counters, history[from][to] at 6*(3*from+to)
//	bits 54..55  class of the last eviction that was judged, plus 1; 0: none
//	bit  56      evicted, and not judged since
//	bit  57      kept in T1 since it came there
type reuseHistory uint64

const (
	countBits = 6
	countMax  = 1<<countBits - 1
	rowBits   = countBits * int(reuseClasses)
	lastShift = rowBits * int(reuseClasses)

	reuseAway = reuseHistory(1) << (lastShift + 2)
	reuseKept = reuseHistory(1) << (lastShift + 3)

	countsMask = reuseHistory(1)<<lastShift - 1
	// halfMask is every counter's bits but the highest: what a shift by one
	// moves over from the counter above is cut off.
	halfMask = countsMask / countMax * (countMax >> 1)
)

// last is the class of the last judged eviction, if there was one.
func (h reuseHistory) last() (c reuseClass, ok bool) {
	bits := h >> lastShift & 3
	return reuseClass(bits - 1), bits != 0
}

// next predicts the class that follows last: its most frequent successor. Of
// equally frequent ones, last itself is preferred, then the shorter distance:
// an empty row predicts the same class again, and a page placed too near
// costs a slot, one placed too far an SSD read.
func (h reuseHistory) next(last reuseClass) reuseClass {
	row := h >> (rowBits * int(last))
	best, most := last, row>>(countBits*int(last))&countMax
	for c := range reuseClasses {
		if n := row >> (countBits * int(c)) & countMax; n > most {
			best, most = c, n
		}
	}
	return best
}

// judge notes that the page's last eviction turned out to be of class c. A
// full counter halves all nine first: they age together and never wrap.
func (h reuseHistory) judge(c reuseClass) reuseHistory {
	if last, ok := h.last(); ok {
		shift := rowBits*int(last) + countBits*int(c)
		if h>>shift&countMax == countMax {
			h = h&^countsMask | h>>1&halfMask
		}
		h += 1 << shift
	}
	return h&^(3<<lastShift) | reuseHistory(c+1)<<lastShift
}
