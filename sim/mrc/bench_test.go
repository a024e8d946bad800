package mrc

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/tritier/tritier/sim"
)

var ctx = context.Background()

// rateOf reports the accesses a second of f over a trace in memory on one core,
// set-up and the reading of the result included: of all runs, and of the fastest,
// which is what the code can do when the machine is not shared.
func rateOf(b *testing.B, tr *sim.Trace, f func()) {
	best := time.Duration(math.MaxInt64)
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(len(tr.Accesses))/best.Seconds()/1e6, "best-Maccess/s")
	b.ReportMetric(float64(len(tr.Accesses))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Maccess/s")
}

var benchTraces = []string{"arc_OLTP", "mooncake_conversation", "bfs_gnutella31", "zipf{pages=1000000,accesses=10000000}", "uniform{pages=1000000,accesses=10000000}"}

func BenchmarkLRU(b *testing.B) {
	for _, name := range benchTraces {
		tr := loadTest(b, name)
		for _, rate := range []float64{1, 0.1, 0.01, 0.001} {
			b.Run(fmt.Sprintf("%s/rate=%v", name, rate), func(b *testing.B) {
				rateOf(b, tr, func() {
					l := Method{Rate: rate, Seed: 1}.newMeasurer(0)
					l.Run(tr.Accesses, tr.Info.Pages)
					l.Profile()
				})
			})
		}
	}
}

func BenchmarkFixedSize(b *testing.B) {
	for _, name := range benchTraces {
		tr := loadTest(b, name)
		for _, limit := range []int{8192, 65536} {
			b.Run(fmt.Sprintf("%s/pages=%d", name, limit), func(b *testing.B) {
				rateOf(b, tr, func() {
					f := NewSampledLRU(Method{MaxPages: limit, Seed: 1})
					f.Run(tr.Accesses, tr.Info.Pages)
					f.Profile()
				})
			})
		}
	}
}
