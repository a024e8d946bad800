package mrc

import "math/bits"

// stack is an LRU stack that says how deep an entry was when it is used again.
// Each use takes the next slot of a time line, and a bitmap marks the slots that
// are some entry's last use: an entry's depth is the number of marks from its
// own on. Lines of 512 slots are counted by a Fenwick tree (Software: Practice
// and Experience 24(3), 1994), a line itself by counting bits, so that a use
// costs two walks over log2(slots/512) numbers, which fit in a core's cache.
//
// When the time line is full, the marked slots move together. Memory is 4 B for
// an entry and 5 bits for each of at most 4 slots an entry, whatever the number of
// uses.
type stack struct {
	last  []uint32 // entry -> slot of its last use; 0: not on the stack
	marks []uint64 // bit s: slot s is an entry's last use
	tree  []uint32 // Fenwick tree over the marks of the lines before the newest; from 1
	next  uint32   // slot of the next use
	live  uint32   // entries on the stack
}

const (
	lineSlots = 512 // one cache line of marks
	lineWords = lineSlots / 64
	// slackSlots keeps compactions rare on small stacks.
	slackSlots = 1 << 14
	// maxSlots keeps slots within 32 bits. A stack holds at most 2^30 entries.
	maxSlots = 1<<32 - lineSlots
)

// newStack makes an empty stack with room for entries below n; grow adds more.
func newStack(n int) *stack {
	s := &stack{last: make([]uint32, n), next: 1}
	s.layOut(slackSlots)
	return s
}

// layOut makes an empty time line of at least so many slots.
func (s *stack) layOut(slots int) {
	lines := (slots + lineSlots - 1) / lineSlots
	s.marks = make([]uint64, lines*lineWords)
	s.tree = make([]uint32, lines+1)
}

// grow makes room for entries below n.
func (s *stack) grow(n int) { s.last = extend(s.last, n) }

// room is how many uses fit before the time line is full.
func (s *stack) room() int { return len(s.marks)*64 - int(s.next) }

// use puts entry e on top and returns its depth until now: 1 when it was on top,
// 0 when it was not on the stack. There must be room.
func (s *stack) use(e uint32) (depth uint32) {
	prev := s.last[e]
	s.last[e] = s.next
	return s.move(prev)
}

// move takes the mark of slot prev, if it is not 0, to the next slot.
func (s *stack) move(prev uint32) (depth uint32) {
	t := s.next
	s.next++
	if prev == 0 {
		s.live++
	} else {
		depth = s.unmark(prev)
	}
	s.marks[t/64] |= 1 << (t % 64)
	if t%lineSlots == lineSlots-1 {
		s.close(t / lineSlots)
	}
	return depth
}

// unmark takes the mark of slot prev away and returns its depth.
func (s *stack) unmark(prev uint32) (depth uint32) {
	depth = s.from(prev)
	s.marks[prev/64] &^= 1 << (prev % 64)
	line := prev / lineSlots
	if line != (s.next-1)/lineSlots {
		for i := line + 1; i < uint32(len(s.tree)); i += i & -i {
			s.tree[i]--
		}
	}
	return depth
}

// from is the number of marks at a slot and after it.
func (s *stack) from(slot uint32) uint32 {
	line := slot / lineSlots
	words := (*[lineWords]uint64)(s.marks[line*lineWords:])
	w := slot / 64 % lineWords
	n := uint32(bits.OnesCount64(words[w] >> (slot % 64)))
	for i := uint32(1); i < lineWords; i++ {
		// All words are looked at: how many lie behind is hard to foresee for a
		// branch predictor.
		n += uint32(bits.OnesCount64(words[i] & -uint64((w-i)>>31)))
	}
	if line == (s.next-1)/lineSlots {
		return n
	}
	// The tree counts all lines but the newest; what is not up to this one is
	// above it.
	for i := line + 1; i > 0; i &= i - 1 {
		n -= s.tree[i]
	}
	return n + s.live
}

// close enters a line that is complete into the tree.
func (s *stack) close(line uint32) {
	n := uint32(0)
	for _, w := range s.marks[line*lineWords:][:lineWords] {
		n += uint32(bits.OnesCount64(w))
	}
	for i := line + 1; i < uint32(len(s.tree)); i += i & -i {
		s.tree[i] += n
	}
}

// remove takes entry e off the stack.
func (s *stack) remove(e uint32) {
	prev := s.last[e]
	if prev == 0 {
		return
	}
	s.last[e] = 0
	s.next++ // unmark takes the slot before for the newest
	s.unmark(prev)
	s.next--
	s.live--
}

// compact makes room: the marks move together, in order. So do bookmarks, slots
// from which a caller wants to count: each keeps the marks that were behind it.
func (s *stack) compact(bookmarks []uint32) {
	marks, before := s.marks, make([]uint32, len(s.marks))
	n := uint32(1)
	for i, w := range marks {
		before[i] = n
		n += uint32(bits.OnesCount64(w))
	}
	for _, slots := range [][]uint32{s.last, bookmarks} {
		for i, t := range slots {
			if t == s.next {
				slots[i] = n
			} else if t != 0 {
				slots[i] = before[t/64] + uint32(bits.OnesCount64(marks[t/64]&(1<<(t%64)-1)))
			}
		}
	}
	s.layOut(int(min(4*uint64(s.live)+slackSlots, maxSlots)))
	s.next = 1
	for range s.live {
		s.marks[s.next/64] |= 1 << (s.next % 64)
		s.next++
	}
	for line := range s.next / lineSlots {
		s.close(line)
	}
}

// extend lengthens s to n elements, its array by a quarter at a time.
func extend[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:max(n, len(s))]
	}
	grown := make([]T, n, max(n, cap(s)+cap(s)/4))
	copy(grown, s)
	return grown
}
