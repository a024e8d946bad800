package report

import (
	"bytes"
	"encoding/csv"
	"errors"
	"strings"
	"testing"

	"github.com/tritier/tritier/sim/timed"
)

// TestTimed: every form has the virtual time next to the closed form, and says
// that both are modelled.
func TestTimed(t *testing.T) {
	r := sample(t, oneSize)
	cpus := 2.0
	for i := range r.Results {
		r.Results[i].Timed = &timed.Result{Label: timed.Label, Path: "file", InFlight: 64, Seconds: 1.5, FlushSeconds: 0.25, BoundSeconds: 1.25,
			Accesses: []timed.Latency{{Name: "t3 fetch", Count: 7, MeanNS: 50_000}}, Usage: []timed.Usage{{Name: "t3-drives", Share: 0.95}},
			Bottleneck: "t3-drives", Bill: timed.Bill{Initiator: "cpu", Ends: "host", LogicalCPUs: &cpus}}
	}
	var table, page, asCSV, asJSON bytes.Buffer
	if err := errors.Join(r.Table(&table), r.HTML(&page), r.CSV(&asCSV), r.JSON(&asJSON)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"64 accesses in flight by path file", "modelled time: closed form", "1.50 s, of which 250 ms a flush", "closed form of the same moves 1.25 s",
		"t3 fetch     7, mean 50.0 µs", "t3-drives 95 %", "2 logical CPUs", "payload ends in host memory", "not measured"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	for _, want := range []string{"virtual time", "1.50 s", "bottleneck", "path file", "controller.cost_ns", "11.64 M IOPS"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, want := range []string{`"label": "modelled"`, `"modelled_bound_seconds": 1.25`} {
		if !strings.Contains(asJSON.String(), want) {
			t.Errorf("JSON lacks %s", want)
		}
	}
	one := 1.0
	if text := billText(&timed.Bill{Initiator: "gpu", Ends: "gpu", LogicalCPUs: &one}); text != "GPU threads initiate, 1 logical CPU" {
		t.Error(text)
	}
	lines, err := csv.NewReader(&asCSV).ReadAll()
	if err != nil || len(lines) < 2 {
		t.Fatal(err, len(lines))
	}
	last := len(lines[0]) - 1
	if lines[0][last] != "timed.bottleneck" || lines[1][last] != "t3-drives" || lines[0][last-4] != "timed.modelled_seconds" || lines[1][last-4] != "1.5" {
		t.Errorf("CSV columns %v, values %v", lines[0], lines[1])
	}
}
