package main

import (
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	lib "github.com/tritier/tritier"
	"github.com/tritier/tritier/sim/trace"
	"github.com/tritier/tritier/tier/gpu/gpufake"
	"github.com/tritier/tritier/workload/kernels/kernelsfake"
)

// recordedRun runs a workload with kernels as orchestrator under a software GPU, and
// records it.
func recordedRun(t *testing.T, file, policy string, sample int) (text string, row map[string]any) {
	t.Helper()
	gpu := withFakeGPU(t)
	gpufake.Register(gpu)
	kernelsfake.Register(gpu)
	f := &runFlags{size: 512 << 10, page: 4 << 10, batch: 1 << 10, policies: []string{policy}, gpu: "auto", engine: lib.EngineGPU, threads: 1, repeat: 1,
		verify: true, record: file, sample: sample, traceSample: 1, iterations: 2, program: programBatch}
	s, err := f.settings("hotspot")
	if err != nil {
		t.Fatal(err)
	}
	if s.config.Driver, err = openCUDA(); err != nil {
		t.Fatal(err)
	}
	files, err := openRunFiles(f, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer files.discard()
	r := &runner{runSettings: s, runFiles: files, stderr: io.Discard}
	if err := r.all(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.finishFiles(); err != nil {
		t.Fatal(err)
	}
	var out, doc bytes.Buffer
	if err := r.text(&out); err != nil {
		t.Fatal(err)
	}
	if err := r.writeJSON(&doc); err != nil {
		t.Fatal(err)
	}
	var j struct{ Rows []map[string]any }
	if err := json.Unmarshal(doc.Bytes(), &j); err != nil {
		t.Fatal(err)
	}
	return out.String(), j.Rows[0]
}

func sourceOf(t *testing.T, file string) string {
	t.Helper()
	out, errs, err := tritier(t.Context(), "trace", "info", file)
	if err != nil {
		t.Fatal(err, errs)
	}
	for line := range strings.Lines(out) {
		if s, ok := strings.CutPrefix(line, "source"); ok {
			return strings.Trim(s, " \n")
		}
	}
	t.Fatalf("no source: %s", out)
	return ""
}

// TestRecordOnGPU: a run whose kernels decide is recorded, and the simulator fetches as
// often within 5 %.
func TestRecordOnGPU(t *testing.T) {
	if !gpufake.Available {
		t.Skip("the kernels on a CPU need cgo")
	}
	for _, policy := range []string{"bypass{t1=clock}", "gmt-reuse"} {
		file := filepath.Join(t.TempDir(), "t.ttrc")
		text, row := recordedRun(t, file, policy, 1)
		live, simulated := row["counters_with_setup"].(map[string]any), row["simulated_counters_with_setup"].(map[string]any)
		l, s := live["t3_fetches"].(float64), simulated["t3_fetches"].(float64)
		if l == 0 || s/l < 0.95 || s/l > 1.05 || row["recorded_accesses"].(float64) < live["accesses"].(float64) || row["lost_accesses"].(float64) != 0 {
			t.Errorf("%v", row)
		}
		if reuse, ok := row["reuse"].(map[string]any); ok != (policy == "gmt-reuse") || ok && (reuse["samples"].(float64) == 0 || row["simulated_placer"] == nil) {
			t.Errorf("reuse: %v; simulated: %v", reuse, row["simulated_placer"])
		} else if ok {
			placer := reuse["placer"].(map[string]any)
			predicted, evicted := placer["first"].(float64), live["evictions"].(float64)
			for _, n := range placer["predicted"].([]any) {
				predicted += n.(float64)
			}
			if predicted != evicted || placer["kept"] != live["keeps"] {
				t.Errorf("%v evictions and %v keeps: %v", evicted, live["keeps"], placer)
			}
		}
		if !strings.Contains(text, "accesses of "+policy+"; replayed by the simulator, ") || strings.Contains(text, "DIFFER") || strings.Contains(text, "MISSING") {
			t.Errorf("%s", text)
		}
		if got := sourceOf(t, file); got != "recorded by tritier run hotspot, complete" {
			t.Errorf("%s", got)
		}
	}
	file := filepath.Join(t.TempDir(), "t.ttrc")
	_, row := recordedRun(t, file, "bypass{t1=clock}", 4)
	live := row["counters_with_setup"].(map[string]any)["accesses"].(float64)
	if n := row["recorded_accesses"].(float64); n == 0 || n > live/2 || row["simulated_counters_with_setup"] != nil {
		t.Errorf("%v", row)
	}
	// The miniature stands for four times as much.
	if got, want := row["simulated_ssd_reads_with_setup"].(float64), row["ssd_reads_with_setup"].(float64); got < want/2 || got > want*3/2 {
		t.Errorf("%v SSD reads by a simulation of a sample, %v live", got, want)
	}
	if got := sourceOf(t, file); got != "recorded by tritier run hotspot, accesses to 1 in 4 pages, complete" {
		t.Errorf("%s", got)
	}
}

// TestIncompleteRecord: a trace that lacks accesses says so, and so does the report.
func TestIncompleteRecord(t *testing.T) {
	r, _ := faultyRunner(t, 1)
	r.f.engine, r.f.record = lib.EngineGPU, filepath.Join(t.TempDir(), "t.ttrc")
	file, err := createOutput(r.f.record, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := trace.Header{Source: r.source(0), PageAddressed: true}
	c := &recorder{file: file, head: h, w: trace.NewWriter(file, h), arrays: map[string]uint32{"a": 0}, buf: make([]trace.Record, 0, 4)}
	for i := range uint64(7) {
		c.access(lib.Access{Array: "a", Page: i})
	}
	if n := c.stop(r.source(1234567), 1234567); n != 7 || c.failed() != nil {
		t.Fatalf("%d, %v", n, c.failed())
	}
	if err := file.commit(); err != nil {
		t.Fatal(err)
	}
	if got := sourceOf(t, r.f.record); got != "recorded by tritier run pathfinder, INCOMPLETE: 1234567 accesses are missing" {
		t.Errorf("%s", got)
	}
	var text bytes.Buffer
	r.recorded(&text, &runRow{policy: r.policies[0], runs: []*runOnce{{records: 7, lost: 1234567}}})
	if got := text.String(); got != "recorded 7 accesses of lru, 1,234,567 MISSING: the recording was too slow for them\n" {
		t.Errorf("%s", got)
	}
}
