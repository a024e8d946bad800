package mrc

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naiveStack is an LRU stack as a list, youngest first.
type naiveStack []uint32

func (s *naiveStack) use(e uint32) uint32 {
	i := slices.Index(*s, e)
	if i >= 0 {
		*s = slices.Delete(*s, i, i+1)
	}
	*s = slices.Insert(*s, 0, e)
	return uint32(i + 1)
}

func (s *naiveStack) remove(e uint32) {
	if i := slices.Index(*s, e); i >= 0 {
		*s = slices.Delete(*s, i, i+1)
	}
}

// The stack agrees with the list, uses, removals and compactions at any time,
// and within lines as well as across many.
func TestStackEqualsList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := uint32(rapid.SampledFrom([]int{1, 2, 30, 700, 2000}).Draw(t, "entries"))
		steps := rapid.IntRange(1, 5000).Draw(t, "steps")
		seed := rapid.Uint64().Draw(t, "seed")
		s, want := newStack(0), naiveStack{}
		s.grow(int(entries))
		for i := range steps {
			r := hash(seed, uint64(i))
			e := uint32(r>>8) % (1 + uint32(r>>40)%entries)
			switch {
			case r&0xff < 8:
				s.remove(e)
				want.remove(e)
			case r&0xfff == 0x800 || s.room() == 0:
				s.compact(nil)
			default:
				if got, want := s.use(e), want.use(e); got != want {
					t.Fatalf("step %d: entry %d at depth %d, want %d", i, e, got, want)
				}
			}
			if int(s.live) != len(want) {
				t.Fatalf("step %d: %d entries, want %d", i, s.live, len(want))
			}
		}
	})
}

// Compactions at every slot around the ends of words and lines change nothing.
func TestStackCompactsAnywhere(t *testing.T) {
	for _, live := range []uint32{0, 1, 62, 63, 64, 65, 510, 511, 512, 513, 1023, 1024, 1500} {
		s := newStack(int(live) + 1)
		for e := range live {
			s.use(e)
		}
		s.compact(nil)
		s.use(live)
		for e := range live {
			// Each entry has the younger ones, the one used since and those
			// used before it in this loop above it: all of them.
			if got := s.use(e); got != live+1 {
				t.Fatalf("%d entries: %d at depth %d", live, e, got)
			}
		}
	}
}

// The time line fills up again and again, and memory stays what the entries need.
func TestStackMemory(t *testing.T) {
	const entries = 3000
	s := newStack(entries)
	for i := range uint32(2_000_000) {
		if s.room() == 0 {
			s.compact(nil)
		}
		if d := s.use(i % entries); i >= entries && d != entries {
			t.Fatalf("use %d: depth %d in a loop over %d", i, d, entries)
		}
	}
	if got := len(s.marks) * 64; got > 4*entries+slackSlots+lineSlots {
		t.Errorf("%d slots for %d entries", got, entries)
	}
}

// hash is a stateless source of test inputs (splitmix64).
func hash(seed, i uint64) uint64 {
	x := seed + 0x9e3779b97f4a7c15*(i+1)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
