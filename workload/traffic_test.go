package workload_test

import (
	"testing"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/workload"
)

// TestKernelTraffic: kernels make the accesses that they are meant to. What they write in
// whole pages is not fetched before; what they stream is fetched once a pass.
func TestKernelTraffic(t *testing.T) {
	const perPage = page / 4
	pages := func(elements uint64) uint64 { return (elements + perPage - 1) / perPage }
	onDevice(t, func(t *testing.T, driver *cuda.Driver) {
		for _, c := range []struct {
			name, written string // pages of this array are written whole
			times         uint64
			iterations    int
			fetches       float64 // for each page of all arrays, at most
		}{
			{"multi-vector-add", "vectoradd.out", 2, 2, 1.55},
			{"pathfinder", "pathfinder.result0", 6, 1, 2.3}, // both results in turn
			{"hotspot", "hotspot.temp0", 2, 4, 6},
			{"backprop", "backprop.partial", 1, 1, 2.2},
			{"srad", "srad.north", 5, 1, 3},
			{"pagerank", "pagerank.contributions", 2, 1, 1.5}, // and the ranks
			{"embedding-gather", "embedding.sums", 2, 2, 15},
		} {
			x := openDevice(t, driver, tritier.Config{T1: 6 * page, Policy: "bypass{t1=clock}"}, c.name)
			bytes := uint64(400 << 10)
			if c.name == "pathfinder" {
				bytes *= 4 // a hundred rows are few columns
			}
			w := sized(t, c.name, workload.Params{Bytes: bytes, Iterations: c.iterations, Kernels: true})
			if err := w.Setup(t.Context(), x.mem); err != nil {
				t.Fatal(err)
			}
			before := x.mem.Stats().Counters
			if err := w.RunKernels(t.Context(), x.d); err != nil {
				t.Fatal(err)
			}
			s := x.mem.Stats().Counters
			var length, all uint64
			for _, a := range x.mem.Arrays() {
				all += a.Pages
				if a.Name == c.written {
					length = a.Length
				}
			}
			// The last page of an array that is not full is fetched. Some are in T1 by chance.
			whole := length / perPage * c.times
			over, fetched := s.Overwrites-before.Overwrites, s.T3Fetches-before.T3Fetches
			if over > pages(length)*c.times || over*10 < whole*7 {
				t.Errorf("%s: %d pages were overwritten without being there, want about %d", c.name, over, whole)
			}
			if got := float64(fetched) / float64(all); got > c.fetches {
				t.Errorf("%s: %d pages were fetched, %.2f times all arrays, want at most %.2f", c.name, fetched, got, c.fetches)
			}
			x.end(t)
		}
	})
}
