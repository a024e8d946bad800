package workload

import (
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"github.com/tritier/tritier/sim/trace"
)

// chiSquare fails the test when counts deviate from probabilities more than
// once in a million by chance. Neighbours are pooled into cells that expect at
// least 10.
func chiSquare(t *testing.T, counts []uint64, probability []float64, n float64) {
	t.Helper()
	sum, cells, want, got := 0.0, 0, 0.0, 0.0
	for i, p := range probability {
		want += p * n
		got += float64(counts[i])
		if want >= 10 {
			sum += (got - want) * (got - want) / want
			want, got = 0, 0
			cells++
		}
	}
	if got > want+6*math.Sqrt(want)+3 {
		t.Errorf("the tail has %v, want about %v", got, want)
	}
	if cells < 2 {
		return
	}
	if limit := (distuv.ChiSquared{K: float64(cells - 1)}).Quantile(1 - 1e-6); sum > limit {
		t.Errorf("chi-square %.1f over %d cells exceeds %.1f", sum, cells, limit)
	}
}

func TestZipfFollowsTheory(t *testing.T) {
	const n = 100_000
	for _, theta := range []float64{0, 0.2, 0.5, 0.99, 1, 1.0000001, 1.2, 2, 5} {
		for _, pages := range []int{1, 2, 3, 10, 1000, 20_000} {
			t.Run(fmt.Sprintf("%v/%d", theta, pages), func(t *testing.T) {
				probability, total := make([]float64, pages), 0.0
				for i := range probability {
					probability[i] = math.Pow(float64(i+1), -theta)
					total += probability[i]
				}
				for i := range probability {
					probability[i] /= total
				}
				counts := make([]uint64, pages)
				z := newZipf(uint64(pages), theta, newSource(7, pageStream))
				for range n {
					counts[z.rank()-1]++ // out of range panics: the test fails
				}
				if pages > 1 {
					chiSquare(t, counts, probability, n)
				}
			})
		}
	}
}

// TestZipfHuge checks the extremes of the range: ranks stay inside, and the
// two hottest keep their shares.
func TestZipfHuge(t *testing.T) {
	const pages, n = 1 << 40, 200_000
	for _, theta := range []float64{0, 0.5, 0.9, 1, 1.5, 20} {
		z := newZipf(pages, theta, newSource(3, pageStream))
		var hot [3]float64
		for range n {
			k := z.rank()
			if k < 1 || k > pages {
				t.Fatalf("theta %v: rank %d", theta, k)
			}
			if k < 3 {
				hot[k]++
			}
		}
		// Euler-Maclaurin: the sum of k^-theta is its first 1000 terms plus an integral.
		sum := 0.0
		for k := 1.0; k <= 1000; k++ {
			sum += math.Pow(k, -theta)
		}
		if a := 1 - theta; a == 0 {
			sum += math.Log(pages+0.5) - math.Log(1000.5)
		} else {
			sum += (math.Pow(pages+0.5, a) - math.Pow(1000.5, a)) / a
		}
		for k := 1.0; k <= 2; k++ {
			p := math.Pow(k, -theta) / sum
			if d := math.Abs(hot[int(k)] - n*p); d > 5*math.Sqrt(n*p*(1-p))+1 {
				t.Errorf("theta %v: rank %v drawn %v times, want about %.0f", theta, k, hot[int(k)], n*p)
			}
		}
	}
}

func TestUniformIsUniform(t *testing.T) {
	for _, pages := range []int{3, 1000} {
		counts, probability := make([]uint64, pages), make([]float64, pages)
		n := 0.0
		each(t, fmt.Sprintf("uniform{pages=%d,accesses=300000,seed=9}", pages), func(r trace.Record) { counts[r.Addr]++; n++ })
		for i := range probability {
			probability[i] = 1 / float64(pages)
		}
		if n != 300000 {
			t.Fatalf("%v accesses", n)
		}
		chiSquare(t, counts, probability, n)
	}
}

// TestBelowIsUnbiased takes a range for which plain multiplication would draw
// half of its numbers from one residue of three.
func TestBelowIsUnbiased(t *testing.T) {
	src, counts := newSource(4, pageStream), make([]uint64, 3)
	for range 30_000 {
		counts[src.below(3<<62)%3]++
	}
	chiSquare(t, counts, []float64{1. / 3, 1. / 3, 1. / 3}, 30_000)
}

func TestPermutationIsBijective(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 5, 64, 65, 1000, 4097, 70_000} {
		for seed := range uint64(3) {
			p, seen := newPermutation(n, seed), make([]bool, n)
			fixed := 0
			for x := range n {
				y := p.at(x)
				if y >= n || seen[y] {
					t.Fatalf("n=%d seed=%d: %d maps to %d, outside or taken", n, seed, x, y)
				}
				seen[y] = true
				if x == y {
					fixed++
				}
			}
			// A random permutation has one fixed point on average, Poisson.
			if n > 10 && fixed > 10 {
				t.Errorf("n=%d seed=%d: %d fixed points", n, seed, fixed)
			}
		}
	}
}

// TestPortableMath compares with package math, whose last bits may differ. The bounds are
// what the roundings of either side can add up to: 2^-53 each, some six in portableLog and
// two or three in portableExp, and up to two in package math.
func TestPortableMath(t *testing.T) {
	near := func(a, b, most float64) bool { return a == b || math.Abs(a-b) <= most*math.Abs(b) }
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(1e-300, 1e300).Draw(t, "x")
		if got := portableLog(x); !near(got, math.Log(x), 9e-16) && math.Abs(got-math.Log(x)) > 1e-16 {
			t.Fatalf("log %v = %v, want %v", x, got, math.Log(x))
		}
		y := rapid.Float64Range(-800, 800).Draw(t, "y")
		if got, want := portableExp(y), math.Exp(y); !near(got, want, 6e-16) && math.Abs(got-want) > 1e-307 {
			t.Fatalf("exp %v = %v, want %v", y, got, want)
		}
		u := rapid.Float64Range(-0.999, 10).Draw(t, "u")
		if u != 0 && (math.Abs(log1pOver(u)*u/math.Log1p(u)-1) > 1.5e-15 || math.Abs(expm1Over(u)*u/math.Expm1(u)-1) > 2e-15) {
			t.Fatalf("at %v: log1p %v, want %v; expm1 %v, want %v", u, log1pOver(u)*u, math.Log1p(u), expm1Over(u)*u, math.Expm1(u))
		}
	})
	if log1pOver(0) != 1 || expm1Over(0) != 1 || portableExp(0) != 1 || portableLog(1) != 0 {
		t.Error("limits at 0")
	}
}
