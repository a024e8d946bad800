package doctor

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/internal/gpuinfo"
	"github.com/tritier/tritier/internal/uring"
)

func TestDrives(t *testing.T) {
	node := 1
	m := testMachine(t, nil)
	m.Drives = func() ([]Drive, error) {
		return []Drive{
			{Address: "0000:01:00.0", Model: "MODEL X", State: DriveInUse, InUse: []string{"nvme0n1 is mounted at /data"}, Advice: "leave it"},
			{Address: "0000:02:00.0", State: DriveBlocked, Advice: "no IOMMU"},
			{Address: "0000:03:00.0", State: DriveBlocked}, {Address: "0000:04:00.0", State: DriveInUse}, // without advice of their own
		}, nil
	}
	r := collect(t, m)
	want(t, r, "storage", "", "drive", Limited, "MODEL X: in use: nvme0n1 is mounted at /data", "leave it")
	p := pathOf(t, r, "nvme")
	if p.Status != Missing || p.Payload != nil || !strings.Contains(p.Notes[0], "none of 4 drives") {
		t.Errorf("%+v", p)
	}
	m.Drives = func() ([]Drive, error) {
		return []Drive{{Address: "0000:02:00.0", State: DriveFree, Advice: "use nvme:0000:02:00.0 with --bind", NUMANode: &node}}, nil
	}
	r = collect(t, m)
	want(t, r, "storage", "", "drive", OK, "model not known, node 1: use nvme:0000:02:00.0")
	if p := pathOf(t, r, "nvme"); p.Status != Limited || !strings.Contains(p.Remedy, "--bind") || !slices.Equal(p.Payload, []string{"drive", "host memory"}) {
		t.Errorf("%+v", p)
	}
	m.Drives = func() ([]Drive, error) { return nil, errTest }
	want(t, collect(t, m), "storage", "", "drives", Unknown, "it rained in")
}

func TestUring(t *testing.T) {
	for _, c := range []struct {
		disabled string
		err      error
		words    []string
	}{
		{"2", &uring.UnsupportedError{Reason: "it is switched off", Err: unix.EPERM}, []string{"switched off", "sysctl kernel.io_uring_disabled=0"}},
		{"1", &uring.UnsupportedError{Reason: "it is reserved", Err: unix.EPERM}, []string{"reserved", "io_uring_group"}},
		{"0", &uring.UnsupportedError{Reason: "a seccomp filter", Err: unix.EPERM}, []string{"seccomp filter", "seccomp profile"}},
		{"-", &uring.UnsupportedError{Reason: "this kernel has no io_uring", Err: unix.ENOSYS}, []string{"no io_uring", "Linux 5.11"}},
		{"-", errTest, []string{"it rained in"}},
	} {
		m := testMachine(t, map[string]string{"proc/sys/kernel/io_uring_disabled": c.disabled})
		m.Uring = func() error { return c.err }
		r := collect(t, m)
		want(t, r, "storage", "", "io-uring", Missing, append(c.words, "pread")...)
		if p := pathOf(t, r, "file"); p.Status != Limited || !strings.Contains(p.Requests, "pread") || !strings.HasPrefix(p.Remedy, "for io_uring: ") || len(c.words) > 1 && !strings.Contains(p.Remedy, c.words[1]) {
			t.Errorf("%+v", p)
		}
	}
	want(t, collect(t, testMachine(t, nil)), "storage", "", "io-uring", OK, "works")
}

// Where each byte passes follows from GPU, file system and drives.
func TestPaths(t *testing.T) {
	m := testMachine(t, nil)
	r := collect(t, m)
	for id, payload := range map[string][]string{"file": {"drive", "host memory"}, "mem": {"host memory", "host memory"}, "nvme": nil, "nvme-p2p": nil} {
		if p := pathOf(t, r, id); !slices.Equal(p.Payload, payload) {
			t.Errorf("without a GPU, %s: %v, want %v", id, p.Payload, payload)
		}
	}
	if p := pathOf(t, r, "nvme-p2p"); !strings.Contains(p.Notes[0], "none of its ways to a drive can make GPU memory the drive's target") {
		t.Errorf("why the program has no such path: %+v", p)
	}
	m = withGPUs(t, m)
	m.Direct = func() (Direct, error) {
		return Direct{Dir: "/tmp", FileSystem: "tmpfs", Reason: "the file system refuses it"}, nil
	}
	m.Drives = func() ([]Drive, error) { return []Drive{{Address: "0000:02:00.0", State: DriveReady}}, nil }
	r = collect(t, m)
	want(t, r, "storage", "", "direct-io", Missing, "not in /tmp (tmpfs): the file system refuses it")
	for id, c := range map[string]struct {
		status  Status
		payload []string
	}{
		"file": {Limited, []string{"drive", "page cache", "pinned host memory", "GPU memory"}},
		"mem":  {OK, []string{"host memory", "pinned host memory", "GPU memory"}},
		"nvme": {OK, []string{"drive", "pinned host memory", "GPU memory"}},
	} {
		p := pathOf(t, r, id)
		if (id == "file") != strings.Contains(p.Remedy, "for O_DIRECT: put the data on a file system") {
			t.Errorf("%s: remedy %q", id, p.Remedy)
		}
		if p.Status != c.status || !slices.Equal(p.Payload, c.payload) || strings.Contains(p.Requests, "GPU") {
			t.Errorf("%s: %+v, want %v", id, p, c)
		}
	}
	m.Features.GPUInitiated = true
	if p := pathOf(t, collect(t, m), "nvme"); !strings.Contains(p.Requests, "GPU threads or a CPU thread") {
		t.Errorf("%+v", p)
	}
}

// The way into GPU memory is offered only where nothing at all is lacking, and names everything that is.
func TestPeerToPeer(t *testing.T) {
	everything := map[string]string{"sys/module/gdrdrv/": "", "sys/kernel/iommu_groups/0/": ""}
	capable := cudafake.WithDevice(cudafake.DeviceSpec{Attributes: map[cuda.Attribute]int{cuda.GPUDirectRDMASupported: 1}})
	ready := func() ([]Drive, error) { return []Drive{{Address: "0000:02:00.0", State: DriveReady}}, nil }
	whole := func(t *testing.T) Machine {
		m := withGPUs(t, testMachine(t, everything), capable)
		m.Drives, m.Features.PeerToPeer = ready, true
		return m
	}
	if p := pathOf(t, collect(t, whole(t)), "nvme-p2p"); p.Status != OK || !slices.Equal(p.Payload, []string{"drive", "GPU memory"}) || len(p.Notes) > 0 {
		t.Errorf("%+v", p)
	}
	for name, c := range map[string]struct {
		take func(t *testing.T, m *Machine)
		word string
	}{
		"program": {func(_ *testing.T, m *Machine) { m.Features.PeerToPeer = false }, "this version of tritier"},
		"drive":   {func(_ *testing.T, m *Machine) { m.Drives = func() ([]Drive, error) { return nil, nil } }, "no drive"},
		"GPU":     {func(t *testing.T, m *Machine) { m.Driver = testMachine(t, nil).Driver }, "no GPU"},
		"RDMA":    {func(t *testing.T, m *Machine) { m.Driver = withGPUs(t, *m).Driver }, "GPUDirect RDMA"},
		"module": {func(t *testing.T, m *Machine) {
			m.Root = testMachine(t, map[string]string{"sys/kernel/iommu_groups/0/": ""}).Root
		}, "gdrdrv"},
		"IOMMU": {func(t *testing.T, m *Machine) {
			m.Root = testMachine(t, map[string]string{"sys/module/gdrdrv/": ""}).Root
		}, "no IOMMU"},
	} {
		t.Run(name, func(t *testing.T) {
			m := whole(t)
			c.take(t, &m)
			p := pathOf(t, collect(t, m), "nvme-p2p")
			if p.Status != Missing || p.Payload != nil || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], c.word) {
				t.Errorf("%+v, want a note on %q alone", p, c.word)
			}
			if name == "program" != strings.Contains(p.Remedy, "in this version") || strings.Contains(p.Remedy, ";") {
				t.Errorf("%+v, want what helps against that alone", p)
			}
		})
	}
}

// Programs rely on these names.
func TestNames(t *testing.T) {
	m := withGPUs(t, testMachine(t, nil), cudafake.Devices(2))
	m.GPUs = &fakeGPUs{infos: map[string]gpuinfo.Info{address0: healthy(), address1: bare()}}
	m.Calibration = func(string, string) (Status, string) { return OK, "x" }
	r := collect(t, m)
	var got []string
	for _, s := range r.Sections[:2] {
		for _, i := range s.Items {
			got = append(got, s.ID+"/"+i.ID)
		}
	}
	for _, s := range r.Sections[3:] {
		for _, i := range s.Items {
			got = append(got, s.ID+"/"+i.ID)
		}
	}
	const names = `driver/cuda driver/kernel-module driver/gpus driver/batched-copy driver/kernels driver/nvml
gpu/identity gpu/memory gpu/compute gpu/copy-engines gpu/mapped-host-memory gpu/host-register gpu/read-only-register gpu/host-atomics
gpu/pageable-access gpu/dma-buf gpu/gpudirect-rdma gpu/stream-mem-ops gpu/link gpu/bar1 gpu/numa gpu/state gpu/calibration
memory/available memory/largest-pool memory/cgroup memory/memlock memory/process-limits memory/huge-pages
vfio/iommu vfio/vfio-pci vfio/vfio-group vfio/iommufd sharing/peer-access sharing/nvidia-peermem sharing/gdrcopy
storage/drives storage/io-uring storage/direct-io cpu/cpus cpu/numa-nodes`
	if want := strings.Fields(names); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{`"version":1`, `"counts":{`, `"status":"ok"`, `"peers":{"gpus":["GPU-`, `"generation":5`, `"payload":["drive"`, `"uuid":"GPU-`} {
		if !strings.Contains(string(text), key) {
			t.Errorf("no %s in %s", key, text)
		}
	}
}
