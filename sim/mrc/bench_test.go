package mrc

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/sim"
)

var ctx = context.Background()

// rateOf reports the accesses a second of f over a trace in memory on one core,
// set-up and the reading of the result included: of the fastest run, which is what
// the code can do when the machine is not shared, and by the thread's own time in
// the run that took the least of it, which says nearly the same on a busy machine.
func rateOf(b *testing.B, tr *sim.Trace, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best, bestCPU := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	b.ReportAllocs()
	for b.Loop() {
		start, cpu := time.Now(), threadTime()
		f()
		best, bestCPU = min(best, time.Since(start)), min(bestCPU, threadTime()-cpu)
	}
	b.ReportMetric(float64(len(tr.Accesses))/best.Seconds()/1e6, "best-Maccess/s")
	b.ReportMetric(float64(len(tr.Accesses))/bestCPU.Seconds()/1e6, "best-Maccess/cpu-s")
	b.ReportMetric(0, "ns/op")
}

// threadTime is the processor time of the calling thread.
func threadTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
