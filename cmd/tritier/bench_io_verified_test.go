package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

// Where no command succeeds, nothing is said to be verified: not in the table, not in JSON.
// The commands failed as they were asked to, which is status 0.
func TestBenchIONothingVerified(t *testing.T) {
	withIOGPU(t)
	for _, who := range []string{"gpu", "cpu"} {
		args := []string{"bench", "io", "mem:1MiB", "--initiator", who, "--size", "4KiB", "--warps", "2", "--lanes", "8", "--queues", "2",
			"--seconds", "0.02", "--runs", "1", "--faults", "error=1"}
		out, _, err := tritier(t.Context(), args...)
		if err != nil {
			t.Errorf("%s: %v", who, err)
		}
		wantLines(t, out, "verified: NOTHING: no byte was read and compared\n", "in runs of the others no I/O succeeded\n")
		if strings.Contains(out, "all as written") {
			t.Errorf("%s: %s", who, out)
		}
		if out, _, err = tritier(t.Context(), append(args, "--json")...); err != nil {
			t.Errorf("%s: %v", who, err)
		}
		if doc := decodeIO(t, out); doc.Verified || len(doc.Rows) != 1 || doc.Rows[0].Verified || doc.Rows[0].VerifiedBytes != 0 {
			t.Errorf("%s: %s", who, out)
		}
	}
	out, _, err := tritier(t.Context(), "nvme", "bench", "mem:1MiB", "--verify", "--size", "4KiB", "--depth", "4", "--seconds", "0.02", "--runs", "1", "--faults", "error=1")
	if err != nil {
		t.Error(err)
	}
	wantLines(t, out, "verified: NOTHING: no byte was read and compared\n")
}

// What is known of other rows does not hide one of which nothing is.
func TestBenchIOVerification(t *testing.T) {
	good, none, open := ioRow{verified: 4096, checked: true}, ioRow{checked: true}, ioRow{verified: 4096}
	for want, rows := range map[string][]ioRow{
		"every byte; 8,192 bytes compared, all as written":                                                           {good, good},
		"4,096 bytes compared, all as written, but nothing in 1 row, where no read succeeded":                        {good, none},
		"8,192 bytes compared, all as written, but what was written beside writes that failed is not known in 1 row": {good, open},
		"NOTHING: no byte was read and compared":                                                                     {none, none},
		"WRONG DATA among 4,096 bytes compared":                                                                      {good, {checked: true, wrong: 1}},
	} {
		r := &ioReport{rows: rows}
		if got := r.verification(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if r.verifiedAll() != strings.HasPrefix(want, "every byte") {
			t.Errorf("%q, and verified %v", want, r.verifiedAll())
		}
	}
}

// I/Os that fail count towards --ios, whoever starts them: a run in which all fail ends too, and not
// after the ten minutes that bound it. GPU threads give up before, if none succeeds.
func TestFailedIOsCount(t *testing.T) {
	withIOGPU(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, who := range []string{"gpu", "cpu"} {
		for _, share := range []string{"1", "0.2"} {
			out, _, err := tritier(ctx, ioArgs("--initiator", who, "--ios", "2000", "--runs", "1", "--faults", "error="+share, "--json")...)
			if err != nil {
				t.Fatalf("%s, error=%s: %v", who, share, err)
			}
			x := decodeIO(t, out).Rows[0]
			failed := x.Errors["Unrecovered Read Error"]
			if share == "1" && (x.IOs > 0 || failed == 0 || failed < 2000 && who == "cpu") {
				t.Errorf("%s, all fail: %d I/Os succeeded and %d failed", who, x.IOs, failed)
			}
			if share != "1" && (x.IOs > 1900 || x.IOs+failed < 2000) {
				t.Errorf("%s, one in five fails: %d I/Os succeeded and %d failed of 2000", who, x.IOs, failed)
			}
		}
	}
	if _, _, err := tritier(ctx, "nvme", "bench", "mem:1MiB", "--size", "4KiB", "--depth", "4", "--ios", "200", "--warmup", "0.01", "--runs", "2", "--faults", "error=1"); err != nil {
		t.Errorf("nvme bench: %v", err)
	}
}
