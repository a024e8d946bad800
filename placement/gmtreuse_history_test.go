package placement

import (
	"testing"

	"pgregory.net/rapid"
)

func TestReuseHistoryPredicts(t *testing.T) {
	const s, m, l = reuseShort, reuseMedium, reuseLong
	for _, tc := range []struct {
		name   string
		judged []reuseClass
		want   reuseClass
	}{
		{"an empty row predicts the same class", []reuseClass{m}, m},
		{"short before anything else", []reuseClass{s}, s},
		{"one successor", []reuseClass{m, l, m}, l},
		{"the most frequent successor", []reuseClass{m, l, m, s, m, s, m}, s},
		{"a tie prefers the same class", []reuseClass{m, l, m, m}, m},
		{"else the shorter one", []reuseClass{m, l, m, s, m}, s},
		{"medium before long", []reuseClass{s, m, s, l, s}, m},
		{"alternation", []reuseClass{l, s, l, s, l}, s},
		{"the row of the last class counts", []reuseClass{s, s, s, l}, l},
	} {
		var h reuseHistory
		for _, c := range tc.judged {
			h = h.judge(c)
		}
		last, next := h.last(), h.next()
		if last != tc.judged[len(tc.judged)-1] || next != tc.want {
			t.Errorf("%s: after %v: last %d, next %d, want %d", tc.name, tc.judged, last, next, tc.want)
		}
	}
	if h := reuseHistory(0); h.next() != reuseUnknown || h.last() != reuseUnknown {
		t.Error("an empty history predicts")
	}
}

// TestReuseHistoryCounts compares the packed counters with nine integers that
// are halved together when one of them is full.
func TestReuseHistoryCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h reuseHistory
		var want [3][3]int
		last := -1
		flags := rapid.SampledFrom([]reuseHistory{0, reuseAway, reuseKept, reuseFlags}).Draw(t, "flags")
		h |= flags
		for range rapid.IntRange(0, 20).Draw(t, "runs") {
			c := rapid.IntRange(0, 2).Draw(t, "class")
			for range rapid.IntRange(1, 100).Draw(t, "times") {
				h = h.judge(reuseClass(c))
				if last >= 0 {
					if want[last][c] == countMax {
						for i := range 9 {
							want[i/3][i%3] /= 2
						}
					}
					want[last][c]++
				}
				last = c
			}
		}
		for i := range 9 {
			if got := int(h >> (countBits * i) & countMax); got != want[i/3][i%3] {
				t.Fatalf("history[%d][%d] = %d, want %d", i/3, i%3, got, want[i/3][i%3])
			}
		}
		if h&reuseFlags != flags {
			t.Fatal("counting touched the flags")
		}
	})
}

// TestStarvation compares the rule with one that keeps the window as a slice.
func TestStarvation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.IntRange(1, 200).Draw(t, "window")
		percent := rapid.IntRange(0, 100).Draw(t, "percent")
		s := newStarvation(window, float64(percent)/100)
		var last []bool
		second := false
		for range rapid.IntRange(1, 20).Draw(t, "phases") {
			bound := rapid.Uint64Range(0, 100).Draw(t, "bound")
			for range rapid.IntRange(1, 100).Draw(t, "evictions") {
				t3 := Hash(1, uint64(len(last)), 0)%100 < bound
				n := 0
				if len(last) >= window {
					for _, b := range last[len(last)-window:] {
						if b {
							n++
						}
					}
				}
				want := false
				if t3 && len(last) >= window && n*100 > percent*window {
					want = second
					second = !second
				}
				if got := s.grant(t3); got != want {
					t.Fatalf("eviction %d, %d of the last %d bound for T3: grant %t, want %t", len(last), n, window, got, want)
				}
				last = append(last, t3)
			}
		}
	})
}

// TestStarvationWorked is the rule by hand: window 5, above 80 %.
func TestStarvationWorked(t *testing.T) {
	s := newStarvation(5, 0.8)
	for i, step := range []struct{ t3, grant bool }{
		{true, false}, {true, false}, {true, false}, {true, false}, {true, false}, // the window fills
		{true, false}, {true, true}, {true, false}, {true, true}, // 5 of 5: every second one
		{false, false},                                                            // T2-bound anyway
		{true, false}, {true, false}, {true, false}, {true, false}, {true, false}, // 4 of 5 is not above 80 %
		{true, false}, {true, true}, // 5 of 5 again
	} {
		if got := s.grant(step.t3); got != step.grant {
			t.Errorf("eviction %d: grant %t, want %t", i, got, step.grant)
		}
	}
}
