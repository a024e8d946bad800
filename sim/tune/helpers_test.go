package tune

import (
	"sync"
	"testing"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/sim/workload"
	"github.com/tritier/tritier/tier"
)

// realTraces are traces of different kinds; the origin of each is in
// ../trace/testdata/ATTRIBUTION.md.
var realTraces = map[string]string{
	"mooncake_conversation": "mooncake_conversation.jsonl.zst",
	"mooncake_synthetic":    "mooncake_synthetic.jsonl.zst",
	"arc_OLTP":              "arc_OLTP.lis.zst",
	"bfs_gnutella31":        "gnutella31_bfs.txt.zst",
	"mqsim_tpcc":            "mqsim_tpcc-small.trace.zst",
	"lirs_multi3":           "lirs_multi3.trace.gz",
	"lirs_sprite":           "lirs_sprite.trace.gz",
}

// scanMix is a hot set, a scan of more pages than memory holds, and writes.
const scanMix = "mix{pages=10000,scan-pages=25000,accesses=300000,scan=0.4,writes=0.1,seed=3}"

const smallMix = "mix{pages=2000,scan-pages=5000,accesses=40000,scan=0.4,writes=0.1,seed=3}"

var (
	loadedMu sync.Mutex
	loaded   = map[string]*sim.Trace{}
)

// loadTrace loads a real trace, or makes a generated one.
func loadTrace(t testing.TB, name string) *sim.Trace {
	t.Helper()
	loadedMu.Lock()
	defer loadedMu.Unlock()
	if tr := loaded[name]; tr != nil {
		return tr
	}
	var s *sim.Stream
	if file, ok := realTraces[name]; ok {
		var err error
		if s, err = sim.Open("../trace/testdata/"+file, sim.SourceOptions{PageSize: 65536}); err != nil {
			t.Fatal(err)
		}
	} else {
		shape, err := workload.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := shape.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s = sim.NewStream(r, shape.Name(), 65536)
	}
	defer s.Close()
	tr, err := sim.Load(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	loaded[name] = tr
	return tr
}

func model(t testing.TB) *servicetime.Model {
	t.Helper()
	m, err := servicetime.Load("h200-4xgen5")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// problem is a small one: T1 has a twentieth of the pages, T2 four times that.
func problem(t testing.TB, names ...string) *Problem {
	t.Helper()
	p := &Problem{Objective: Objective{SSDReads: 1}, Model: model(t), Seed: 1, Sizes: []Size{{Name: "small"}}}
	for _, name := range names {
		tr := loadTrace(t, name)
		g := max(16, tr.Info.Pages/20)
		p.Traces = append(p.Traces, Input{Trace: tr})
		p.Sizes[0].Frames = append(p.Sizes[0].Frames, [2]int{g, 4 * g})
	}
	return p
}

// tiny is a made-up trace that a test can afford to tune for many times.
func tiny(seed uint64, pages, n int) *sim.Trace {
	t := &sim.Trace{Info: sim.TraceInfo{Name: "tiny", Format: "made", PageSize: 4096, Pages: pages, Accesses: uint64(n)}}
	for i := range n {
		h := placement.Hash(seed, uint64(i), 1)
		page := int(h>>8) % pages
		if h&3 != 0 {
			page = int(h>>8) % (1 + pages/8)
		}
		op := tier.Read
		if h>>40&7 == 0 {
			op = tier.Write
			t.Info.Writes++
		}
		t.Accesses = append(t.Accesses, tier.MakeAccess(placement.Page(page), op))
	}
	return t
}

// quick is a problem with miniatures that takes a fraction of a second.
func quick(t testing.TB) *Problem {
	t.Helper()
	a, b := tiny(1, 2000, 20_000), tiny(2, 600, 9000)
	return &Problem{
		Traces:   []Input{{Trace: a, Seconds: 10}, {Trace: b, Seconds: 10}},
		Sizes:    []Size{{Name: "a", Frames: [][2]int{{200, 400}, {60, 120}}}, {Name: "b", Frames: [][2]int{{100, 600}, {30, 180}}}},
		Space:    Space{Placers: []string{"bypass", "tier-order", "random", "gmt-reuse"}},
		Model:    model(t),
		Seed:     7,
		MinPages: 50, MinFrames: 8, Candidates: 24, Finalists: 4, Seeds: 3,
		Objective: Objective{Time: 1, SSDReads: 1, SSDWrites: 0.5},
	}
}

func parse(t testing.TB, policy string) placement.Spec {
	t.Helper()
	s, err := placement.Parse(policy)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
