package tune

import (
	"math"
	"testing"
)

// A constraint on what is written decides against better scores.
func TestWriteConstraint(t *testing.T) {
	constrained := func(limit float64) *Report {
		p := quick(t)
		p.Sizes, p.Objective, p.MaxWriteBytesPerDay = p.Sizes[:1], Objective{Time: 1}, limit
		r, _ := reportOf(t, p, NewLocal(p.ByHash(), 0))
		return r
	}
	writes := func(r *Ranked) (most float64) {
		for i := range r.Train.Traces {
			most = max(most, r.Train.Traces[i].WritesPerDay)
		}
		return most
	}
	free := constrained(0)
	limit := math.Inf(1) // what the least of the ranking write
	for i := range free.Ranking {
		limit = min(limit, 1.000001*writes(&free.Ranking[i]))
	}
	if limit >= writes(free.Winner()) {
		t.Fatalf("%s writes least already: the test tests nothing", free.Winner().Policy)
	}
	held := constrained(limit).Winner()
	if excess := writes(held)/limit - 1; excess > 0 || held.Train.Score.Excess != 0 {
		t.Errorf("%s writes %g a day, %g are allowed; %s writes %g", held.Policy, writes(held), limit, free.Winner().Policy, writes(free.Winner()))
	}
	if held.Train.Score.Mean < free.Winner().Train.Score.Mean*0.998 {
		t.Errorf("%s with a constraint is better than %s without", held.Policy, free.Winner().Policy)
	}
	if none := constrained(1).Winner(); none.Train.Score.Excess <= 0 {
		t.Errorf("%s keeps one byte a day", none.Policy)
	}
	p := quick(t)
	p.MaxWriteBytesPerDay, p.Traces[0].Seconds = 1, 0
	if _, err := Run(t.Context(), p, NewLocal(p.ByHash(), 0), nil); err == nil {
		t.Error("a limit a day without times is accepted")
	}
}

// Regret is what choosing in training costs on the held-out part, among those
// that keep the constraints as well as the choice.
func TestRegret(t *testing.T) {
	ranked := func(train, held, excess float64) Ranked {
		return Ranked{Train: Part{Score: Score{Mean: train, Excess: excess}}, HeldOut: Part{Score: Score{Mean: held}}}
	}
	s := &search{p: &Problem{}}
	for _, c := range []struct {
		ranking []Ranked
		want    float64
	}{
		{[]Ranked{ranked(0.5, 0.9, 0)}, 0},
		{[]Ranked{ranked(0.5, 0.9, 0), ranked(0.6, 0.6, 0), ranked(0.7, 1.2, 0)}, 0.5},
		{[]Ranked{ranked(0.5, 0.9, 0), ranked(0.6, 0.6, 0.1)}, 0},
		{[]Ranked{ranked(0.5, 0.9, 0), ranked(0.6, 1, 0)}, 0},
		{[]Ranked{ranked(0.5, 0, 0), ranked(0.6, 0, 0)}, 0},
	} {
		if got := s.regret(c.ranking); !same(got, c.want) {
			t.Errorf("%+v: regret %g, want %g", c.ranking, got, c.want)
		}
	}
}

// The safe minimum is where a policy stops being about as good as LRU.
func TestSafeMinimum(t *testing.T) {
	minimum := func(placer string) *SafeMinimum {
		p := quick(t)
		p.Objective = Objective{SSDReads: 1}
		p.Space = Space{Placers: []string{placer}, T1: []string{"lru"}, T2: []string{"lru"}}
		p.Sizes = p.Sizes[1:]
		r, _ := reportOf(t, p, NewLocal(p.ByHash(), 0))
		return r.SafeMinimum
	}
	// All that is reused often fits T2 and not T1: bypass reads it again and again.
	if m := minimum("bypass"); m.Frames != nil || m.Fails[0] != [2]int{100, 600} {
		t.Errorf("bypass: %+v", m)
	}
	if m := minimum("tier-order"); m.Fails != nil || m.Frames[0] != [2]int{1, 1} || m.BuildsT1 != 1 || m.BuildsT2 != 1 {
		t.Errorf("tier-order with LRU: %+v", m)
	}
}

// Without host memory what happens to T1's victims is not searched.
func TestNoHostMemory(t *testing.T) {
	p := quick(t)
	p.Sizes = []Size{{Name: "gpu alone", Frames: [][2]int{{200, 0}, {60, 0}}}}
	r, _ := reportOf(t, p, NewLocal(p.ByHash(), 0))
	for i := range r.Ranking {
		spec, err := r.Ranking[i].Spec()
		if err != nil {
			t.Fatal(err)
		}
		if pl := spec.Placer(); pl != "bypass" && pl != "gmt-reuse" || spec.T2() != "fifo" {
			t.Errorf("%s without host memory", spec)
		}
	}
	if len(r.WrongSizes) != 2 || r.SafeMinimum.BuildsT2 != 0 {
		t.Errorf("wrong sizes %+v, safe minimum %+v", r.WrongSizes, r.SafeMinimum)
	}
}
