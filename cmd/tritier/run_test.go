package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	lib "github.com/tritier/tritier"
	"github.com/tritier/tritier/workload"
)

// faulty is a workload whose calls fail from a number on.
type faulty struct {
	workload.Workload
	verify, run func() error
}

// Run implements workload.Workload.
func (f *faulty) Run(ctx context.Context, m *lib.Memory) error {
	return errors.Join(f.Workload.Run(ctx, m), f.run())
}

// Verify implements workload.Workload.
func (f *faulty) Verify(ctx context.Context, m *lib.Memory) error {
	return errors.Join(f.Workload.Verify(ctx, m), f.verify())
}

func faultyRunner(t *testing.T, repeat int) (*runner, *faulty) {
	t.Helper()
	f := &runFlags{size: 256 << 10, page: 4 << 10, batch: 1 << 12, policies: []string{"lru,bypass"}, gpu: "none", engine: lib.EngineHost, threads: 1, repeat: repeat, verify: true, sample: 1, traceSample: 1}
	s, err := f.settings("pathfinder")
	if err != nil {
		t.Fatal(err)
	}
	none := func() error { return nil }
	w := &faulty{s.program, none, none}
	s.program = w
	return &runner{runSettings: s, runFiles: &runFiles{}, stderr: io.Discard}, w
}

// TestRunWrongResult: a wrong result fails, and says so in every form; what was counted
// is there all the same, and other policies run.
func TestRunWrongResult(t *testing.T) {
	r, w := faultyRunner(t, 2)
	n := 0
	w.verify = func() error {
		if n++; n == 3 { // the second run of the first policy
			return &workload.Mismatch{Array: "x", Index: 7, Got: 1, Want: 2, Wrong: 1, Of: 9}
		}
		return nil
	}
	err := r.all(t.Context())
	var m *workload.Mismatch
	if !errors.As(err, &m) || !strings.Contains(err.Error(), "policy lru: verification failed: array \"x\" differs") {
		t.Errorf("%v", err)
	}
	var text, doc bytes.Buffer
	if err := errors.Join(r.text(&text), r.writeJSON(&doc)); err != nil {
		t.Fatal(err)
	}
	if strings.Count(text.String(), " FAILED\n") != 1 || strings.Count(text.String(), " verified\n") != 1 {
		t.Errorf("%s", text.String())
	}
	var j struct {
		Complete bool
		Rows     []struct {
			Verified bool
			Runs     int
		}
	}
	if err := json.Unmarshal(doc.Bytes(), &j); err != nil || j.Complete || len(j.Rows) != 2 || j.Rows[0].Verified || j.Rows[0].Runs != 2 || !j.Rows[1].Verified {
		t.Errorf("%v %+v", err, j)
	}
}

// TestRunInterrupted: Ctrl-C keeps what is known, which is no failure.
func TestRunInterrupted(t *testing.T) {
	r, w := faultyRunner(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	w.run = func() error {
		if n++; n == 4 { // the second run of the second policy
			cancel()
		}
		return ctx.Err()
	}
	if err := r.all(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if len(r.rows) != 2 || len(r.rows[0].runs) != 2 || len(r.rows[1].runs) != 1 || r.complete() || r.rows[1].result(true) != "verified" {
		t.Errorf("%+v", r.rows)
	}
}

// TestRunMedians: figures are medians, and their spread is told.
func TestRunMedians(t *testing.T) {
	r, _ := faultyRunner(t, 3)
	if err := r.all(t.Context()); err != nil {
		t.Fatal(err)
	}
	x := &r.rows[0]
	for i := range x.runs {
		x.runs[i].took = []time.Duration{5, 1, 3}[i] * time.Second
	}
	var text bytes.Buffer
	if err := r.text(&text); err != nil || !strings.Contains(text.String(), " 3s (1s to 5s) ") {
		t.Errorf("%v %s", err, text.String())
	}
	x.runs[1].after.Counters.T1Hits++
	text.Reset()
	if err := r.text(&text); err != nil || !strings.Contains(text.String(), "note: T1 hits of lru differ from run to run") {
		t.Errorf("%v %s", err, text.String())
	}
}

// TestRunTimes: the parts of a run's time are all of it, and each has what is its own.
func TestRunTimes(t *testing.T) {
	r, w := faultyRunner(t, 1)
	const long = 50 * time.Millisecond
	w.verify = func() error { time.Sleep(2 * long); return nil }
	w.run = func() error { time.Sleep(2 * long); return nil }
	begun := time.Now()
	x, err := r.once(t.Context(), r.policies[0], 0)
	all := time.Since(begun)
	if err != nil {
		t.Fatal(err)
	}
	sum := x.setup + x.took + x.flush + x.checked + x.other
	if sum > all || sum < all-long {
		t.Errorf("the parts %v, %v, %v, %v and %v are %v, not %v", x.setup, x.took, x.flush, x.checked, x.other, sum, all)
	}
	if x.took < 2*long || x.checked < 2*long || x.other <= 0 || x.other > all-4*long {
		t.Errorf("of %v the run took %v, verifying %v, and all else %v", all, x.took, x.checked, x.other)
	}
}
