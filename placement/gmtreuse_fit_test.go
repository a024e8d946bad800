package placement

import (
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"
)

// near compares with a tolerance relative to the size of the data.
func near(a, b, scale float64) bool { return math.Abs(a-b) <= 1e-9*(scale+1) }

func TestLeastSquares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 300).Draw(t, "samples")
		slope := rapid.Float64Range(1, 50).Draw(t, "slope")
		offset := rapid.IntRange(0, 100_000).Draw(t, "offset")
		base := rapid.Uint64Range(0, 1<<40).Draw(t, "base")
		seed := rapid.Uint64().Draw(t, "seed")
		var samples []reuseSample
		var x, y []float64
		for i := range uint64(n) {
			rd := base + Hash(seed, i, 0)%100_000
			s := reuseSample{rd: rd, vtd: uint64(slope*float64(rd)) + uint64(offset) + Hash(seed, i, 1)%100_000}
			if i%5 == 4 {
				s.vtd = max(rd, 1) - 1 // impossible: to be left out
				s.rd = s.vtd + 1
			} else {
				x, y = append(x, float64(s.rd)), append(y, float64(s.vtd))
			}
			samples = append(samples, s)
		}
		f := leastSquares(samples)
		if f.Samples != n || f.Used != len(x) {
			t.Fatalf("%d of %d samples used, want %d", f.Used, f.Samples, len(x))
		}
		if stat.Variance(x, nil) == 0 {
			return
		}
		wantOffset, wantSlope := stat.LinearRegression(x, y, nil, false)
		if !near(f.Slope, wantSlope, 1e3) || !near(f.Offset, wantOffset, 1e3*float64(base+200_000)) {
			t.Fatalf("slope %v offset %v, want %v %v", f.Slope, f.Offset, wantSlope, wantOffset)
		}
		if want := stat.RSquared(x, y, nil, wantOffset, wantSlope); math.Abs(f.R2-want) > 1e-6 {
			t.Fatalf("R2 %v, want %v", f.R2, want)
		}
	})
}

// line makes n samples of VTD = slope*RD + offset with RD = 0, step, 2*step...
func line(n int, slope float64, offset, step int) []reuseSample {
	s := make([]reuseSample, n)
	for i := range s {
		s[i] = reuseSample{rd: uint64(i * step), vtd: uint64(slope*float64(i*step)) + uint64(offset)}
	}
	return s
}

func TestFitTrust(t *testing.T) {
	noisy := line(1000, 2, 0, 10)
	for i := range noisy {
		noisy[i].vtd += Hash(1, uint64(i), 0) % 200_000
	}
	impossible := func(n int) []reuseSample { // of 100
		s := line(100, 3, 5, 10)
		for i := range n {
			s[i] = reuseSample{vtd: 0, rd: 7}
		}
		return s
	}
	for name, tc := range map[string]struct {
		samples []reuseSample
		reason  string // "": trusted
	}{
		"line":                      {line(100, 3, 5, 10), ""},
		"fewest samples":            {line(32, 3, 5, 10), ""},
		"one too few":               {line(31, 3, 5, 10), "only 31 of 31 samples"},
		"none":                      {nil, "only 0 of 0 samples"},
		"half of them impossible":   {impossible(50), ""},
		"more than half impossible": {impossible(51), "only 49 of 100 samples"},
		"one distance":              {line(100, 3, 5, 0), "same reuse distance"},
		"slope 1":                   {line(100, 1, 5, 10), ""},
		"slope below 1":             {line(100, 0.5, 1000, 10), "slope 0.5 is below 1"},
		"no relation":               {noisy, "R2 0."},
	} {
		f := fitReuse(tc.samples, 0.75)
		if f.Trusted != (tc.reason == "") || !strings.Contains(f.Reason, tc.reason) || f.Trusted && f.Reason != "" {
			t.Errorf("%s: trusted %t, reason %q, want %q", name, f.Trusted, f.Reason, tc.reason)
		}
		if math.IsNaN(f.Slope + f.Offset + f.R2) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if f := fitReuse(noisy, 0); !f.Trusted {
		t.Errorf("r2=0 still refuses: %s", f.Reason)
	}
	if f := fitReuse(line(100, 3, 5, 10), 0.75); !near(f.Slope, 3, 1) || !near(f.Offset, 5, 100) || !near(f.R2, 1, 1) {
		t.Errorf("%+v, want slope 3, offset 5, R2 1", f)
	}
}

func TestReuseClass(t *testing.T) {
	p := ReuseParams{Slope: 1, Direct: 10240, T1: 100, T1T2: 20_000}
	p.setBounds()
	fitted := p
	fitted.use(ReuseFit{Slope: 4, Offset: 1000, Trusted: true})
	sinking := p // negative offset: the line passes above VTD = RD for small VTD
	sinking.use(ReuseFit{Slope: 1.2, Offset: -10_000, Trusted: true})
	for _, tc := range []struct {
		name string
		p    ReuseParams
		vtd  uint64
		want reuseClass
	}{
		{"direct", p, 99, reuseShort},
		{"direct", p, 100, reuseMedium},
		{"no fit", p, 19_999, reuseMedium},
		{"no fit", p, 20_000, reuseLong},
		{"below direct the fit is not used", fitted, 10_239, reuseMedium},
		{"(80999-1000)/4 < 20000", fitted, 80_999, reuseMedium},
		{"(81000-1000)/4 = 20000", fitted, 81_000, reuseLong},
		{"(15000+10000)/1.2 > 20000, but no more than 15000", sinking, 15_000, reuseMedium},
		{"far", fitted, math.MaxUint64, reuseLong},
	} {
		if got := tc.p.class(tc.vtd); got != tc.want {
			t.Errorf("%s: vtd %d is class %d, want %d", tc.name, tc.vtd, got, tc.want)
		}
	}
	fitted.use(ReuseFit{Slope: 9, Offset: 9, Trusted: false, Reason: "test"})
	if fitted.Slope != 4 || fitted.Offset != 1000 || fitted.Medium != 81_000 || fitted.Version != 1 {
		t.Errorf("a fit that is not trusted replaced one that is: %+v", fitted)
	}
}

// TestReuseBounds: the bounds in virtual time class as the paper's formula
// does, held to at most the virtual-time distance.
func TestReuseBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := ReuseParams{T1: rapid.Uint64Range(1, 1<<32).Draw(t, "t1")}
		p.T1T2 = p.T1 + rapid.Uint64Range(0, 1<<32).Draw(t, "t2")
		p.use(ReuseFit{
			Slope:   float64(rapid.IntRange(1, 1000).Draw(t, "slope")),
			Offset:  float64(rapid.IntRange(-1<<40, 1<<40).Draw(t, "quarters")) / 4,
			Trusted: true,
		})
		vtd := rapid.Uint64Range(0, 1<<42).Draw(t, "vtd")
		for _, edge := range []uint64{vtd, p.Short - 1, p.Short, p.Medium - 1, p.Medium} {
			rrd := min((float64(edge)-p.Offset)/p.Slope, float64(edge))
			want := reuseLong
			if rrd < float64(p.T1) {
				want = reuseShort
			} else if rrd < float64(p.T1T2) {
				want = reuseMedium
			}
			if got := p.class(edge); got != want {
				t.Fatalf("%+v: vtd %d, distance %v: class %d, want %d", p, edge, rrd, got, want)
			}
		}
	})
	p := ReuseParams{T1: 1 << 40, T1T2: 1 << 40}
	p.use(ReuseFit{Slope: 1e300, Offset: 1, Trusted: true})
	if p.Short != 1<<63 || p.class(math.MaxUint64) != reuseLong {
		t.Errorf("a bound past the range of virtual time: %+v", p)
	}
}
