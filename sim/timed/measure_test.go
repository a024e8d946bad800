package timed

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tritier/tritier/internal/servicetime"
)

func figure(v float64) servicetime.Figure {
	return servicetime.Figure{Value: v, Kind: servicetime.Assumed, Source: "test"}
}

func optional(v float64) *servicetime.Figure {
	f := figure(v)
	return &f
}

// drawModel makes machines of all kinds, with constant latencies.
func drawModel(t *rapid.T) *servicetime.Model {
	num := func(name string, lo, hi float64) servicetime.Figure {
		return figure(rapid.Float64Range(lo, hi).Draw(t, name))
	}
	edge := func(name string, links ...string) servicetime.Edge {
		e := servicetime.Edge{LatencyNS: num(name+" latency", 100, 1e5), Bandwidth: num(name+" bandwidth", 1e8, 2e10),
			Concurrency: figure(float64(rapid.IntRange(1, 64).Draw(t, name+" slots"))), Links: links}
		if rapid.Bool().Draw(t, name+" limited") {
			e.IOPS = optional(rapid.Float64Range(1e4, 1e7).Draw(t, name+" iops"))
		}
		return e
	}
	m := &servicetime.Model{Version: 1, Name: "drawn", Links: map[string]servicetime.Link{
		"in": {Bandwidth: num("in", 1e9, 5e10)}, "out": {Bandwidth: num("out", 1e9, 5e10)}, "both": {Bandwidth: num("both", 1e9, 5e10)}},
		GPU:       &servicetime.GPU{T1: edge("t1"), T2T1: edge("promote", "in", "both"), T1T2: edge("demote", "out", "both")},
		Drives:    servicetime.Drives{Count: rapid.IntRange(1, 5).Draw(t, "drives"), Read: edge("read", "in", "both"), Write: edge("write", "out", "both")},
		Initiator: &servicetime.Initiator{CostNS: num("cost", 10, 5000), Threads: num("threads", 1, 32)}}
	m.GPU.T1.AccessBytes = optional(512)
	if rapid.Bool().Draw(t, "controller") {
		m.Drives.Read.ControllerNS, m.Drives.Read.ControllerUnits = optional(rapid.Float64Range(10, 3000).Draw(t, "command")), optional(8)
	}
	return m
}

// exact is the tolerance where nothing is drawn: requests go round in a pattern
// that need not repeat with their number, and a measurement ends within it. The
// worst that drawn machines showed was 1.0 %.
const exact = 0.04

// TestMeasureRelations: more never hurts, and no figure beats the closed form.
func TestMeasureRelations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		l := Load{Size: 512 << rapid.IntRange(0, 12).Draw(t, "size"), InFlight: rapid.IntRange(1, 200).Draw(t, "in flight"),
			Requests: 3000, Write: rapid.Bool().Draw(t, "write")}
		base := measured(t, m, l)
		if base.Requests < l.Requests || base.Requests >= l.Requests+l.InFlight || base.Label != "modelled" {
			t.Fatalf("%d requests %s, want %d", base.Requests, base.Label, l.Requests)
		}
		if base.Seconds < base.BoundSeconds*(1-exact) {
			t.Fatalf("%v s beat the bound of %v s", base.Seconds, base.BoundSeconds)
		}
		// Little's law, up to the requests that were under way at either end.
		if n := base.IOPS * base.Latency.MeanNS * 1e-9; n < 0.85*float64(l.InFlight) || n > 1.15*float64(l.InFlight) {
			t.Fatalf("%v in flight by rate and latency, want %d", n, l.InFlight)
		}
		more := l
		more.InFlight = l.InFlight * 2
		faster := map[string]Measurement{"in flight": measured(t, m, more)}
		more = l
		more.Drives = m.Drives.Count + rapid.IntRange(1, 3).Draw(t, "more drives")
		faster["drives"] = measured(t, m, more)
		wide := *m
		wide.Links = map[string]servicetime.Link{}
		for name, link := range m.Links {
			wide.Links[name] = servicetime.Link{Bandwidth: figure(link.Bandwidth.Value * 2)}
		}
		faster["bandwidth"] = measured(t, &wide, l)
		for name, f := range faster {
			if f.IOPS < base.IOPS*(1-exact) {
				t.Fatalf("more %s is slower: %.5g IOPS after %.5g", name, f.IOPS, base.IOPS)
			}
		}
	})
}

func measured(t *rapid.T, m *servicetime.Model, l Load) Measurement {
	out, err := Measure(m, l)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMeasureSpread: drawn latencies keep the mean, so that only the last per cent
// differs; ten standard errors of a drive's latency are 2 %.
func TestMeasureSpread(t *testing.T) {
	m := preset(t, "1x980pro")
	for _, c := range []struct {
		name     string
		inFlight int
		size     uint64
		want     float64 // IOPS
	}{
		{"one by latency", 1, 4 * kib, 1 / 45e-6},
		{"deep by iops", 120, 4 * kib, 1e6},
		{"deep by bandwidth", 64, 64 * kib, 6.25e9 / 65536},
	} {
		r := measure(t, m, Load{InFlight: c.inFlight, Size: c.size})
		if r.IOPS < 0.98*c.want || r.IOPS > 1.02*c.want {
			t.Errorf("%s: %.5g IOPS, want %.5g", c.name, r.IOPS, c.want)
		}
		if l := r.Latency; c.inFlight == 1 && (l.P50NS > 45000 || l.P99NS < 80000 || l.P99NS > 100000) {
			t.Errorf("%s: median %d, 99th percentile %d ns; want below the mean of 45 us, and about twice it", c.name, l.P50NS, l.P99NS)
		}
	}
}

func TestMeasureIsDeterministic(t *testing.T) {
	m := preset(t, "h200-4xgen5")
	l := Load{Size: 4096, InFlight: 100, Seed: 7}
	a, b := measure(t, m, l), measure(t, m, l)
	if !reflect.DeepEqual(a, b) {
		t.Errorf("the same seed gives %+v and %+v", a, b)
	}
	l.Seed = 8
	if c := measure(t, m, l); reflect.DeepEqual(c.Latency, a.Latency) {
		t.Error("another seed gives the same latencies")
	}
}

func TestMeasureRefuses(t *testing.T) {
	m := preset(t, "h200-4xgen5")
	slow := *m
	slow.Drives.Read.Bandwidth = figure(1)
	for name, c := range map[string]struct {
		m    *servicetime.Model
		l    Load
		want string
	}{
		"path":     {m, Load{Path: "bam", Size: 4096}, `no access path "bam"; it has cpu, file, nvme`},
		"size":     {m, Load{}, "size of 1 byte"},
		"flight":   {m, Load{Size: 1, InFlight: -1}, "negative"},
		"many":     {m, Load{Size: 1, InFlight: 1<<24 + 1}, "in flight; it must be 1 to"},
		"drives":   {m, Load{Size: 1, Drives: 5000}, "drives at most"},
		"too slow": {&slow, Load{Size: 1 << 20}, "more than a minute"},
	} {
		if _, err := Measure(c.m, c.l); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestEveryPath runs every path of every preset, and none beats its closed form.
func TestEveryPath(t *testing.T) {
	for _, name := range servicetime.Names() {
		m := preset(t, name)
		for _, path := range m.PathNames() {
			for _, write := range []bool{false, true} {
				r := measure(t, m, Load{Path: path, Size: 64 * kib, Write: write})
				if r.Seconds < r.BoundSeconds*(1-exact) || r.Path != path || len(r.Usage) == 0 || r.Bottleneck == "" {
					t.Errorf("%s %s: %+v", name, path, r)
				}
			}
		}
	}
}
