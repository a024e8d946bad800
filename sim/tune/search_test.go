package tune

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
)

func reportOf(t testing.TB, p *Problem, ev Evaluator) (*Report, []byte) {
	t.Helper()
	r, err := Run(t.Context(), p, ev, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return r, text
}

// stopper is an Evaluator that hands outcomes on out of order and ends the
// context after so many.
type stopper struct {
	inner  Evaluator
	left   int
	cancel func()
}

func (s *stopper) Evaluate(ctx context.Context, tasks []Task, done func(i int, o Outcome)) error {
	for i := len(tasks) - 1; i >= 0; i-- {
		if s.left == 0 {
			s.cancel()
		}
		s.left--
		if err := s.inner.Evaluate(ctx, tasks[i:i+1], func(_ int, o Outcome) { done(i, o) }); err != nil {
			return err
		}
	}
	return nil
}

// The report is a function of the problem alone: not of the number of workers,
// not of the order in which outcomes arrive, not of how often the run was cut
// short and resumed.
func TestRunIsDeterministic(t *testing.T) {
	p := quick(t)
	_, want := reportOf(t, p, NewLocal(p.ByHash(), 1))
	for _, workers := range []int{2, 7} {
		p := quick(t)
		if _, got := reportOf(t, p, NewLocal(p.ByHash(), workers)); !bytes.Equal(got, want) {
			t.Errorf("%d workers change the report", workers)
		}
	}
	path := filepath.Join(t.TempDir(), "journal")
	for stop := 40; ; stop += 90 { // each time it gets further, since what it knows comes for nothing
		p := quick(t)
		ctx, cancel := context.WithCancel(t.Context())
		j, err := OpenJournal(path, p.Hashes(), &stopper{NewLocal(p.ByHash(), 1), stop, cancel})
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(ctx, p, j, nil)
		cancel()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if err == nil {
			if text, _ := json.Marshal(r); !bytes.Equal(text, want) {
				t.Errorf("resuming changes the report:\n%s\nwant\n%s", text, want)
			}
			break
		}
		if !errors.Is(err, context.Canceled) || r == nil || !r.Interrupted || r.Regret != nil {
			t.Fatalf("cut short: %+v, %v", r, err)
		}
		cutLastLine(t, path)
	}
}

// cutLastLine cuts the journal in the middle of its last line, as a crash may.
func cutLastLine(t *testing.T, path string) {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, st.Size()-9); err != nil {
		t.Fatal(err)
	}
}

// Another seed is another search.
func TestSeedMatters(t *testing.T) {
	p, q := quick(t), quick(t)
	q.Seed++
	a, b := p.candidatesFilled(t), q.candidatesFilled(t)
	if slices.EqualFunc(a, b, func(x, y Candidate) bool { return x.key() == y.key() }) {
		t.Error("two seeds draw the same candidates")
	}
}

func (p *Problem) candidatesFilled(t *testing.T) []Candidate {
	t.Helper()
	if err := p.fill(); err != nil {
		t.Fatal(err)
	}
	return p.candidates(t.Context(), p.Candidates)
}

// What was known when the run was cut short is ranked, the largest miniatures
// first.
func TestInterruptedReport(t *testing.T) {
	for _, stop := range []int{0, 3, 60, 120} {
		p := quick(t)
		ctx, cancel := context.WithCancel(t.Context())
		r, err := Run(ctx, p, &stopper{NewLocal(p.ByHash(), 1), stop, cancel}, nil)
		cancel()
		if !errors.Is(err, context.Canceled) || r == nil || !r.Interrupted {
			t.Fatalf("after %d: %+v, %v", stop, r, err)
		}
		if (stop >= 60) != (len(r.Ranking) > 0) {
			t.Errorf("after %d evaluations %d candidates are ranked", stop, len(r.Ranking))
		}
		for i := 1; i < len(r.Ranking); i++ {
			if r.Ranking[i].Rung > r.Ranking[i-1].Rung {
				t.Errorf("after %d: rung %d comes behind rung %d", stop, r.Ranking[i].Rung, r.Ranking[i-1].Rung)
			}
		}
	}
}

// The report is right about itself: scores, spreads, regret, sensitivity and
// sizes agree with evaluations made one by one.
func TestReportAgreesWithReplays(t *testing.T) {
	p := quick(t)
	r, _ := reportOf(t, p, NewLocal(p.ByHash(), 0))
	best := r.Winner()
	for i := range p.Traces {
		whole := func(policy string, size int, seed uint64) [2]Metrics {
			f := p.Sizes[size].Frames[i]
			o, err := Evaluate(t.Context(), p.Traces[i].Trace, Task{Cuts: []int{r.Traces[i].Train, r.Traces[i].Train + r.Traces[i].HeldOut},
				Rate: 1, Policy: policy, GPUFrames: f[0], HostFrames: f[1], Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			return [2]Metrics{metrics(p.Model, o.Windows[0], &o, 4096), metrics(p.Model, o.Windows[1], &o, 4096)}
		}
		ref := whole(parse(t, "tier-order").String(), 0, 1)
		var train, held float64
		for run := range best.Runs {
			m := whole(best.Policy, best.Size, p.Seed+uint64(run))
			train += p.Objective.score(m[0], ref[0]) / float64(best.Runs)
			held += p.Objective.score(m[1], ref[1]) / float64(best.Runs)
		}
		if !same(train, best.Train.Traces[i].Score) || !same(held, best.HeldOut.Traces[i].Score) {
			t.Errorf("trace %d: scores %g and %g, want %g and %g", i, best.Train.Traces[i].Score, best.HeldOut.Traces[i].Score, train, held)
		}
	}
	checkRanking(t, p, r)
}

func same(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func checkRanking(t *testing.T, p *Problem, r *Report) {
	t.Helper()
	least := math.Inf(1)
	for i := range r.Ranking {
		x := &r.Ranking[i]
		least = min(least, x.HeldOut.Score.Mean)
		for _, part := range []*Part{&x.Train, &x.HeldOut} {
			mean, worst := 0.0, 0.0
			for _, tp := range part.Traces {
				mean += tp.Score / float64(len(part.Traces))
				worst = max(worst, tp.Score)
				if tp.SSDReads < tp.BoundSSDReads-1e-9 {
					t.Errorf("%s: %g SSD reads beat Belady's %g", x.Policy, tp.SSDReads, tp.BoundSSDReads)
				}
			}
			if !same(mean, part.Score.Mean) || part.Bound > part.Score.Mean || part.Spread.Min > part.Score.Mean+1e-12 || part.Spread.Max < part.Score.Mean-1e-12 {
				t.Errorf("%s: mean %g over the traces: %+v", x.Policy, mean, part)
			}
			if x.Runs == 1 && !same(worst, part.Score.Worst) {
				t.Errorf("%s: worst %g: %+v", x.Policy, worst, part)
			}
		}
		if i > 0 && r.Ranking[i-1].Train.Score.compare(x.Train.Score, &p.Objective) > 0 {
			t.Errorf("%s is ranked behind a worse one", x.Policy)
		}
	}
	if want := r.Winner().HeldOut.Score.Mean/least - 1; !same(want, *r.Regret) {
		t.Errorf("regret %g, want %g", *r.Regret, want)
	}
	for _, s := range r.Sensitivity {
		for _, pt := range s.Points {
			if pt.Change < -0.0015 && r.Winner().Runs == 1 {
				t.Errorf("%s=%s would be %.3g better: the winner is no local optimum", s.Key, pt.Value, -pt.Change)
			}
		}
	}
	if len(r.WrongSizes) != 7 || r.SafeMinimum == nil || len(r.Sensitivity) < 5 {
		t.Errorf("%d wrong sizes, %d sensitivities, safe minimum %+v", len(r.WrongSizes), len(r.Sensitivity), r.SafeMinimum)
	}
}

func TestRunRefuses(t *testing.T) {
	for name, change := range map[string]func(*Problem){
		"no traces": func(p *Problem) { p.Traces = nil }, "no sizes": func(p *Problem) { p.Sizes = nil },
		"no goal": func(p *Problem) { p.Objective = Objective{} }, "negative goal": func(p *Problem) { p.Objective.Time = -1 },
		"time without model": func(p *Problem) { p.Model = nil }, "a short size": func(p *Problem) { p.Sizes[1].Frames = p.Sizes[1].Frames[:1] },
		"no frames": func(p *Problem) { p.Sizes[0].Frames[0][0] = 0 }, "nothing held out": func(p *Problem) { p.Traces[0].Train = 20_000 },
		"an unknown placer": func(p *Problem) { p.Space.Placers = []string{"best"} }, "belady": func(p *Problem) { p.Space.T1 = []string{"belady"} },
		"one access": func(p *Problem) { p.Traces[0].Trace = tiny(1, 3, 1) },
	} {
		p := quick(t)
		change(p)
		ev := NewLocal(map[string]*sim.Trace{}, 1)
		if r, err := Run(t.Context(), p, ev, nil); err == nil || r != nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// bent is an Evaluator that spoils outcomes on their way.
type bent struct {
	inner Evaluator
	spoil func(*Outcome)
}

func (b *bent) Evaluate(ctx context.Context, tasks []Task, done func(i int, o Outcome)) error {
	return b.inner.Evaluate(ctx, tasks, func(i int, o Outcome) {
		b.spoil(&o)
		done(i, o)
	})
}

// Outcomes that cannot be ones of their tasks end the run with an error.
func TestRunRefusesOutcomes(t *testing.T) {
	for name, spoil := range map[string]func(*Outcome){
		"no windows":       func(o *Outcome) { o.Windows = nil },
		"a window less":    func(o *Outcome) { o.Windows = o.Windows[:len(o.Windows)-1] },
		"one more":         func(o *Outcome) { o.Windows = append(o.Windows, Counts{}) },
		"no share":         func(o *Outcome) { o.Share = 0 },
		"more than all":    func(o *Outcome) { o.Share = 1.5 },
		"no weight":        func(o *Outcome) { o.Weight = 0 },
		"weight no number": func(o *Outcome) { o.Weight = math.NaN() },
		"weight too large": func(o *Outcome) { o.Weight = math.Inf(1) },
	} {
		p := quick(t)
		r, err := Run(t.Context(), p, &bent{NewLocal(p.ByHash(), 1), spoil}, nil)
		if err == nil || !strings.Contains(err.Error(), "the evaluator's outcome of") || r != nil && !r.Interrupted {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The largest sizes there are can be tuned for: twice as much is then the same.
func TestRunLargestSizes(t *testing.T) {
	p := quick(t)
	p.Traces, p.Candidates = p.Traces[1:], 4
	p.Space = Space{Placers: []string{"bypass"}, T1: []string{"lru"}, T2: []string{"fifo"}}
	for _, n := range []int{placement.MaxPages, placement.MaxPages/2 + 1} {
		p.Sizes = []Size{{Name: "all", Frames: [][2]int{{n, n}}}}
		r, err := Run(t.Context(), p, NewLocal(p.ByHash(), 1), nil)
		if err != nil {
			t.Fatal(n, err)
		}
		for _, w := range r.WrongSizes {
			if f := w.Frames[0]; w.Refuse != "" || f[0] > placement.MaxPages || f[1] > placement.MaxPages {
				t.Errorf("%d frames: %+v", n, w)
			}
		}
	}
}

// A search of very many candidates ends with ctx while it draws them.
func TestRunStopsWhileDrawing(t *testing.T) {
	p := quick(t)
	p.Candidates = 50_000_000 // hours
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r, err := Run(ctx, p, NewLocal(p.ByHash(), 1), nil)
	if !errors.Is(err, context.DeadlineExceeded) || r == nil || !r.Interrupted {
		t.Errorf("%v, %+v", err, r)
	}
}
