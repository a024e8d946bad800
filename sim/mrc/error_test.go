package mrc

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tritier/tritier/sim"
)

// errorCases are traces and how many pages are sampled of each.
var errorTraces = []string{
	"mooncake_conversation", "arc_OLTP", "bfs_gnutella31", "mooncake_synthetic",
	"zipf{pages=300000,accesses=2000000}", "zipf{pages=300000,accesses=2000000,theta=1.3}",
	"mix{pages=100000,accesses=1000000}", "shift{pages=200000,accesses=1000000}",
	"loop{pages=200000,accesses=1000000}", "uniform{pages=200000,accesses=1000000}",
}

// logSizes and linearSizes are where curves are compared: from a thousandth of
// the trace's pages to all of them.
func logSizes(pages int) []int { return Grid(pages/1000, pages, 50) }

func linearSizes(pages int) (sizes []int) {
	for i := 1; i <= 50; i++ {
		sizes = append(sizes, pages*i/50)
	}
	return sizes
}

// meanError is the mean absolute error of p's miss ratio over sizes.
func meanError(exact, p *Profile, sizes []int) float64 {
	sum := 0.0
	for _, n := range sizes {
		sum += math.Abs(exact.At(n, 0).SSDReads() - p.At(n, 0).SSDReads())
	}
	return sum / float64(exact.Accesses) / float64(len(sizes))
}

// errorsOf are the errors over seeds, in order, on both scales of sizes.
func errorsOf(tr *sim.Trace, exact *Profile, m Method, seeds int) (log, linear []float64) {
	for m.Seed = 1; m.Seed <= uint64(seeds); m.Seed++ {
		s := NewSampledLRU(m)
		s.Run(tr.Accesses, tr.Info.Pages)
		p := s.Profile()
		log = append(log, meanError(exact, p, logSizes(tr.Info.Pages)))
		linear = append(linear, meanError(exact, p, linearSizes(tr.Info.Pages)))
	}
	slices.Sort(log)
	slices.Sort(linear)
	return log, linear
}

func exactly(tr *sim.Trace) *Profile {
	l := NewLRU(0)
	l.Run(tr.Accesses, tr.Info.Pages)
	return l.Profile()
}

// The median over 20 seeds of the mean absolute error is at most 0.01 wherever at
// least MinSampled pages are sampled, at a fixed rate and of a fixed size, and 18
// of the 20 stay below the error that the curve states.
func TestSampledError(t *testing.T) {
	const seeds = 20
	names := errorTraces
	if testing.Short() {
		names = names[:1]
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := loadTest(t, name)
			exact := exactly(tr)
			for _, m := range []Method{{Rate: 1.1 * MinSampled / float64(tr.Info.Pages)}, {MaxPages: MinSampled}} {
				log, linear := errorsOf(tr, exact, m, seeds)
				for _, e := range [][]float64{log, linear} {
					if e[seeds/2] > 0.01 {
						t.Errorf("%+v: median error %.4f over 20 seeds", m, e[seeds/2])
					}
					if want := CorrectHot.ExpectedError(MinSampled); e[17] > want {
						t.Errorf("%+v: an error of %.4f is exceeded by 2 of 20, stated is %.4f", m, e[17], want)
					}
				}
			}
		})
	}
}

// Nearly all of a trace gives nearly the exact curve: nothing about the choice of
// pages or accesses leans to one side.
func TestLargeSampleIsUnbiased(t *testing.T) {
	tr := loadTest(t, "mooncake_synthetic")
	exact := exactly(tr)
	for _, m := range []Method{{Rate: 0.45}, {Rate: 0.9}, {MaxPages: 20_000}, {MaxPages: 40_000}} {
		log, linear := errorsOf(tr, exact, m, 9)
		if log[4] > 0.0025 || linear[4] > 0.0025 {
			t.Errorf("%+v: median error %.4f and %.4f", m, log[4], linear[4])
		}
	}
}

// TestErrorTable writes the table of docs/mrc-speed.md: error against the number
// of pages sampled. It is asked for by MRC_TABLE.
func TestErrorTable(t *testing.T) {
	if os.Getenv("MRC_TABLE") == "" {
		t.Skip("the table of the documentation is made with MRC_TABLE=1")
	}
	for _, name := range errorTraces {
		tr := loadTest(t, name)
		exact := exactly(tr)
		for _, pages := range []int{500, 1000, 2000, 5000, 10000, 20000} {
			rate := float64(pages) / float64(tr.Info.Pages)
			if rate > 0.5 {
				continue
			}
			var cells []string
			for _, m := range []Method{{Rate: rate}, {MaxPages: pages}, {Rate: rate, Correction: CorrectAdj}, {MaxPages: pages, Correction: CorrectAdj}, {Rate: rate, Correction: CorrectNone}} {
				log, linear := errorsOf(tr, exact, m, 20)
				cells = append(cells, fmt.Sprintf("%.4f %.4f / %.4f", log[10], log[18], linear[10]))
			}
			fmt.Printf("| %s | %d | %s |\n", name, pages, strings.Join(cells, " | "))
		}
	}
}
