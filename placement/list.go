package placement

import "fmt"

// link is the place of a page in a doubly linked list that lives in an array
// indexed by page: 8 bytes a page, no pointers for the collector to scan, and
// no allocation when a page moves. Indices below the list's base are the
// sentinels, one per list; page p is at index p+base. A sentinel's next is the
// newest page of its list, its prev the oldest.
type link struct{ prev, next uint32 }

type links []link

// unlink takes i out of the list that it is in.
func (l links) unlink(i uint32) {
	n := l[i]
	l[n.prev].next = n.next
	l[n.next].prev = n.prev
}

// push puts i at the newest end of the list of sentinel s.
func (l links) push(s, i uint32) {
	h := l[s].next
	l[i] = link{s, h}
	l[h].prev = i
	l[s].next = i
}

// newLinks makes room for pages pages and k empty lists.
func newLinks(pages, k int) links {
	l := make(links, pages+k)
	for s := range uint32(k) {
		l[s] = link{s, s}
	}
	return l
}

// lastUnpinned returns the oldest entry of list s that pins lets go, or s when
// there is none. base is the index of page 0.
func (l links) lastUnpinned(s, base uint32, pins Pins) uint32 {
	i := l[s].prev
	for i != s && pins != nil && pins.Pinned(Page(i-base)) {
		i = l[i].prev
	}
	return i
}

// grown returns s with at least n entries, the new ones zero. It adds a
// quarter at least, so that a stream of new pages costs amortised constant
// time without wasting half of the memory.
func grown[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	t := make([]T, max(n, len(s)+len(s)/4))
	// Not make and copy in a row: the compiler would join them into a call that
	// clears the rest by hand, and so touches memory that comes zeroed from the
	// system and may never be used.
	if len(s) > 0 {
		copy(t, s)
	}
	return t
}

// checkSize refuses sizes that evictor name cannot work with.
func checkSize(name string, frames, smallest, pages int) error {
	switch {
	case frames < smallest:
		return fmt.Errorf("placement: %s needs at least %d frames, got %d: give the tier more memory or use fifo or lru",
			name, smallest, frames)
	case frames > MaxPages:
		return fmt.Errorf("placement: %s: %d frames exceed the limit of %d: use larger pages", name, frames, MaxPages)
	case pages < 0 || pages > MaxPages:
		return fmt.Errorf("placement: %s: page count %d is outside 0..%d: use larger pages", name, pages, MaxPages)
	}
	return nil
}

// portion is fraction of n, rounded down, but at least one and at most most.
func portion(fraction float64, n, most int) int {
	return max(1, min(most, int(fraction*float64(n))))
}

// checkFraction refuses a parameter outside 0 < v < limit.
func checkFraction(name, key string, v, limit float64) error {
	if !(v > 0 && v < limit) {
		return fmt.Errorf("placement: %s: %s=%v must be above 0 and below %v", name, key, v, limit)
	}
	return nil
}

// orDefault returns v, or d when v is zero.
func orDefault[T int | float64](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}
