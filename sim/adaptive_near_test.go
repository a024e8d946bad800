package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim/workload"
)

// margin is how much worse than the best of the others adaptive may be, in SSD
// fetches (t3_fetches).
const margin = 1.03

// adaptiveSeed is of every policy and, by default, every shape of these tests.
const adaptiveSeed = 1

// nearTraces are the traces in testdata with at least 100,000 accesses.
var nearTraces = []string{"arc_OLTP.lis.zst", "gnutella31_bfs.txt.zst", "lackey_sort.txt.zst", "lirs_2_pools.trace.gz", "lirs_loop.trace.gz",
	"lirs_sprite.trace.gz", "mooncake_conversation.jsonl.zst", "mooncake_synthetic.jsonl.zst"}

// nearShapes has every generated shape, the programs with pages small enough
// that 1 % of them is more than a frame or two.
var nearShapes = []string{
	"zipf{pages=30000,accesses=300000}",
	"zipf{pages=20000,accesses=300000,theta=0.8,writes=0.3}",
	"uniform{pages=20000,accesses=200000,writes=0.3}",
	"scan{writes=0.3}",
	"loop{pages=5000,accesses=200000,writes=0.2}",
	"loop{pages=33333,accesses=200000}",
	"mix{pages=20000,accesses=500000,scan=0.3,scan-pages=10000,writes=0.2}",
	"shift{pages=20000,accesses=300000}",
	"shift{pages=20000,accesses=300000,from=uniform}",
	"multi-vector-add{page-size=16KiB,tile=16KiB,passes=10}",
	"pathfinder{page-size=16KiB,tile=16KiB}",
	"hotspot{page-size=16KiB,tile=16KiB}",
	"backprop{page-size=4KiB,tile=4KiB,epochs=10}",
	"srad",
	"bfs{scale=16,page-size=4KiB}",
	"sssp{scale=14,page-size=4KiB,sources=3}",
	"pagerank{scale=14,page-size=4KiB}",
}

// nearChanges are shapes with different winners over the same pages, one after
// the other: gmt-reuse wins the first of each pair at one size or more, and
// tier-order the second.
var nearChanges = [][2]string{
	{"srad", "zipf{pages=6144,accesses=100000}"},
	{"hotspot{page-size=16KiB,tile=16KiB}", "uniform{pages=12288,accesses=150000}"},
	{"mix{pages=10000,accesses=250000,scan=0.3,scan-pages=5000,writes=0.2}", "shift{pages=14000,accesses=150000}"},
	{"multi-vector-add{page-size=16KiB,tile=16KiB,passes=10}", "zipf{pages=16384,accesses=160000}"},
	{"pagerank{scale=14,page-size=4KiB}", "loop{pages=500,accesses=100000}"},
}

func loadShape(t testing.TB, shape string) *Trace {
	t.Helper()
	s, err := workload.Parse(shape)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	tr, err := Load(t.Context(), NewStream(r, shape, s.PageSize()), nil)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// joined is one trace after another, over the same pages.
func joined(traces ...*Trace) *Trace {
	sum := &Trace{}
	for _, tr := range traces {
		sum.Accesses = append(sum.Accesses, tr.Accesses...)
		sum.Info.Accesses += tr.Info.Accesses
		sum.Info.Pages = max(sum.Info.Pages, tr.Info.Pages)
	}
	return sum
}

// near replays tr at T1 = 1, 5 and 20 % of its pages and T2 = 4 x T1 and holds
// adaptive to the best of the three others. Bypass never is: shadowsEqual tests
// that, and long traces are replayed without it.
func near(t *testing.T, tr *Trace, evictors string) {
	t.Helper()
	names := []string{"adaptive", "tier-order", "gmt-reuse", "bypass"}
	if len(tr.Accesses) > 500_000 {
		names = names[:3]
	}
	var jobs []Job
	for _, percent := range []int{1, 5, 20} {
		gpu := max(1, tr.Info.Pages*percent/100)
		for _, n := range names {
			jobs = append(jobs, Job{Policy: spec(t, n+"{"+evictors+"}"), GPUFrames: gpu, HostFrames: 4 * gpu, Seed: adaptiveSeed})
		}
	}
	results, err := Replay(t.Context(), tr, jobs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for row := range slices.Chunk(results, len(names)) {
		best := row[1].T3Fetches
		for _, r := range row[1:] {
			best = min(best, r.T3Fetches)
		}
		ratio := float64(row[0].T3Fetches) / float64(best)
		line := fmt.Sprintf("%s, %d+%d frames: fetches %d adaptive, %d tier-order, %d gmt-reuse: %.4f; %v", evictors,
			row[0].GPUFrames, row[0].HostFrames, row[0].T3Fetches, row[1].T3Fetches, row[2].T3Fetches, ratio, row[0].Placer)
		t.Log(line)
		if ratio > margin {
			t.Errorf("seed %d, more than %g times the best: %s", adaptiveSeed, margin, line)
		}
	}
}

// TestAdaptiveIsNearTheBestOnRealTraces: on every bundled trace of at least
// 100,000 accesses.
func TestAdaptiveIsNearTheBestOnRealTraces(t *testing.T) {
	for _, name := range nearTraces {
		if testing.Short() && !strings.HasPrefix(name, "lirs") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Open("trace/testdata/"+name, SourceOptions{PageSize: 65536})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			tr, err := Load(t.Context(), s, nil)
			if err != nil {
				t.Fatal(err)
			}
			near(t, tr, "t1=clock,t2=fifo")
			if len(tr.Accesses) < 200_000 {
				near(t, tr, "t1=lru,t2=lru,t2copy=keep")
			}
		})
	}
}

// TestAdaptiveIsNearTheBestOnShapes: on every generated shape.
func TestAdaptiveIsNearTheBestOnShapes(t *testing.T) {
	for _, n := range workload.Names() {
		if !slices.ContainsFunc(nearShapes, func(s string) bool { return s == n || strings.HasPrefix(s, n+"{") }) {
			t.Errorf("no test with shape %s", n)
		}
	}
	for i, shape := range nearShapes {
		if testing.Short() && i%6 != 0 {
			continue
		}
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			near(t, loadShape(t, shape), "t1=clock,t2=fifo")
		})
	}
}

// TestAdaptiveIsNearTheBestWhenShapesChange: the winner changes half-way, in
// either direction, or three times.
func TestAdaptiveIsNearTheBestWhenShapesChange(t *testing.T) {
	for i, pair := range nearChanges {
		if testing.Short() && i > 0 {
			continue
		}
		t.Run(pair[0]+" and "+pair[1], func(t *testing.T) {
			t.Parallel()
			a, b := loadShape(t, pair[0]), loadShape(t, pair[1])
			near(t, joined(a, b), "t1=clock,t2=fifo")
			near(t, joined(b, a), "t1=clock,t2=fifo")
			near(t, joined(a, b, a, b), "t1=lru,t2=lru")
		})
	}
}

// TestAdaptiveFollowsTheBetter: where the three differ widely, it is the better
// one that is followed most of the time, and a changed shape changes that.
func TestAdaptiveFollowsTheBetter(t *testing.T) {
	zipf := loadShape(t, "zipf{pages=12288,accesses=150000}")
	hotspot := loadShape(t, "hotspot{page-size=16KiB,tile=16KiB}") // 12,288 pages
	for _, c := range []struct {
		name    string
		tr      *Trace
		gpu     int
		least   float64 // share of gmt-reuse
		most    float64
		follows string
		changes uint64 // at least
	}{
		{"tier-order wins", zipf, 120, 0, 0.1, "tier-order", 1},
		{"gmt-reuse wins", hotspot, 2457, 0.9, 1, "gmt-reuse", 0},
		{"the winner changes", joined(zipf, hotspot), 2457, 0.4, 0.8, "gmt-reuse", 2},
	} {
		jobs := []Job{{Policy: spec(t, "adaptive{"+exactly+"}"), GPUFrames: c.gpu, HostFrames: 4 * c.gpu, Seed: adaptiveSeed}}
		r, err := Replay(t.Context(), c.tr, jobs, Options{})
		if err != nil {
			t.Fatal(err)
		}
		p := r[0].Placer.(placement.AdaptiveReport)
		if s := p.Share(); s < c.least || s > c.most || p.Follows != c.follows || p.Switches < c.changes {
			t.Errorf("%s: %v", c.name, p)
		}
		if n := p.Followed.TierOrder + p.Followed.GMTReuse; n != r[0].Accesses {
			t.Errorf("%s: followed for %d of %d accesses", c.name, n, r[0].Accesses)
		}
	}
}
