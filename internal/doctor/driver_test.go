package doctor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/internal/gpuinfo"
)

const gpuFunction = "sys/bus/pci/devices/0000:41:00.0/"

func TestNoDriver(t *testing.T) {
	r := collect(t, testMachine(t, nil))
	want(t, r, "driver", "", "cuda", Missing, "no such file", "no GPU can be used", "shows no NVIDIA GPU")
	want(t, r, "driver", "", "kernel-module", Missing, "hidden")
	want(t, r, "driver", "", "nvml", Missing, "built without cgo", "CGO_ENABLED=1")
	for _, id := range []string{"gpus", "batched-copy", "kernels"} {
		if i := r.Item("driver", "", id); i != nil {
			t.Errorf("without a driver: %+v", i)
		}
	}
	if r.Item("gpu", "", "memory") != nil || r.Peers != nil {
		t.Error("a GPU out of nowhere")
	}
	// The GPU is there, the software is not.
	hardware := map[string]string{gpuFunction + "vendor": "0x10de\n", gpuFunction + "class": "0x030200\n"}
	r = collect(t, testMachine(t, hardware))
	want(t, r, "driver", "", "cuda", Missing, "install the NVIDIA driver", "0000:41:00.0")
	want(t, r, "driver", "", "kernel-module", Missing, "modprobe nvidia")
	hardware["sys/module/nvidia/version"] = "580.82.07\n"
	r = collect(t, testMachine(t, hardware))
	want(t, r, "driver", "", "cuda", Missing, "kernel module is loaded", "container")
	want(t, r, "driver", "", "kernel-module", OK, "580.82.07")
	// An NVMe drive of another vendor, or an NVIDIA audio function, is no GPU.
	r = collect(t, testMachine(t, map[string]string{gpuFunction + "vendor": "0x10de\n", gpuFunction + "class": "0x040300\n"}))
	want(t, r, "driver", "", "cuda", Missing, "shows no NVIDIA GPU")
}

func TestKernelModuleByProc(t *testing.T) {
	for _, line := range []string{
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version: 12\n",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.104.05  Release Build  (root@host)\n",
	} {
		r := collect(t, testMachine(t, map[string]string{"proc/driver/nvidia/version": line}))
		want(t, r, "driver", "", "kernel-module", OK, "535.104.05")
	}
}

func TestDriverFails(t *testing.T) {
	m := testMachine(t, nil)
	m.Driver = func() (*cuda.Driver, error) { return nil, errTest }
	want(t, collect(t, m), "driver", "", "cuda", Limited, "it rained in", "nvidia-smi")

	r := collect(t, withGPUs(t, testMachine(t, nil), cudafake.Devices(0)))
	want(t, r, "driver", "", "gpus", Missing, "none", "container")
	m = withGPUs(t, testMachine(t, nil), cudafake.Devices(0))
	m.Env = func(name string) string { return map[string]string{"CUDA_VISIBLE_DEVICES": "7"}[name] }
	want(t, collect(t, m), "driver", "", "gpus", Missing, "CUDA_VISIBLE_DEVICES=7", "unset CUDA_VISIBLE_DEVICES")
}

// A driver of CUDA 11.4 has no batched copies and does not compile newer PTX.
func TestOldDriver(t *testing.T) {
	m := withGPUs(t, testMachine(t, nil), cudafake.Version(11040))
	m.Kernels.PTX = 78
	r := collect(t, m)
	want(t, r, "driver", "", "cuda", OK, "CUDA 11.4")
	want(t, r, "driver", "", "batched-copy", Missing, "cuMemcpyBatchAsync", "CUDA 12.8 or newer")
	want(t, r, "driver", "", "kernels", Missing, "PTX 7.8", "CUDA 11.8 or newer")
	m.Kernels.PTX = 74
	want(t, collect(t, m), "driver", "", "kernels", OK, "PTX 7.4")
	m.Kernels.PTX = 99
	want(t, collect(t, m), "driver", "", "kernels", Unknown, "PTX 9.9")

	r = collect(t, withGPUs(t, testMachine(t, nil), cudafake.Version(12080)))
	want(t, r, "driver", "", "batched-copy", OK, "cuMemcpyBatchAsync")
	r = collect(t, withGPUs(t, testMachine(t, nil)))
	want(t, r, "driver", "", "batched-copy", OK, "cuMemcpyBatchAsync_v2")
}

// A driver that is too old for anything says which function it lacks.
func TestDriverTooOld(t *testing.T) {
	r := collect(t, withGPUs(t, testMachine(t, nil), cudafake.Without(cuda.SymInit)))
	want(t, r, "driver", "", "cuda", Missing, "too old", "cuInit", "update the NVIDIA driver")
}

// A driver that hangs is left behind, and the rest of the report is there.
func TestDriverHangs(t *testing.T) {
	m := testMachine(t, nil)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	m.Driver = func() (*cuda.Driver, error) { <-release; return nil, errTest }
	m.Drives = func() ([]Drive, error) { <-release; return nil, nil }
	m.Direct = func() (Direct, error) { <-release; return Direct{}, nil }
	m.Deadline = 20 * time.Millisecond
	r := collect(t, m)
	want(t, r, "driver", "", "cuda", Limited, "not answered in 20ms", "dmesg")
	want(t, r, "storage", "", "drives", Unknown, "not answered")
	want(t, r, "storage", "", "direct-io", Unknown, "not answered")
	want(t, r, "memory", "", "available", OK, "32GiB available of 64GiB")
}

// In a sandbox that hides the kernel's side, a driver that finds GPUs must be loaded.
func TestHiddenKernelModule(t *testing.T) {
	want(t, collect(t, testMachine(t, nil)), "driver", "", "kernel-module", Missing, "hidden by a sandbox", "nothing is to be installed without one", noDriverCost)
	want(t, collect(t, withGPUs(t, testMachine(t, nil))), "driver", "", "kernel-module", Unknown, "GPUs work, so that it is loaded")
}

// What could not be found out says what may help to.
func TestUnknownHasAdvice(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&TimeoutError{What: "x", After: time.Second}, "dmesg"},
		{&gpuinfo.NotFoundError{Address: address0, Err: errors.Join(noCgo, errTest)}, "CGO_ENABLED=1"},
		{&gpuinfo.UnavailableError{What: "NVML", Reason: gpuinfo.NoLibrary}, "libnvidia-ml.so.1"},
		{errTest, ""},
	} {
		if i := unknown("id", "name", c.err); i.Status != Unknown || !strings.Contains(i.Remedy, c.want) || (i.Remedy == "") != (c.want == "") || i.Cost != "" {
			t.Errorf("%v: %+v, want advice with %q", c.err, i, c.want)
		}
	}
}

func TestNVML(t *testing.T) {
	m := testMachine(t, nil)
	m.GPUs = &fakeGPUs{}
	want(t, collect(t, m), "driver", "", "nvml", OK, "580.82.07")
	m.GPUs = &fakeGPUs{nvml: &gpuinfo.UnavailableError{What: "NVML", Reason: gpuinfo.NoLibrary, Detail: "libnvidia-ml.so.1"}}
	want(t, collect(t, m), "driver", "", "nvml", Missing, "library missing: libnvidia-ml.so.1", "no use without a GPU")
	m = withGPUs(t, m)
	want(t, collect(t, m), "driver", "", "nvml", Missing, "install the driver's libnvidia-ml.so.1")
	m.GPUs = &fakeGPUs{nvml: &gpuinfo.UnavailableError{What: "NVML", Reason: gpuinfo.Refused, Detail: "Driver Not Loaded"}}
	want(t, collect(t, m), "driver", "", "nvml", Missing, "refused: Driver Not Loaded", "nvidia-smi")
	m.GPUs = &fakeGPUs{nvml: &gpuinfo.UnavailableError{What: "NVML", Reason: gpuinfo.NotReported}}
	want(t, collect(t, m), "driver", "", "nvml", Missing, "not reported", "nvidia-smi")
	m.GPUs = &fakeGPUs{nvml: errTest}
	want(t, collect(t, m), "driver", "", "nvml", Missing, "it rained in", "nvidia-smi")
}
