package timed

import (
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/tritier/tritier/internal/servicetime"
)

// FuzzModel: whatever figures a valid model has, a run ends with finite numbers,
// or is refused.
func FuzzModel(f *testing.F) {
	for _, name := range servicetime.Names() {
		data, err := os.ReadFile("../../internal/servicetime/presets/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint64(4096))
	}
	f.Add([]byte(extreme(1e-300, 1e300)), uint64(1))
	f.Add([]byte(extreme(1e300, 1e-300)), uint64(1<<62))
	f.Add([]byte(extreme(1e12, 1e-3)), uint64(4096))
	f.Fuzz(func(t *testing.T, data []byte, size uint64) {
		m, err := servicetime.Parse(data)
		if err != nil {
			return
		}
		for _, path := range m.PathNames() {
			r, err := Measure(m, Load{Path: path, Size: size, Requests: 100, InFlight: 3})
			if err != nil {
				continue
			}
			for _, v := range []float64{r.Seconds, r.IOPS, r.BytesPerSecond, r.Latency.MeanNS, r.Bill.ThreadSeconds} {
				if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
					t.Fatalf("%s: %+v", path, r)
				}
			}
			if r.Seconds == 0 || r.Requests < 100 || r.Bottleneck == "" {
				t.Fatalf("%s: %+v", path, r)
			}
		}
	})
}

// extreme is a model with figures at the ends of what a float holds.
func extreme(latency, bandwidth float64) string {
	figure := func(v float64) string { return fmt.Sprintf("{value: %g, kind: assumed, source: x}", v) }
	edge := fmt.Sprintf("{latency_ns: %s, bandwidth_bytes_per_s: %s, iops: %s, concurrency: %s, controller_ns: %s, controller_units: %s}",
		figure(latency), figure(bandwidth), figure(bandwidth), figure(1<<20), figure(latency), figure(latency))
	return fmt.Sprintf("version: 1\nname: x\ndrives: {name: x, count: 1024, read: %s, write: %s}\ninitiator: {cost_ns: %s, threads: %s}\n",
		edge, edge, figure(latency), figure(bandwidth))
}
