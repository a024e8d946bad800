package main

import (
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// fire makes a plan that hits reads so many times.
func fire(t *testing.T, plan string, reads int) *faultSwitch {
	w, err := parseFaults(plan, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.armed.Store(true)
	for range reads {
		w.plan(0).Command(&soft.CommandInfo{Queue: 1, Opcode: libnvm.OpRead})
	}
	return w
}

// What was asked for and came is no failure; anything else is one.
func TestJudgeFaults(t *testing.T) {
	const unread, late = "Unrecovered Read Error", "no completion within the deadline"
	for _, c := range []struct {
		plan string
		seen map[string]uint64
		want string
	}{
		{"error=1", map[string]uint64{unread: 10}, ""},
		{"error=1", map[string]uint64{unread: 11}, `11 I/Os ended with "Unrecovered Read Error", where 10 were injected`},
		{"error=1", map[string]uint64{unread: 9}, `"Unrecovered Read Error" was injected into 10 I/Os, of which only 9 ended so`},
		{"error=1", nil, "of which only 0 ended so"},
		{"error=1", map[string]uint64{unread: 10, "Write Fault": 1}, `1 I/O ended with "Write Fault", where 0 were injected`},
		{"error=1", map[string]uint64{unread: 10, "Internal Error": 1}, `1 I/O ended with "Internal Error", which no injected fault explains`},
		{"error=1", map[string]uint64{unread: 9, late: 1}, `1 I/O ended with "no completion within the deadline", which no injected`},
		{"error=1,drop=1", map[string]uint64{late: 10}, ""},
		{"error=1,drop=1", map[string]uint64{unread: 3, timedOut: 7}, ""},
		{"drop=1", map[string]uint64{late: 9, bamio.Busy.String(): 1}, ""},
		{"drop=1", map[string]uint64{late: 11}, "11 I/Os ended at the deadline, where only 10 were not answered in time by request"},
		{"drop=1", map[string]uint64{late: 6, timedOut: 5}, "11 I/Os ended at the deadline"},
		{"drop=1,delay:1s=1", map[string]uint64{late: 20}, ""},
		{"drop=1,delay:1ms=1", map[string]uint64{late: 11}, "11 I/Os ended at the deadline"},
		{"delay:1s=1", map[string]uint64{late: 11}, "11 I/Os ended at the deadline"},
		{"duplicate=1,reorder=1", map[string]uint64{late: 1}, "which no injected fault explains"},
		{"drop=1", map[string]uint64{"the queue has failed before": 10}, "which no injected fault explains"},
		{"delay:1ms=1", map[string]uint64{timedOut: 1}, `1 I/O ended with "timed out", which no injected`},
		{"delay:1s=1,error=1", map[string]uint64{timedOut: 10}, ""},
		{"duplicate=1,reorder=1,torn=1", nil, ""},
		{"duplicate=1,reorder=1,torn=1", map[string]uint64{"Aborted": 1}, "which no injected fault explains"},
	} {
		err := fire(t, c.plan, 10).judge(c.seen, time.Second, 10)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, %v: %v; want %q", c.plan, c.seen, err, c.want)
		}
	}
}

// Nobody finds a queue full of which half was not kept: the rest may be commands that have ended,
// whose places nobody has given back yet.
func TestJudgeBusy(t *testing.T) {
	busy := map[string]uint64{bamio.Busy.String(): 3}
	for places, ok := range map[int]bool{10: true, 19: true, 20: false, 0: false} {
		if err := fire(t, "drop=1", 10).judge(busy, time.Second, places); (err == nil) != ok {
			t.Errorf("10 dropped, %d places: %v", places, err)
		}
	}
}

// Both benches end with the error that errors of no fault are, but not when another
// error has ended them before.
func TestVerdictJudgesFaults(t *testing.T) {
	strange := map[string]uint64{"Internal Error": 2}
	r := &ioReport{ioSettings: &ioSettings{f: &benchIOFlags{timeout: time.Second}, faults: fire(t, "error=1", 0)}}
	b := &bench{f: &benchFlags{timeout: time.Second}, faults: r.faults}
	if err1, err2 := r.verdict(), b.verdict(true); err1 != nil || err2 != nil {
		t.Errorf("nothing happened: %v, %v", err1, err2)
	}
	r.rows, b.seen = []ioRow{{errors: strange}}, strange
	for i, err := range []error{r.verdict(), b.verdict(true)} {
		if err == nil || !strings.HasPrefix(err.Error(), `not as --faults asked: 2 I/Os ended with "Internal Error", which`) {
			t.Errorf("bench %d: %v", i, err)
		}
	}
	r.failed = true
	if err1, err2 := r.verdict(), b.verdict(false); err1 != nil || err2 != nil {
		t.Errorf("besides another error: %v, %v", err1, err2)
	}
}
