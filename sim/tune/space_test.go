package tune

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tritier/tritier/placement"
)

func TestSteps(t *testing.T) {
	for _, c := range []struct {
		d    placement.Domain
		want string
	}{
		{placement.Domain{Words: []string{"drop", "keep"}}, "drop keep"},
		{placement.Domain{Default: "0.8", Hi: 1}, "0 0.25 0.5 0.75 0.8 1"},
		{placement.Domain{Default: "0.25", Hi: 1, Open: true}, "0.01562 0.0625 0.125 0.25 0.5"},
		{placement.Domain{Default: "0.8", Hi: 1, Open: true}, "0.05 0.2 0.4 0.8 0.9"},
		{placement.Domain{Default: "2", Hi: 1000, Open: true}, "0.125 0.5 1 2 4 8 32"},
		{placement.Domain{Default: "3", Integer: true, Lo: 2, Hi: 63}, "2 3 6 12 48"},
		{placement.Domain{Default: "10240", Integer: true, Lo: 0, Hi: 1 << 40}, "640 2560 5120 10240 20480 40960 163840"},
	} {
		if got := strings.Join(steps(c.d), " "); got != c.want {
			t.Errorf("%+v: %s, want %s", c.d, got, c.want)
		}
	}
}

// Every step of every parameter is a value that the grammar takes.
func TestStepsAreValid(t *testing.T) {
	for _, i := range slices.Concat(placement.Placers(), placement.Evictors()) {
		spec := parse(t, i.Name)
		for _, set := range spec.Settings() {
			list := steps(set.Domain)
			if !slices.Contains(list, set.Default) {
				t.Errorf("%s %s: the default %s is not in %v", i.Name, set.Key, set.Default, list)
			}
			for _, v := range list {
				if _, err := spec.With(set.Key, v); err != nil && !strings.Contains(err.Error(), "must be below") {
					t.Errorf("%s: %v", i.Name, err)
				}
			}
		}
	}
}

// Draws are different, can be built, have every placer as it comes at every
// size, and each placer, evictor and size about as often as every other.
func TestCandidatesAreStratified(t *testing.T) {
	p := quick(t)
	p.Space, p.Candidates = Space{}, 300
	list := p.candidatesFilled(t)
	if len(list) != 300 {
		t.Fatalf("%d candidates", len(list))
	}
	count, seen := map[string]int{}, map[string]bool{}
	for _, c := range list {
		if seen[c.key()] {
			t.Errorf("%s comes twice", c.key())
		}
		seen[c.key()] = true
		count["placer "+c.Policy.Placer()]++
		count["t1 "+evictorName(c.Policy, placement.KeyT1)]++
		count[fmt.Sprint("size ", c.Size)]++
		if c.Policy.NeedsFuture() {
			t.Errorf("%s cannot be run", c.Policy)
		}
	}
	for what, n := range count {
		kind, _, _ := strings.Cut(what, " ")
		kinds := 0
		for other := range count {
			if strings.HasPrefix(other, kind+" ") {
				kinds++
			}
		}
		if even := 300 / kinds; n < even/2 || n > 2*even {
			t.Errorf("%s comes %d times, of %d kinds", what, n, kinds)
		}
	}
	for size := range p.Sizes {
		for _, i := range placement.Placers() {
			c, ok := p.simplest(Candidate{parse(t, i.Name+"{}"), size})
			if !ok || !seen[c.key()] {
				t.Errorf("%s is not tried as it comes, at size %d", i.Name, size)
			}
		}
	}
}

// A space as small as that of the GPU engine is searched, not spun in.
func TestSmallSpace(t *testing.T) {
	p := quick(t)
	p.Space = Space{Placers: []string{"bypass", "tier-order"}, T1: []string{"clock", "fifo"}, T2: []string{"fifo"},
		Accepts: func(s placement.Spec) error {
			if strings.Contains(s.String(), "keep") {
				return errors.New("no copies")
			}
			return nil
		}}
	p.Sizes = p.Sizes[:1]
	if list := p.candidatesFilled(t); len(list) != 4 {
		t.Errorf("%d candidates, want 4: %v", len(list), list)
	}
	r, _ := reportOf(t, p, NewLocal(p.ByHash(), 0))
	for i := range r.Ranking {
		if s := r.Ranking[i].Policy; strings.Contains(s, "keep") || strings.Contains(s, "lru") {
			t.Errorf("%s is outside of the space", s)
		}
	}
}

func TestSpaceRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		s    Space
		want string
	}{
		"placer":     {Space{Placers: []string{"lru"}}, `no placer "lru" to search: there are`},
		"evictor":    {Space{T2: []string{"lrv"}}, `no evictor for T2 "lrv"`},
		"future":     {Space{T1: []string{"belady"}}, `no evictor for T1 "belady"`},
		"no dot":     {Space{Values: map[string][]string{"window": {"1"}}}, "want POLICY.PARAMETER"},
		"no values":  {Space{Values: map[string][]string{"gmt-reuse.window": nil}}, "at least one value"},
		"no policy":  {Space{Values: map[string][]string{"gmt.window": {"1"}}}, "gmt"},
		"no such":    {Space{Values: map[string][]string{"gmt-reuse.windows": {"1"}}}, "windows"},
		"range":      {Space{Values: map[string][]string{"s3-fifo.small": {"0.1", "2"}}}, "small"},
		"everything": {Space{Accepts: func(placement.Spec) error { return errors.New("no GPU likes it") }}, "no policy is left to search: no GPU likes it"},
	} {
		if err := c.s.Fill(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Values that the user names, and the default, are the only ones.
func TestSpaceValues(t *testing.T) {
	p := quick(t)
	p.Space = Space{Placers: []string{"gmt-reuse"}, T1: []string{"s3-fifo"}, T2: []string{"fifo"},
		Values: map[string][]string{"gmt-reuse.window": {"77", "99"}, "s3-fifo.small": {"0.3"}}}
	for _, c := range p.candidatesFilled(t)[2:] {
		for _, set := range c.Policy.Settings() {
			if set.Key == "window" && !slices.Contains([]string{"77", "99", set.Default}, set.Value) ||
				set.Key == "t1.small" && !slices.Contains([]string{"0.3", set.Default}, set.Value) {
				t.Errorf("%s=%s", set.Key, set.Value)
			}
		}
	}
	for _, n := range p.neighbours(Candidate{parse(t, "gmt-reuse{t1=s3-fifo}"), 0}) {
		if n.key == "window" && n.value != "77" && n.value != "99" {
			t.Errorf("window=%s is tried", n.value)
		}
	}
}

// Neighbours differ in one thing, which is what they say.
func TestNeighbours(t *testing.T) {
	p := quick(t)
	p.Space = Space{}
	if err := p.fill(); err != nil {
		t.Fatal(err)
	}
	keys := map[string]int{}
	c := Candidate{parse(t, "gmt-reuse{t1=s3-fifo,window=1000}"), 0}
	for _, n := range p.neighbours(c) {
		keys[n.key]++
		if n.Candidate.key() == c.key() {
			t.Errorf("%s=%s changes nothing", n.key, n.value)
		}
		if n.key == keySize {
			continue
		}
		want, err := c.Policy.With(n.key, n.value)
		if simple, _ := p.simplest(Candidate{want, 0}); err != nil || simple.key() != n.Candidate.key() {
			t.Errorf("%s=%s is %s", n.key, n.value, n.Policy)
		}
	}
	for _, k := range []string{"placer", "t1", "t2", "t2copy", "window", "t1.small", "t1.cap", "size", "first"} {
		if keys[k] == 0 {
			t.Errorf("%s is not changed", k)
		}
	}
	if keys["t1"] != 10 || keys["size"] != 1 || keys["t2copy"] != 1 {
		t.Errorf("%v", keys)
	}
}

func TestLadder(t *testing.T) {
	p := quick(t)
	for _, c := range []struct {
		pages, frames int
		want          string
	}{
		{1, 1, "[[0.0625 0.2] [0.25 0.25] [1 1]]"},
		{100_000, 1, "[[1 1]]"},
		{50, 8, "[[0.08 0.26666666666666666] [0.25 0.26666666666666666] [1 1]]"},
	} {
		p.MinPages, p.MinFrames = c.pages, c.frames
		if err := p.fill(); err != nil {
			t.Fatal(err)
		}
		got := p.ladder()
		if fmt.Sprint(got) != c.want {
			t.Errorf("%d pages, %d frames: %v, want %s", c.pages, c.frames, got, c.want)
		}
		for _, r := range got {
			for i, rate := range r {
				gpu, _ := p.Sizes[1].frames(i)
				if float64(p.Traces[i].pages)*rate < float64(min(c.pages, p.Traces[i].pages))-1e-6 || rate < 1 && float64(gpu)*rate < float64(c.frames)-1e-6 {
					t.Errorf("rate %g of trace %d is below the floor", rate, i)
				}
			}
		}
	}
}

func TestScores(t *testing.T) {
	o := Objective{Time: 2, SSDReads: 1, SSDWrites: 1}
	if got := o.score(Metrics{Seconds: 1, SSDReads: 30, SSDWrites: 0}, Metrics{Seconds: 2, SSDReads: 20, SSDWrites: 4}); got != (2*0.5+1.5+0)/4 {
		t.Errorf("score %g", got)
	}
	if got := (&Objective{SSDWrites: 1}).score(Metrics{}, Metrics{}); got != 1 {
		t.Errorf("nothing to write on both sides scores %g", got)
	}
	a, b := Score{Mean: 1, Worst: 3}, Score{Mean: 2, Worst: 2}
	if a.compare(b, &o) >= 0 || a.compare(b, &Objective{Time: 1, Worst: true}) <= 0 {
		t.Error("mean and worst are confused")
	}
	if (Score{Mean: 1, Excess: 0.1}).compare(b, &o) <= 0 {
		t.Error("a broken constraint does not count")
	}
	if (Score{Mean: 1, traffic: 2}).compare(Score{Mean: 1.00001, traffic: 1}, &o) <= 0 || (Score{Mean: 1, traffic: 2}).compare(Score{Mean: 1.01, traffic: 1}, &o) >= 0 {
		t.Error("SSD traffic decides between equal scores, and only there")
	}
	if grade(0, 1000) >= grade(1e-9, 1000) || math.IsNaN(grade(0, 1000)) {
		t.Error("0 is not the best score")
	}
}

func TestSpaceBoundsValues(t *testing.T) {
	values := make([]string, MaxValues+1)
	for i := range values {
		values[i] = strconv.Itoa(i + 1)
	}
	most := Space{Values: map[string][]string{"gmt-reuse.window": values[:MaxValues]}}
	if err := most.Fill(); err != nil {
		t.Error(err)
	}
	over := Space{Values: map[string][]string{"gmt-reuse.window": values}}
	if err := over.Fill(); err == nil || !strings.Contains(err.Error(), "65 are too many, at most 64") {
		t.Errorf("%d values: %v", len(values), err)
	}
}
