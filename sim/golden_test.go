package sim

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tritier/tritier/placement"
)

// testTraces are the real traces that the tests replay; the origin of each is
// in trace/testdata/ATTRIBUTION.md.
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

func openTest(t testing.TB, name string) *Stream {
	t.Helper()
	s, err := Open("trace/testdata/"+testTraces[name], SourceOptions{PageSize: 65536})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func loadTest(t testing.TB, name string) *Trace {
	t.Helper()
	tr, err := Load(context.Background(), openTest(t, name), nil)
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

func goldenCounts(t *testing.T) (list []golden) {
	f, err := os.Open("testdata/golden.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		c := strings.Split(sc.Text(), "\t")
		if c[0] == "trace" {
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
	if len(list) != 98 {
		t.Fatalf("%d golden counts, want 98", len(list))
	}
	return list
}

// Every golden count comes out exactly, in memory and streamed, and Belady's
// bound equals Belady simulated.
func TestGoldenCounts(t *testing.T) {
	byTrace := map[string][]golden{}
	for _, g := range goldenCounts(t) {
		byTrace[g.trace] = append(byTrace[g.trace], g)
	}
	for name, rows := range byTrace {
		if testing.Short() && name != "lirs_multi3" && name != "mooncake_synthetic" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := loadTest(t, name)
			var jobs []Job
			for _, g := range rows {
				jobs = append(jobs, Job{Policy: spec(t, g.policy), GPUFrames: g.frames})
			}
			results, err := Replay(t.Context(), tr, jobs, Options{Bound: true})
			if err != nil {
				t.Fatal(err)
			}
			bound := map[int]uint64{}
			for i, g := range rows {
				r := results[i]
				if r.Accesses != g.accesses || r.T3Fetches != g.misses || !r.Complete {
					t.Errorf("%s %d: %d of %d miss, want %d of %d", g.policy, g.frames, r.T3Fetches, r.Accesses, g.misses, g.accesses)
				}
				if g.policy == "belady" {
					bound[g.frames] = g.misses
				}
			}
			for i, g := range rows {
				if got := *results[i].BoundReads; got != bound[g.frames] {
					t.Errorf("%d frames: bound %d, Belady %d", g.frames, got, bound[g.frames])
				}
			}
			checkStream(t, name, jobs, results)
		})
	}
}

var ignorePositions = cmpopts.IgnoreUnexported(Result{})

// checkStream replays jobs in one pass, belady left out, and expects the
// results of the trace in memory.
func checkStream(t *testing.T, name string, jobs []Job, want []Result) {
	t.Helper()
	var online []Job
	var expect []Result
	for i, j := range jobs {
		if !j.Policy.NeedsFuture() {
			online, expect = append(online, j), append(expect, want[i])
		}
	}
	got, err := ReplayStream(t.Context(), openTest(t, name), online, Options{Bound: true})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(expect, got, ignorePositions); d != "" {
		t.Errorf("streamed results differ (-memory +stream):\n%s", d)
	}
}

// everyPolicy are all evictors and placers, each with its defaults.
func everyPolicy(t testing.TB) (list []placement.Spec) {
	for _, e := range placement.Evictors() {
		list = append(list, spec(t, e.Name))
	}
	for _, p := range placement.Placers() {
		list = append(list, spec(t, p.Name), spec(t, p.Name+"{t1=lru,t2=lru,t2copy=keep}"))
	}
	return list
}

// No policy on any trace reads the SSD less often than the bound; counters are
// conserved; streaming changes nothing; with no host memory, three tiers are
// two; and equal runs give equal results, whatever the number of workers.
func TestEveryPolicyOnRealTraces(t *testing.T) {
	names := []string{"lirs_multi3", "lackey_sort", "mooncake_synthetic", "mqsim_tpcc"}
	if testing.Short() { // the race detector makes the large ones slow
		names = names[:1]
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := loadTest(t, name)
			var jobs []Job
			for _, p := range everyPolicy(t) {
				for _, size := range [][2]int{{tr.Info.Pages / 20, tr.Info.Pages / 5}, {tr.Info.Pages / 10, 0}} {
					jobs = append(jobs, Job{Policy: p, GPUFrames: max(4, size[0]), HostFrames: size[1], Seed: 42})
				}
			}
			results, err := Replay(t.Context(), tr, jobs, Options{Bound: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				checkResult(t, tr, &r)
			}
			again, err := Replay(t.Context(), tr, jobs, Options{Bound: true, Workers: 1})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(results, again, ignorePositions); d != "" {
				t.Errorf("the number of workers changes results:\n%s", d)
			}
			checkStream(t, name, jobs, results)
		})
	}
}

func checkResult(t *testing.T, tr *Trace, r *Result) {
	t.Helper()
	if err := r.Check(); err != nil {
		t.Errorf("%s: %v", r.Policy, err)
	}
	if r.Accesses != tr.Info.Accesses || r.Errors != 0 {
		t.Errorf("%s: %d accesses and %d errors of %d", r.Policy, r.Accesses, r.Errors, tr.Info.Accesses)
	}
	if r.SSDReads < *r.BoundReads {
		t.Errorf("%s at %d+%d: %d SSD reads beat Belady's %d", r.Policy, r.GPUFrames, r.HostFrames, r.SSDReads, *r.BoundReads)
	}
	if r.HostFrames == 0 && (r.T2Hits != 0 || r.Demotions != 0) {
		t.Errorf("%s: no host memory, but %d T2 hits and %d demotions", r.Policy, r.T2Hits, r.Demotions)
	}
	if tr.Info.Writes == 0 && r.Writebacks+r.FinalDirty != 0 {
		t.Errorf("%s: nothing is written, but %d pages are", r.Policy, r.Writebacks+r.FinalDirty)
	}
}

// tier-order over lru and lru is LRU over T1+T2 frames: the stack property,
// and with it that more host memory never hurts.
func TestTierOrderLRUIsOneStack(t *testing.T) {
	tr := loadTest(t, "lirs_multi3")
	var jobs []Job
	for _, host := range []int{0, 1, 500, 1000, 3000} {
		jobs = append(jobs, Job{Policy: spec(t, "lru"), GPUFrames: 300, HostFrames: host},
			Job{Policy: spec(t, "lru"), GPUFrames: 300 + host})
	}
	results, err := Replay(t.Context(), tr, jobs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(results); i += 2 {
		three, two := results[i], results[i+1]
		if three.T3Fetches != two.T3Fetches {
			t.Errorf("300+%d frames: %d fetches, %d in one tier", three.HostFrames, three.T3Fetches, two.T3Fetches)
		}
		if i > 0 && three.T3Fetches > results[i-2].T3Fetches {
			t.Errorf("more host memory made it worse")
		}
	}
}

// The JSON names that programs rely on.
func TestResultJSON(t *testing.T) {
	tr := loadTest(t, "mooncake_synthetic")
	results, err := Replay(t.Context(), tr, []Job{{Policy: spec(t, "lru"), GPUFrames: 1000, HostFrames: 4000}}, Options{Bound: true})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(results[0])
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"trace", "policy", "gpu_frames", "host_frames", "accesses", "t1_hits", "t2_hits", "t3_fetches", "overwrites",
		"errors", "demotions", "bypasses", "writebacks", "final_dirty", "prefix_hits", "bound_ssd_reads", "seed", "complete"} {
		if _, ok := got[k]; !ok {
			t.Errorf("no %q in %s", k, text)
		}
	}
	if name := got["trace"].(map[string]any)["name"]; name != "trace/testdata/mooncake_synthetic.jsonl.zst" {
		t.Errorf("trace name %v", name)
	}
	if hits := got["prefix_hits"].(float64); hits <= 0 || hits > float64(results[0].T1Hits+results[0].T2Hits) {
		t.Errorf("%v prefix hits of %d hits", hits, results[0].T1Hits+results[0].T2Hits)
	}
}

// A context that ends gives the counts so far, marked incomplete.
func TestReplayInterrupted(t *testing.T) {
	tr := loadTest(t, "arc_OLTP")
	for _, stream := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		stop := func(done, _ uint64) {
			if done > streamBlocks*(streamBlock+1<<13) { // then the first block has been run
				cancel()
			}
		}
		jobs := []Job{{Policy: spec(t, "lru"), GPUFrames: 1000}}
		var results []Result
		var err error
		if stream {
			results, err = ReplayStream(ctx, openTest(t, "arc_OLTP"), jobs, Options{Progress: stop})
		} else {
			results, err = Replay(ctx, tr, jobs, Options{Progress: stop, Bound: true, Workers: 1})
		}
		if err != context.Canceled || len(results) != 1 {
			t.Fatalf("stream %v: %d results, error %v", stream, len(results), err)
		}
		r := results[0]
		if r.Complete || r.Accesses == 0 || r.Accesses >= tr.Info.Accesses || r.BoundReads != nil {
			t.Errorf("stream %v: complete %v, %d accesses, bound %v", stream, r.Complete, r.Accesses, r.BoundReads)
		}
		if err := r.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestReplayRefuses(t *testing.T) {
	tr := loadTest(t, "lirs_multi3")
	for _, j := range []Job{{Policy: spec(t, "lru")}, {Policy: spec(t, "arc"), GPUFrames: -1}, {Policy: spec(t, "lru"), GPUFrames: 5, HostFrames: -1}, {}} {
		if _, err := Replay(t.Context(), tr, []Job{j}, Options{}); err == nil {
			t.Errorf("job %+v was run", j)
		}
	}
	if _, err := Replay(t.Context(), tr, nil, Options{}); err == nil {
		t.Error("no jobs were run")
	}
	if _, err := ReplayStream(t.Context(), openTest(t, "lirs_multi3"), []Job{{Policy: spec(t, "belady"), GPUFrames: 5}}, Options{}); err != ErrNeedsWholeTrace {
		t.Errorf("belady over a stream: %v", err)
	}
}
