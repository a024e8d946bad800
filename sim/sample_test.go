package sim

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// A sample is the trace with the accesses of the other pages left out: the same
// pages throughout, in the same order, densely numbered by first appearance.
func TestSampleIsTheTraceOfSomePages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		accs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) tier.Access {
			return tier.MakeAccess(placement.Page(rapid.IntRange(0, 40).Draw(t, "page")), tier.Op(rapid.IntRange(0, 3).Draw(t, "op")))
		}), 1, 300).Draw(t, "accesses")
		tr := traceOf(accs)
		rate, seed := rapid.Float64Range(0.001, 1).Draw(t, "rate"), rapid.Uint64().Draw(t, "seed")
		s := tr.Sample(rate, seed)
		whole := map[placement.Page]placement.Page{} // page of the trace -> page of the sample
		var want []tier.Access
		sampled := func(p placement.Page) bool { return SamplePoint(seed, p) < SampledBelow(rate) }
		if !anyPage(tr, sampled) {
			return // one page stands in: see TestSampleHasAPage
		}
		for _, a := range tr.Accesses {
			if !sampled(a.Page()) {
				continue
			}
			if _, known := whole[a.Page()]; !known {
				whole[a.Page()] = placement.Page(len(whole))
			}
			want = append(want, tier.MakeAccess(whole[a.Page()], a.Op()))
		}
		if d := cmp.Diff(want, s.Trace.Accesses); d != "" {
			t.Fatalf("rate %v (-want +got):\n%s", rate, d)
		}
		if got := traceOf(want).Info; got != s.Trace.Info {
			t.Errorf("info %+v, want %+v", s.Trace.Info, got)
		}
		if share := float64(len(whole)) / float64(tr.Info.Pages); s.Share != share || s.Count(10) != 10/share {
			t.Errorf("share %v, want %v", s.Share, share)
		}
	})
}

func anyPage(t *Trace, f func(placement.Page) bool) bool {
	for p := range t.Info.Pages {
		if f(placement.Page(p)) {
			return true
		}
	}
	return false
}

// traceOf makes a trace of accs with its pages densely numbered.
func traceOf(accs []tier.Access) *Trace {
	t, number := &Trace{Info: TraceInfo{PageSize: 4096}}, map[placement.Page]placement.Page{}
	for _, a := range accs {
		if _, known := number[a.Page()]; !known {
			number[a.Page()] = placement.Page(len(number))
		}
		t.Accesses = append(t.Accesses, tier.MakeAccess(number[a.Page()], a.Op()))
		switch a.Op() {
		case tier.Prefetch:
			t.Info.Prefetches++
		case tier.Write, tier.Overwrite:
			t.Info.Writes++
		}
	}
	t.Info.Pages = len(number)
	t.Info.Accesses = uint64(len(accs)) - t.Info.Prefetches
	return t
}

// Rates nest, come to what was asked for, and depend on the seed.
func TestSampleRates(t *testing.T) {
	const pages, seed = 100_000, 5
	last := 0
	for _, rate := range []float64{0.001, 0.01, 0.1, 0.5, 1} {
		n, other, lower := 0, 0, 0
		for p := range placement.Page(pages) {
			in := SamplePoint(seed, p) < SampledBelow(rate)
			if in {
				n++
			}
			if in && SamplePoint(seed+1, p) < SampledBelow(rate) {
				other++
			}
			if !in && SamplePoint(seed, p) < SampledBelow(rate/2) {
				lower++
			}
		}
		if sd := math.Sqrt(pages * rate * (1 - rate)); math.Abs(float64(n)-pages*rate) > 5*sd || lower > 0 || n <= last {
			t.Errorf("rate %v: %d of %d pages, %d only at a lower rate", rate, n, pages, lower)
		}
		if mean := pages * rate * rate; math.Abs(float64(other)-mean) > 5*math.Sqrt(mean)+1 {
			t.Errorf("rate %v: seeds share %d pages of %v expected", rate, other, mean)
		}
		last = n
	}
}

func TestSampleFrames(t *testing.T) {
	s := &Sample{Share: 0.01}
	for n, want := range map[int]int{0: 0, 1: 1, 49: 1, 150: 2, 1000: 10, 1049: 10, 1051: 11} {
		if got := s.Frames(n); got != want {
			t.Errorf("%d frames become %d, want %d", n, got, want)
		}
	}
}

// However low the rate, a page is there; at rate 1 the trace itself is, with
// its requests; and an empty trace stays one.
func TestSampleHasAPage(t *testing.T) {
	tr := traceOf([]tier.Access{tier.MakeAccess(7, tier.Read), tier.MakeAccess(8, tier.Overwrite), tier.MakeAccess(7, tier.Prefetch)})
	if s := tr.Sample(1e-12, 3); s.Trace.Info.Pages != 1 || len(s.Trace.Accesses) == 0 || s.Share != 0.5 {
		t.Errorf("sample %+v of %+v", s.Trace, tr.Info)
	}
	if s := tr.Sample(1, 3); s.Trace != tr || s.Frames(17) != 17 || s.Weight != 1 {
		t.Errorf("rate 1 gives %+v", s)
	}
	if s := (&Trace{}).Sample(0.5, 3); len(s.Trace.Accesses) != 0 {
		t.Errorf("an empty trace gives %+v", s)
	}
}

// A miniature's misses, scaled up, are the trace's: a smoke test with a wide
// margin; package mrc measures the error.
func TestSampleForeseesMisses(t *testing.T) {
	tr := loadTest(t, "arc_OLTP")
	s := tr.Sample(0.2, 1)
	var whole, mini []Job
	for _, p := range []string{"lru", "clock", "arc", "s3-fifo"} {
		whole = append(whole, Job{Policy: spec(t, p), GPUFrames: 20_000})
		mini = append(mini, Job{Policy: spec(t, p), GPUFrames: s.Frames(20_000)})
	}
	want, err := Replay(t.Context(), tr, whole, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Replay(t.Context(), s.Trace, mini, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range want {
		ratio := s.Count(got[i].T3Fetches) / float64(w.Accesses)
		if math.Abs(ratio-w.MissRatio()) > 0.03 {
			t.Errorf("%s: miss ratio %.3f in miniature, %.3f", w.Policy, ratio, w.MissRatio())
		}
	}
}
