package placement

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// absolute names, for each integer parameter, whether it counts accesses,
// pages or evictions: those must shrink with a miniature, the others must not.
// A new parameter fails the test until it is listed.
var absolute = map[string]bool{
	"adaptive.fit-every": true, "adaptive.k": true, "adaptive.vtd-direct": true, "adaptive.window": true,
	"adaptive.shadow-frames": false, // the most that shadows may cost, whatever the memory's size
	"gmt-reuse.fit-every":    true, "gmt-reuse.k": true, "gmt-reuse.vtd-direct": true, "gmt-reuse.window": true,
	"s3-fifo.cap": false, "s3-fifo.promote": false, // uses of one page
	"w-tinylfu.reset": false, // accesses a frame
}

func TestScaledKnowsEveryParameter(t *testing.T) {
	for _, d := range placers {
		s := defaultSpec(&d)
		// A sixteenth of one in k pages and fits as often is the same fit-every.
		small := s.Scaled(1.0 / 64)
		for i, p := range d.params {
			checkScales(t, d.name, p, s.args[i].text != small.args[i].text)
		}
		if s.t1.String() != small.t1.String() || s.t2.String() != small.t2.String() {
			t.Errorf("%s: scaling changes evictors: %s", d.name, small)
		}
	}
	for _, d := range evictors {
		for _, p := range d.params {
			checkScales(t, d.name, p, false)
		}
	}
}

func checkScales(t *testing.T, policy string, p param, scaled bool) {
	t.Helper()
	want, listed := absolute[policy+"."+p.name]
	switch {
	case p.integer && !listed:
		t.Errorf("%s.%s is an integer: say in this test whether it counts accesses or pages, and scale it if so", policy, p.name)
	case scaled != want:
		t.Errorf("%s.%s: scaled %t, want %t", policy, p.name, scaled, want)
	}
}

func TestScaledGMTReuse(t *testing.T) {
	for _, c := range []struct {
		share float64
		from  string
		want  string
	}{
		{1, "k=16,window=4096", "fit-every=8192,k=16,vtd-direct=10240,window=4096"},
		{0.25, "k=16,window=4096", "fit-every=8192,k=4,vtd-direct=2560,window=1024"},
		// k is 1 at least: all pages, an eighth of the samples, fits from an eighth.
		{1.0 / 128, "k=16,window=4096", "fit-every=1024,k=1,vtd-direct=80,window=32"},
		{1.0 / 128, "fit-every=64,k=1,vtd-direct=0,window=1", "fit-every=64,k=1,vtd-direct=0,window=1"},
		{0, "k=16", "fit-every=64,k=1,vtd-direct=0,window=1"},
	} {
		s, err := Parse("gmt-reuse{" + c.from + "}")
		if err != nil {
			t.Fatal(err)
		}
		before := s.String()
		got := s.Scaled(c.share)
		for part := range strings.SplitSeq(c.want, ",") {
			if !strings.Contains(got.String(), ","+part) {
				t.Errorf("%s at %g: %s, want %s", c.from, c.share, got, part)
			}
		}
		if s.String() != before {
			t.Errorf("scaling changed the original: %s", s)
		}
	}
}

// Whatever the policy and the share, a scaled policy is one that Parse accepts.
func TestScaledStaysValid(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawSpec(rt)
		got := s.Scaled(rapid.Float64Range(0, 1.5).Draw(rt, "share"))
		back, err := Parse(got.String())
		if err != nil || back.String() != got.String() {
			rt.Fatalf("%s scaled is %s: %v", s, got, err)
		}
	})
}

// drawSpec draws a policy by changing a default one through With.
func drawSpec(rt *rapid.T) Spec {
	s := defaultSpec(&placers[rapid.IntRange(0, len(placers)-1).Draw(rt, "placer")])
	for _, key := range []string{KeyT1, KeyT2} {
		got, err := s.With(key, rapid.SampledFrom(evictorNames()).Draw(rt, key))
		if err != nil {
			rt.Fatal(err)
		}
		s = got
	}
	for _, p := range s.Settings() {
		value := ""
		switch {
		case p.Words != nil:
			value = rapid.SampledFrom(p.Words).Draw(rt, p.Key)
		case p.Integer:
			value = decimal(float64(rapid.Int64Range(int64(p.Lo), int64(p.Hi)).Draw(rt, p.Key)))
		default:
			value = decimal(rapid.Float64Range(p.Lo, p.Hi).Draw(rt, p.Key))
		}
		got, err := s.With(p.Key, value)
		if err != nil {
			continue // an end of an open range, or values that do not fit together
		}
		for _, now := range got.Settings() {
			if now.Key == p.Key && now.Value != value && p.Words != nil {
				rt.Fatalf("%s=%s became %s", p.Key, value, now.Value)
			}
		}
		s = got
	}
	return s
}

func TestWith(t *testing.T) {
	s, err := Parse("gmt-reuse{t1=2q(kin=0.5),t2=fifo,window=7}")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ key, value, has, hasNot string }{
		{"t1.kin", "0.125", "t1=2q(kin=0.125,kout=0.5)", "kin=0.5"},
		{"t1", "lru", "t1=lru,t2=fifo", "2q"},
		{"t2", "2q(kout=3)", "t2=2q(kin=0.25,kout=3)", "t2=fifo"},
		{"window", "9", "window=9", "window=7"},
		{"placer", "bypass", "bypass{t1=2q(kin=0.5,kout=0.5),t2=fifo", "window"},
		{"t2copy", "keep", "t2copy=keep", "t2copy=drop"},
	} {
		got, err := s.With(c.key, c.value)
		if err != nil || !strings.Contains(got.String(), c.has) || strings.Contains(got.String(), c.hasNot) {
			t.Errorf("%s=%s: %s, %v", c.key, c.value, got, err)
		}
	}
	for _, c := range [][2]string{{"t1.kin", "2"}, {"t1.nothing", "1"}, {"t2.kin", "0.5"}, {"t3", "lru"}, {"t3.kin", "1"}, {"placer", "lru"}, {"t1", "nothing"}, {"window", ""}} {
		if got, err := s.With(c[0], c[1]); err == nil {
			t.Errorf("%s=%s is accepted: %s", c[0], c[1], got)
		}
	}
	if _, err := (Spec{}).With("t1", "lru"); err == nil || len((Spec{}).Settings()) != 0 {
		t.Error("the empty policy has settings")
	}
}
