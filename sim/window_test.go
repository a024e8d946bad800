package sim

import (
	"context"
	"errors"
	"testing"
)

// The counters at a cut are those of a replay that ends there, and those at
// the end are Replay's.
func TestSnapshots(t *testing.T) {
	tr := loadTest(t, "mqsim_tpcc")
	n := len(tr.Accesses)
	for _, p := range everyPolicy(t) {
		j := Job{Policy: p, GPUFrames: 50, HostFrames: 200, Seed: 5}
		got, err := Snapshots(t.Context(), tr, j, 0, n/3, n/3, n)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := Replay(t.Context(), tr, []Job{j}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		part, err := Snapshots(t.Context(), &Trace{Info: tr.Info, Accesses: tr.Accesses}, j, n/3)
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Accesses != 0 || got[1] != part[0] || got[2] != got[1] || got[3] != whole[0].Counters {
			t.Errorf("%s: %+v", p, got)
		}
	}
}

func TestSnapshotsRefuses(t *testing.T) {
	tr := loadTest(t, "mqsim_tpcc")
	j := Job{Policy: spec(t, "lru"), GPUFrames: 50}
	for _, cuts := range [][]int{{5, 4}, {-1}, {len(tr.Accesses) + 1}} {
		if _, err := Snapshots(t.Context(), tr, j, cuts...); err == nil {
			t.Errorf("cuts %v are accepted", cuts)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Snapshots(ctx, tr, j, 5); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Snapshots(t.Context(), tr, Job{Policy: spec(t, "s3-fifo"), GPUFrames: 1}, 5); err == nil {
		t.Error("a tier that is too small is accepted")
	}
}
