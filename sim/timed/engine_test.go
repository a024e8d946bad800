package timed

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestServerLosesNothing: shared time is exact over many requests.
func TestServerLosesNothing(t *testing.T) {
	var s server
	c := costOf(0.0013) // 1.3 ps
	const n = 1_000_000
	var end int64
	for range n {
		end = s.take(0, c, c)
	}
	if want := uint64(c) * n >> costBits; s.used != want || s.busy != int64(want) || end != (int64(want)+psPerNS-1)/psPerNS {
		t.Errorf("worked %d ps until %d ps, %d ns; want %d ps", s.used, s.busy, end, want)
	}
	if end = s.take(5000, c, c); end != 5001 {
		t.Errorf("an idle server ends at %d ns, want 5001", end)
	}
}

// TestEventsComeInOrder compares heap and lane with sorting.
func TestEventsComeInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h heap4
	var l lane
	var want []event
	at := int64(0)
	for i := range 10_000 {
		e := event{int64(rng.IntN(500)), uint64(i)}
		want = append(want, e)
		h.push(e)
		at += int64(rng.IntN(3))
		l.push(event{at, uint64(i)})
		if rng.IntN(3) == 0 && !l.empty() {
			l.pop()
		}
	}
	slices.SortFunc(want, func(a, b event) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	for i, w := range want {
		if got := h.pop(); got != w {
			t.Fatalf("event %d is %+v, want %+v", i, got, w)
		}
	}
	last := event{-1, 0}
	for ; !l.empty(); l.pop() {
		if got := l.first(); got.at < last.at || got.key != last.key+1 && last.at >= 0 {
			t.Fatalf("%+v after %+v", got, last)
		}
		last = l.first()
	}
	if last.key != 9_999 {
		t.Errorf("the last event is %+v", last)
	}
}

// TestTiesKeepTheirOrder: what happens at the same time happens in the order in
// which it was made.
func TestTiesKeepTheirOrder(t *testing.T) {
	var h heap4
	for i := range 1000 {
		h.push(event{7, uint64(i)})
	}
	for i := range 1000 {
		if got := h.pop(); got.key != uint64(i) {
			t.Fatalf("event %d of those at the same time is number %d", i, got.key)
		}
	}
}

func TestHistogram(t *testing.T) {
	var h histogram
	for ns := range int64(100_000) {
		if up := upperOf(bucketOf(ns)); up < ns || float64(up) > float64(ns)*1.0625+1 || bucketOf(up) != bucketOf(ns) {
			t.Fatalf("%d ns lies in a bucket up to %d", ns, up)
		}
		h.add(ns)
	}
	l := h.latency("all")
	if l.Count != 100_000 || l.MeanNS != 49_999.5 || l.MaxNS != 99_999 || l.P50NS < 49_999 || l.P50NS > 53_200 || l.P99NS < 98_999 || l.P99NS > 99_999 {
		t.Errorf("%+v", l)
	}
	var sum uint64
	for i, b := range h.octaves() {
		if want := uint64(1) << i; i < 16 && (b.UpToNS != int64(2*want-1) || b.Count != want && i > 0) {
			t.Errorf("octave %d: %+v", i, b)
		}
		sum += b.Count
	}
	if sum != h.n {
		t.Errorf("the octaves hold %d of %d", sum, h.n)
	}
	for _, ns := range []int64{1<<62 + 12345, 1<<63 - 1} {
		if up := upperOf(bucketOf(ns)); up < ns {
			t.Errorf("%d ns lies in a bucket up to %d", ns, up)
		}
	}
}

// TestLatencies: a distribution has the mean that was asked for, and its tail.
func TestLatencies(t *testing.T) {
	table := latencies(50_000, 0.3)
	sum := int64(0)
	for _, ns := range table {
		sum += ns
	}
	if mean := float64(sum) / float64(len(table)); mean < 50_000 || mean > 50_001 || !slices.IsSorted(table) {
		t.Errorf("a mean of %v ns", mean)
	}
	if p99 := table[len(table)*99/100]; p99 < 94_000 || p99 > 98_000 { // 50 us * exp(0.3*2.326 - 0.045)
		t.Errorf("a 99th percentile of %d ns", p99)
	}
	if got := latencies(100.5, 0); !slices.Equal(got, []int64{101}) {
		t.Errorf("a constant of %v", got)
	}
}
