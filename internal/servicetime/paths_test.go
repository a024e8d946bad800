package servicetime

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestBy(t *testing.T) {
	m := load(t, "v100-4x980pro")
	by, name, p, err := m.By("")
	if err != nil || name != "bam" || p.Ends != InGPU || by.Initiator.Who != ByGPU || !slices.Equal(by.Drives.Read.Links, []string{"array", "pcie-in", "pcie-both"}) {
		t.Errorf("the default path is %q: %+v, %v", name, p, err)
	}
	by, _, p, err = m.By("spdk")
	if err != nil || p.Ends != InHost || by.Initiator.Who != ByCPU || !slices.Equal(by.Drives.Read.Links, []string{"array"}) || p.Outstanding(3) != 768 {
		t.Errorf("spdk: %+v, %v", p, err)
	}
	if m.Drives.Read.Links[1] != "pcie-in" {
		t.Error("By has changed its model")
	}
	// The closed form reckons by the path: SPDK passes the GPU's link.
	c := Counts{T3Reads: 1 << 20, PageSize: 1 << 16}
	if bam, spdk := m.Estimate(c), by.Estimate(c); bam.Bottleneck != "link:pcie-in" || spdk.Seconds > bam.Seconds/1.5 {
		t.Errorf("BaM %v s by %s, SPDK %v s by %s", bam.Seconds, bam.Bottleneck, spdk.Seconds, spdk.Bottleneck)
	}
	var unknown *UnknownPathError
	if _, _, _, err := m.By("nothing"); !errors.As(err, &unknown) || !strings.Contains(err.Error(), "bam, bam-far, gds, spdk") {
		t.Errorf("an unknown path: %v", err)
	}
	plain := load(t, "4x980pro")
	if by, name, p, err := plain.By(""); err != nil || name != DefaultName || by != plain || p.Outstanding(4) < 1<<16 {
		t.Errorf("a model without paths: %s, %+v, %v", name, p, err)
	}
	if got := plain.WithDrives(0).Drives.Count; got != 1 {
		t.Errorf("%d drives for none", got)
	}
	if got := plain.WithDrives(9).Drives.Count; got != 9 || plain.Drives.Count != 4 {
		t.Errorf("%d and %d drives, want 9 and 4", got, plain.Drives.Count)
	}
}

func TestCrossing(t *testing.T) {
	p := load(t, "v100-4x980pro").Paths["bam-far"]
	for size, want := range map[uint64]float64{512: 22500, 4096: 22500, 4097: 0, 8192: 0} {
		if got := p.CrossingNS(size); got != want {
			t.Errorf("%d bytes cross for %v ns, want %v", size, got, want)
		}
	}
}

func TestPathErrors(t *testing.T) {
	good, err := presets.ReadFile("presets/v100-4x980pro.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"default", "default_path: bam", "default_path: nothing", `default_path names "nothing"`},
		{"no default", "default_path: bam\n", "", `default_path names ""`},
		{"ends", "ends: host", "ends: nowhere", `paths.spdk.ends is "nowhere"`},
		{"link", "read_links: [array]", "read_links: [sea]", `paths.spdk.read_links names "sea"`},
		{"write link", "write_links: [array]", "write_links: [sea]", `paths.spdk.write_links names "sea"`},
		{"who", "who: cpu\n      cost_ns: {value: 1333", "who: nobody\n      cost_ns: {value: 1333", `paths.spdk.initiator.who is "nobody"`},
		{"cost", "cost_ns: {value: 1333", "cost_ns: {value: 0", "paths.spdk.initiator.cost_ns must be a positive"},
		{"depth", "in_flight_per_drive: {value: 256", "in_flight_per_drive: {value: -1", "paths.spdk.in_flight_per_drive must be a positive"},
		{"two depths", "in_flight_per_drive: {value: 256", "in_flight: {value: 1, kind: assumed, source: x}\n    in_flight_per_drive: {value: 256", "paths.spdk needs either in_flight or"},
		{"deep", "in_flight_per_drive: {value: 256", "in_flight_per_drive: {value: 1e9", "paths.spdk.in_flight_per_drive is above"},
		{"share", "gpu_share: {value: 1, kind: measured, source: \"DaMoN 2025 study: the whole GPU\"}", "gpu_share: {value: 1.5, kind: measured, source: x}", "paths.bam-far.bill.gpu_share is 1.5"},
		{"bill's source", "gpu_share: {value: 0, kind: measured, source: \"DaMoN 2025 study: no SM time\"}", "gpu_share: {value: 0, kind: measured, source: \"\"}", "paths.gds.bill.gpu_share names no source"},
		{"crossing", "latency_ns: {value: 22500", "latency_ns: {value: -5", "paths.bam-far.crossing.latency_ns must be a positive"},
		{"name", "  gds:\n", "  a b:\n", "paths.a b must be a word"},
		{"no initiator", "spdk:\n", "none:\n    ends: gpu\n    in_flight: {value: 1, kind: assumed, source: x}\n    description: x\n    bill: {}\n  spdk:\n", "paths.none.initiator is required"},
		{"controller", "controller_ns: {value: 1500", "controller_ns: {value: -1", "drives.read.controller_ns must be a positive"},
		{"field", "ends: host", "ends: host\n    colour: red", "colour"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := strings.Replace(string(good), c.old, c.new, 1)
			if bad == string(good) {
				t.Fatalf("%q is not in the preset", c.old)
			}
			if _, err := Parse([]byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

// TestControllerAndPools works out by hand what commands cost beside bytes.
func TestControllerAndPools(t *testing.T) {
	m := simple()
	f := func(v float64) *Figure { return &Figure{Value: v, Kind: Assumed, Source: "test"} }
	m.Drives.Read.ControllerNS = f(2000)
	c := Counts{T3Reads: 1e6, PageSize: 4000} // 1 us of bytes, 2 us of command, two drives
	if e := m.Estimate(c); e.Bottleneck != EdgeT3Read || !near(e.Seconds, 1.5) {
		t.Errorf("%s %v s, want t3-read and 1.5 s", e.Bottleneck, e.Seconds)
	}
	m.Initiator = &Initiator{CostNS: *f(1000), Threads: *f(4), CostNSPerKiB: f(2048)}
	if got, want := m.Initiator.CommandNS(4096), 1000.0+4*2048; got != want {
		t.Errorf("a command takes %v ns, want %v", got, want)
	}
	c.PageSize = 4096
	if e := m.Estimate(c); e.Bottleneck != EdgeInitiator || !near(e.Seconds, 1e6*9192e-9/4) {
		t.Errorf("%s %v s, want the initiator and %v s", e.Bottleneck, e.Seconds, 1e6*9192e-9/4)
	}
	m.Controller = &Initiator{CostNS: *f(4000), Threads: *f(1)}
	if e := m.Estimate(c); e.Bottleneck != EdgeController || !near(e.Seconds, 4) {
		t.Errorf("%s %v s, want the controller and 4 s", e.Bottleneck, e.Seconds)
	}
	// A queue reckons the same.
	q, last := m.NewQueue(1), uint64(0)
	for range 1000 {
		last = max(last, q.Submit(0, OpRead, 4000))
	}
	if want := 1000 * 3e3; math.Abs(float64(last)-want) > 0.01*want && float64(last) != 1000/50*100000 {
		t.Errorf("1000 reads take %d ns, want %v", last, want)
	}
}

// TestFigures: every number of a file is listed, with its provenance.
func TestFigures(t *testing.T) {
	for _, name := range Names() {
		data, err := presets.ReadFile("presets/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		list := load(t, name).Figures()
		if want := strings.Count(string(data), "{value:"); len(list) != want {
			t.Errorf("%s: %d figures, its file has %d", name, len(list), want)
		}
		seen := map[string]bool{}
		for _, f := range list {
			if f.Source == "" || f.Kind == "" || seen[f.Where] {
				t.Errorf("%s: %+v", name, f)
			}
			seen[f.Where] = true
		}
	}
}
