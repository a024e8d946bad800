package gpuinfo_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/internal/gpuinfo"
)

// TestGPU compares with what the CUDA driver says of this machine's GPUs.
func TestGPU(t *testing.T) {
	d, err := cuda.Open()
	var devices []*cuda.Device
	if err == nil {
		devices, err = d.Devices()
	}
	if err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "gpu") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	r := gpuinfo.Open()
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, v := range devices {
		i, err := r.Query(t.Context(), v.PCIAddress())
		if err != nil {
			var none *gpuinfo.NotFoundError
			if errors.As(err, &none) && errors.Is(err, gpuinfo.ErrUnavailable) {
				t.Logf("%s: neither NVML nor sysfs here: %v", v, err)
				continue
			}
			t.Fatal(err)
		}
		t.Logf("%s: %+v", v, i)
		if i.UUID.Known() && i.UUID.Value != v.UUID() {
			t.Errorf("%s: UUID %s, CUDA says %s", v, i.UUID.Value, v.UUID())
		}
		if m := i.Memory; m.Known() && (m.Value.Total < v.Memory() || m.Value.Used+m.Value.Free > m.Value.Total) {
			t.Errorf("%s: memory %+v, CUDA says %d bytes", v, m.Value, v.Memory())
		}
		if i.Current.Known() && i.Max.Known() && i.Current.Value.Width > i.Max.Value.Width {
			t.Errorf("%s: link %v, at most %v", v, i.Current.Value, i.Max.Value)
		}
		through, err := r.Throughput(t.Context(), v.PCIAddress())
		if err != nil && !errors.Is(err, gpuinfo.ErrUnavailable) {
			t.Error(err)
		}
		t.Logf("traffic %+v, %v", through, err)
	}
}
