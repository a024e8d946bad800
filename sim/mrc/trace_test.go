package mrc

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/sim/workload"
	"github.com/tritier/tritier/tier"
)

// testTraces are the real traces of the tests: see trace/testdata/ATTRIBUTION.md.
var testTraces = map[string]string{
	"arc_OLTP":              "arc_OLTP.lis.zst",
	"bfs_gnutella31":        "gnutella31_bfs.txt.zst",
	"lirs_loop":             "lirs_loop.trace.gz",
	"lirs_multi3":           "lirs_multi3.trace.gz",
	"mooncake_conversation": "mooncake_conversation.jsonl.zst",
	"mooncake_synthetic":    "mooncake_synthetic.jsonl.zst",
	"lackey_sort":           "lackey_sort.txt.zst",
	"mqsim_tpcc":            "mqsim_tpcc-small.trace.zst",
}

func openTest(t testing.TB, name string) *sim.Stream {
	t.Helper()
	s, err := sim.Open("../trace/testdata/"+testTraces[name], sim.SourceOptions{PageSize: 65536})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// loadTest loads a real trace, or the workload of that description.
func loadTest(t testing.TB, name string) *sim.Trace {
	t.Helper()
	var s *sim.Stream
	if testTraces[name] != "" {
		s = openTest(t, name)
	} else {
		w, err := workload.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := w.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s = sim.NewStream(r, name, w.PageSize())
		t.Cleanup(func() { s.Close() })
	}
	tr, err := sim.Load(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func spec(t testing.TB, policy string) placement.Spec {
	t.Helper()
	s, err := placement.Parse(policy)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// golden is one line of golden.tsv, agreed to the last miss by two independent
// simulators.
type golden struct {
	trace, policy    string
	frames           int
	accesses, misses uint64
}

func goldenCounts(t *testing.T, policy string) (list []golden) {
	t.Helper()
	f, err := os.Open("../testdata/golden.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		c := strings.Split(sc.Text(), "\t")
		if c[1] != policy {
			continue
		}
		frames, err1 := strconv.Atoi(c[2])
		accesses, err2 := strconv.ParseUint(c[3], 10, 64)
		misses, err3 := strconv.ParseUint(c[4], 10, 64)
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatalf("bad line %q", sc.Text())
		}
		list = append(list, golden{c[0], c[1], frames, accesses, misses})
	}
	return list
}

// traceOf makes a trace of accesses whose pages are numbered densely.
func traceOf(accs []tier.Access) *sim.Trace {
	t := &sim.Trace{Accesses: accs, Info: sim.TraceInfo{Name: "made", PageSize: 4096}}
	for _, a := range accs {
		t.Info.Pages = max(t.Info.Pages, int(a.Page())+1)
		if a.Op() == tier.Prefetch {
			t.Info.Prefetches++
		}
	}
	t.Info.Accesses = uint64(len(accs)) - t.Info.Prefetches
	return t
}
