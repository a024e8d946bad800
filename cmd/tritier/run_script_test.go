package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tritier/tritier/workload"
)

func TestRunScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Files: []string{"testdata/script/run.txtar"},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"refuses": refuses, "jsonhas": jsonHas, "examples": checkExamples, "disk": makeDisk, "nofiles": noFiles, "timeline": checkTimeline,
			"samecounts": sameCounts, "awaitfile": awaitFile,
		},
	})
}

// checkTimeline checks that a file is Chrome trace JSON, with spans of the tracks
// named: FILE CATEGORY/NAME...
func checkTimeline(ts *testscript.TestScript, _ bool, args []string) {
	var doc struct {
		Events []struct {
			Ph, Name, Cat string
			Pid, Tid      *int
			Ts, Dur       *float64
		} `json:"traceEvents"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &doc))
	found := map[string]int{}
	open := map[int][]float64{} // ends of spans of each track: one lies within the one before it, or behind it
	for _, e := range doc.Events {
		if e.Pid == nil || e.Tid == nil {
			ts.Fatalf("%+v has no process or thread", e)
		}
		if e.Ph != "X" {
			continue
		}
		if e.Ts == nil || e.Dur == nil || *e.Ts < 0 || *e.Dur < 0 {
			ts.Fatalf("%+v has no time", e)
		}
		stack := open[*e.Tid]
		for len(stack) > 0 && *e.Ts+0.002 >= stack[len(stack)-1] { // in microseconds, to three digits
			stack = stack[:len(stack)-1]
		}
		if n := len(stack); n > 0 && *e.Ts+*e.Dur > stack[n-1]+0.002 {
			ts.Fatalf("%+v begins within a span of its track that ends before it, at %f", e, stack[n-1])
		}
		open[*e.Tid] = append(stack, *e.Ts+*e.Dur)
		found[e.Cat+"/"+e.Name]++
	}
	for _, want := range args[1:] {
		if found[want] == 0 {
			ts.Fatalf("no span %s among %v", want, found)
		}
	}
}

// sameCounts checks that the counts of the last command, a replay, are those of a
// run's JSON, with the setup: FILE.
func sameCounts(ts *testscript.TestScript, _ bool, args []string) {
	var live struct {
		Rows []struct {
			Counters map[string]uint64 `json:"counters_with_setup"`
		}
	}
	var sim struct{ Results []map[string]any }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &live))
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &sim))
	if len(live.Rows[0].Counters) < 15 || live.Rows[0].Counters["t3_fetches"] == 0 {
		ts.Fatalf("%v", live)
	}
	for name, n := range live.Rows[0].Counters {
		if got, ok := sim.Results[0][name].(float64); !ok || uint64(got) != n {
			ts.Fatalf("%s: replayed %v, live %d", name, sim.Results[0][name], n)
		}
	}
}

// TestRunParity: whatever the workload and policy, the simulator's counts on the
// recorded trace are the live ones, every one of them.
func TestRunParity(t *testing.T) {
	policies := []string{"bypass", "tier-order", "random{}", "gmt-reuse{vtd-direct=64,fit-every=64,k=2}", "gmt-reuse{t1=lru,t2copy=keep}", "tier-order{t1=random,t2=random}"}
	for i, name := range workload.Names() {
		for j, policy := range policies {
			if testing.Short() && (i+j)%3 != 0 {
				continue
			}
			t.Run(name+"/"+policy, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "t.ttrc")
				var doc struct {
					Rows []struct {
						Verified bool
						Equal    bool `json:"simulated_equal"`
						Live     any  `json:"counters_with_setup"`
						Sim      any  `json:"simulated_counters_with_setup"`
						Recorded int  `json:"recorded_accesses"`
						Fetches  int  `json:"t3_fetches"`
					}
				}
				prefetch := fmt.Sprintf("--prefetch=%v", j%2 == 1 && slices.Contains(prefetchers(), name))
				out, errs, err := tritier(t.Context(), "run", name, prefetch, "--size", "400KiB", "--page", "4KiB", "--batch", "3000", "--t1", "40KiB", "--t2", "100KiB",
					"--gpu", "none", "--seed", fmt.Sprint(i*10+j), "--policy", policy, "--record", file, "--json")
				if err != nil || errs != "" {
					t.Fatal(err, errs)
				}
				if err := json.Unmarshal([]byte(out), &doc); err != nil {
					t.Fatal(err)
				}
				if r := doc.Rows[0]; !r.Verified || !r.Equal || r.Recorded < 200 || r.Fetches == 0 {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}
