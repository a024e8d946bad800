package doctor

import (
	"slices"
	"testing"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/internal/gpuinfo"
)

const (
	address0, address1 = "0000:01:00.0", "0000:02:00.0"
	gib                = uint64(1 << 30)
)

// figure is a known one.
func figure[T any](v T, from gpuinfo.Source) gpuinfo.Figure[T] {
	return gpuinfo.Figure[T]{Value: v, Source: from}
}

func lost[T any]() gpuinfo.Figure[T] { return gpuinfo.Figure[T]{Err: noCgo} }

// healthy is what NVML says of a GPU of 4 GiB in a good slot.
func healthy() gpuinfo.Info {
	return gpuinfo.Info{
		Current: figure(gpuinfo.Link{Generation: 5, Width: 16}, gpuinfo.NVML), Max: figure(gpuinfo.Link{Generation: 5, Width: 16}, gpuinfo.NVML),
		OwnGeneration: figure(5, gpuinfo.NVML), Utilisation: figure(gpuinfo.Utilisation{GPU: 12}, gpuinfo.NVML),
		Memory: figure(gpuinfo.Memory{Total: 4 * gib, Free: 3 * gib, Used: gib}, gpuinfo.NVML), Temperature: figure(41, gpuinfo.NVML),
		ECC: figure(gpuinfo.ECC{Corrected: 2}, gpuinfo.NVML), BAR1: figure(gpuinfo.Memory{Total: 4 * gib}, gpuinfo.NVML),
		NUMANode: figure(1, gpuinfo.NVML), CPUs: figure([]int{4, 5, 6, 7}, gpuinfo.NVML),
	}
}

// bare is what sysfs says of another one, in a worse slot.
func bare() gpuinfo.Info {
	return gpuinfo.Info{
		Current: figure(gpuinfo.Link{Generation: 4, Width: 8}, gpuinfo.Sysfs), Max: figure(gpuinfo.Link{Generation: 4, Width: 16}, gpuinfo.Sysfs),
		OwnGeneration: figure(5, gpuinfo.Sysfs), Utilisation: lost[gpuinfo.Utilisation](), Memory: lost[gpuinfo.Memory](), Temperature: lost[int](),
		ECC: lost[gpuinfo.ECC](), BAR1: figure(gpuinfo.Memory{Total: gib / 4}, gpuinfo.Sysfs), NUMANode: lost[int](), CPUs: lost[[]int](),
	}
}

// withInfo is a machine with one GPU and what is known about it.
func withInfo(t *testing.T, i gpuinfo.Info, opts ...cudafake.Option) Machine {
	m := withGPUs(t, testMachine(t, nil), opts...)
	m.GPUs = &fakeGPUs{infos: map[string]gpuinfo.Info{address0: i}}
	return m
}

func TestTwoGPUs(t *testing.T) {
	m := withGPUs(t, testMachine(t, nil),
		cudafake.WithDevice(cudafake.DeviceSpec{Name: "Good GPU"}),
		cudafake.WithDevice(cudafake.DeviceSpec{Name: "Poor GPU", Memory: 2 * gib, Attributes: map[cuda.Attribute]int{
			cuda.ComputeCapabilityMajor: 6, cuda.ComputeCapabilityMinor: 1, cuda.AsyncEngineCount: 1, cuda.HostRegisterSupported: 0, cuda.DMABufSupported: 1,
		}}))
	m.GPUs = &fakeGPUs{infos: map[string]gpuinfo.Info{address0: healthy(), address1: bare()}}
	m.Calibration = func(uuid, driver string) (Status, string) {
		if driver != "13.0" {
			t.Errorf("calibration is asked for driver %q", driver)
		}
		if uuid[len(uuid)-1] == '1' {
			return OK, "measured yesterday"
		}
		return Missing, "none"
	}
	r := collect(t, m)
	want(t, r, "driver", "", "gpus", OK, "2 GPUs")
	if r.Peers == nil || len(r.Peers.GPUs) != 2 {
		t.Fatalf("peers %+v", r.Peers)
	}
	good, poor := r.Peers.GPUs[0], r.Peers.GPUs[1]
	want(t, r, "gpu", good, "identity", OK, good, address0)
	want(t, r, "gpu", good, "memory", OK, "4GiB")
	want(t, r, "gpu", good, "compute", OK, "9.0, 132 multiprocessors")
	want(t, r, "gpu", good, "copy-engines", OK, "3")
	want(t, r, "gpu", good, "host-register", OK, "yes")
	want(t, r, "gpu", good, "host-atomics", Missing, "NVLink-C2C")
	want(t, r, "gpu", good, "pageable-access", Missing, "HMM")
	want(t, r, "gpu", good, "dma-buf", Missing, "CUDA 11.7")
	want(t, r, "gpu", good, "link", OK, "Gen5 x16, 63.0 GB/s each way", "nvml")
	want(t, r, "gpu", good, "bar1", OK, "4GiB, all of it")
	want(t, r, "gpu", good, "numa", OK, "node 1, CPUs 4-7", "nvml")
	want(t, r, "gpu", good, "state", OK, "12 % busy, 3GiB of its memory free, 41 °C, no uncorrected memory error")
	want(t, r, "gpu", good, "calibration", OK, "measured yesterday")

	want(t, r, "gpu", poor, "memory", OK, "2GiB")
	want(t, r, "gpu", poor, "compute", Missing, "6.1", "7.0 or newer")
	want(t, r, "gpu", poor, "copy-engines", Limited, "1", "take turns")
	want(t, r, "gpu", poor, "host-register", Missing, "pinned memory comes from the driver")
	want(t, r, "gpu", poor, "dma-buf", OK, "yes")
	want(t, r, "gpu", poor, "link", Limited, "Gen4 x8", "could be Gen4 x16", "15.8 GB/s", "31.5 GB/s", "reseat", "sysfs")
	want(t, r, "gpu", poor, "bar1", Limited, "256MiB of 2GiB", "Resizable BAR", "sysfs")
	want(t, r, "gpu", poor, "numa", Unknown, "built without cgo")
	want(t, r, "gpu", poor, "state", Unknown, "built without cgo")
	want(t, r, "gpu", poor, "calibration", Missing, "tritier calibrate")
}

func TestPeers(t *testing.T) {
	r := collect(t, withGPUs(t, testMachine(t, nil), cudafake.Devices(3)))
	want(t, r, "sharing", "", "peer-access", OK, "6 of 6")
	r = collect(t, withGPUs(t, testMachine(t, nil), cudafake.Devices(3), cudafake.NoPeer()))
	want(t, r, "sharing", "", "peer-access", Missing, "0 of 6", "NVLink")
	for i, row := range r.Peers.Access {
		if !row[i] || slices.Index(row, true) != i {
			t.Errorf("row %d: %v", i, row)
		}
	}
	r = collect(t, withGPUs(t, testMachine(t, nil)))
	if r.Peers != nil || r.Item("sharing", "", "peer-access") != nil {
		t.Error("one GPU has no peers")
	}
	// One direction of six does not work.
	c := &collector{peers: &Peers{GPUs: []string{"a", "b", "c"}, Access: [][]bool{{true, true, true}, {true, true, true}, {false, true, true}}}}
	if i, ok := c.peerItem(); !ok || i.Status != Limited || i.Value != "5 of 6 directions" {
		t.Errorf("%+v", i)
	}
}

func TestLink(t *testing.T) {
	link := func(g, w int) gpuinfo.Figure[gpuinfo.Link] {
		return figure(gpuinfo.Link{Generation: g, Width: w}, gpuinfo.NVML)
	}
	for _, c := range []struct {
		name         string
		current, max gpuinfo.Figure[gpuinfo.Link]
		own          gpuinfo.Figure[int]
		status       Status
		words        []string
	}{
		{"best", link(5, 16), link(5, 16), figure(5, gpuinfo.NVML), OK, []string{"Gen5 x16"}},
		{"idle", link(1, 16), link(4, 16), figure(4, gpuinfo.NVML), Limited, []string{"could be Gen4 x16", "an idle GPU lowers"}},
		{"idle and narrow", link(1, 4), link(4, 16), figure(4, gpuinfo.NVML), Limited, []string{"could be Gen4 x16", "reseat"}},
		{"slow slot", link(4, 16), link(4, 16), figure(5, gpuinfo.NVML), Limited, []string{"itself is Gen5", "31.5 GB/s", "63.0 GB/s", "slot of PCIe Gen5"}},
		{"max unknown", link(4, 16), lost[gpuinfo.Link](), lost[int](), OK, []string{"what it could be is not known"}},
		{"unknown", lost[gpuinfo.Link](), link(5, 16), lost[int](), Unknown, []string{"built without cgo"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := healthy()
			i.Current, i.Max, i.OwnGeneration = c.current, c.max, c.own
			want(t, collect(t, withInfo(t, i)), "gpu", "", "link", c.status, c.words...)
		})
	}
}

func TestGPUState(t *testing.T) {
	i := healthy()
	i.ECC = figure(gpuinfo.ECC{Uncorrected: 3}, gpuinfo.NVML)
	want(t, collect(t, withInfo(t, i)), "gpu", "", "state", Limited, "3 uncorrected memory errors", "-d ECC")
	i.ECC = lost[gpuinfo.ECC]() // GPUs without ECC
	want(t, collect(t, withInfo(t, i)), "gpu", "", "state", OK, "12 % busy")
	m := withInfo(t, bare())
	m.GPUs.(*fakeGPUs).nvml = noCgo
	want(t, collect(t, m), "gpu", "", "state", Unknown, "only NVML knows")
}

// A GPU that neither source shows, as in sandboxes, leaves the figures of CUDA.
func TestGPUUnseen(t *testing.T) {
	m := withGPUs(t, testMachine(t, nil))
	r := collect(t, m)
	want(t, r, "gpu", "", "link", Unknown, "no PCI function")
	want(t, r, "gpu", "", "memory", OK, "4GiB")
	if i := r.Item("gpu", "", "calibration"); i != nil {
		t.Errorf("calibration without anybody to ask: %+v", i)
	}
}

// On a machine with one node, every GPU is next to it, although the firmware does not say so.
func TestNUMAOneNode(t *testing.T) {
	m := withGPUs(t, testMachine(t, map[string]string{"sys/devices/system/node/online": "0\n"}))
	m.GPUs = &fakeGPUs{infos: map[string]gpuinfo.Info{address0: bare()}}
	want(t, collect(t, m), "gpu", "", "numa", OK, "node 0, the only one")
}

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		list []int
		want string
	}{{nil, ""}, {[]int{3}, "3"}, {[]int{0, 1, 2, 3, 8, 10, 11}, "0-3,8,10-11"}} {
		if got := ranges(c.list); got != c.want {
			t.Errorf("%v: %q", c.list, got)
		}
	}
}

// An attribute that the driver does not know is unknown, not missing.
func TestAttributeUnknown(t *testing.T) {
	g := gpu{attributes: map[cuda.Attribute]attribute{cuda.DMABufSupported: {err: errTest}}}
	for _, a := range abilities {
		if a.of == cuda.DMABufSupported {
			if i := a.item(&g); i.Status != Unknown || i.Value != "the driver does not say: it rained in" {
				t.Errorf("%+v", i)
			}
		}
		if !slices.Contains(asked, a.of) {
			t.Errorf("%s is never asked for", a.id)
		}
	}
}
