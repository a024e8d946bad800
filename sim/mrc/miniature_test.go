package mrc

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/tritier/tritier/sim"
)

// miniatureErrors are the mean absolute errors of miniatures of one policy, over
// sizes from a hundredth of the pages on, for several seeds, in order.
func miniatureErrors(t *testing.T, tr *sim.Trace, cases []Case, whole []Curve, pairs []Pair, m Method, seeds int) [][]float64 {
	t.Helper()
	out := make([][]float64, len(cases))
	for m.Seed = 1; m.Seed <= uint64(seeds); m.Seed++ {
		curves, err := Run(t.Context(), tr, Request{Cases: cases, Pairs: pairs, Method: m, PolicySeed: 1})
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range curves {
			sum := 0.0
			for k, p := range c.Points {
				sum += math.Abs(p.MissRatio - whole[i].Points[k].MissRatio)
			}
			out[i] = append(out[i], sum/float64(len(pairs)))
		}
	}
	for _, e := range out {
		slices.Sort(e)
	}
	return out
}

var miniaturePolicies = []string{"clock", "s3-fifo", "arc", "w-tinylfu", "lirs", "tier-order{t1=clock,t2=fifo}", "bypass{t1=clock}", "gmt-reuse", "bound"}

// Miniatures of all sorts of policies, of at least MinSampled pages, are right to
// 0.02 in the median.
func TestMiniatureError(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates whole traces many times")
	}
	traces := []string{"mooncake_conversation", "zipf{pages=100000,accesses=500000}"}
	seeds := 3
	table := os.Getenv("MRC_TABLE") != ""
	if table {
		traces, seeds = []string{"mooncake_conversation", "mooncake_synthetic", "arc_OLTP", "zipf{pages=300000,accesses=2000000}", "mix{pages=100000,accesses=1000000}", "shift{pages=200000,accesses=1000000}"}, 9
	}
	for _, name := range traces {
		tr := loadTest(t, name)
		cases := casesOf(t, miniaturePolicies...)
		pairs := Pairs(Grid(tr.Info.Pages/100, tr.Info.Pages/6, 4), 4)
		whole, err := Run(t.Context(), tr, Request{Cases: cases, Pairs: pairs, PolicySeed: 1})
		if err != nil {
			t.Fatal(err)
		}
		m := Method{Rate: 1.1 * MinSampled / float64(tr.Info.Pages)}
		errs := miniatureErrors(t, tr, cases, whole, pairs, m, seeds)
		var plain [][]float64
		if table {
			m.Correction = CorrectAdj
			plain = miniatureErrors(t, tr, cases, whole, pairs, m, seeds)
		}
		for i, e := range errs {
			if table {
				fmt.Printf("| %s | %s | %.4f %.4f | %.4f %.4f |\n", name, miniaturePolicies[i], e[seeds/2], e[seeds-1], plain[i][seeds/2], plain[i][seeds-1])
			}
			if e[seeds/2] > 0.02 {
				t.Errorf("%s, %s: median error %.4f", name, miniaturePolicies[i], e[seeds/2])
			}
		}
	}
}
