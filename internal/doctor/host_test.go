package doctor

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/internal/pinned"
)

func TestMemory(t *testing.T) {
	r := collect(t, testMachine(t, nil))
	want(t, r, "memory", "", "available", OK, "32GiB available of 64GiB")
	want(t, r, "memory", "", "largest-pool", OK, "GiB, held by physical memory")
	want(t, r, "memory", "", "cgroup", OK, "none")
	want(t, r, "memory", "", "memlock", Limited, "8MiB", "nvme:", "ulimit -l unlimited")
	want(t, r, "memory", "", "process-limits", OK, "none")
	want(t, r, "memory", "", "huge-pages", OK, "madvise")
	want(t, r, "cpu", "", "cpus", OK, "8")
	want(t, r, "cpu", "", "numa-nodes", OK, "2 nodes; 0: CPUs 0-3, 32GiB; 1: CPUs 4-7, 32GiB")
	if n := r.Item("memory", "", "largest-pool").Facts["bytes"].(uint64); n < 31*gib || n >= 32*gib {
		t.Errorf("largest pool of %d bytes on a machine that has 32 GiB available", n)
	}
}

func TestMemoryLimited(t *testing.T) {
	const group = "sys/fs/cgroup/job/"
	for _, c := range []struct {
		name, id string
		change   map[string]string
		status   Status
		words    []string
	}{
		{"cgroup", "cgroup", map[string]string{group + "memory.max": "4294967296\n", group + "memory.current": "1073741824\n"}, Limited,
			[]string{"3GiB left of 4GiB", "memory.max of /job", "not at the 32GiB", "raise the limit"}},
		{"pool in a cgroup", "largest-pool", map[string]string{group + "memory.max": "4294967296\n", group + "memory.current": "1073741824\n"}, Limited,
			[]string{"2.", "GiB, held by cgroup memory.max of /job"}},
		{"wide cgroup", "cgroup", map[string]string{group + "memory.max": "1099511627776\n", group + "memory.current": "0\n"}, OK, []string{"1TiB left"}},
		{"no limit of locked memory", "memlock", map[string]string{"proc/self/limits": "Max locked memory unlimited unlimited bytes\n"}, OK, []string{"unlimited"}},
		{"exempt", "memlock", map[string]string{"proc/self/status": "CapEff: 0000000000004000\n"}, OK, []string{"8MiB", "CAP_IPC_LOCK"}},
		{"address space", "process-limits", map[string]string{"proc/self/limits": "Max locked memory 1 1 bytes\nMax address space 8589934592 unlimited bytes\n"}, Limited,
			[]string{"address space 8GiB", "ulimit -v unlimited"}},
		{"pool in an address space", "largest-pool", map[string]string{"proc/self/limits": "Max address space 8589934592 unlimited bytes\n"}, Limited,
			[]string{"7.", "RLIMIT_AS"}},
		{"overcommit", "process-limits", map[string]string{"proc/sys/vm/overcommit_memory": "2\n"}, Limited, []string{"no overcommit", "sysctl"}},
		{"no huge pages", "huge-pages", map[string]string{"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n"}, Limited, []string{"never", "echo madvise"}},
		{"none in the kernel", "huge-pages", map[string]string{"sys/kernel/mm/transparent_hugepage/enabled": "-"}, Missing, []string{"CONFIG_TRANSPARENT_HUGEPAGE"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want(t, collect(t, testMachine(t, c.change)), "memory", "", c.id, c.status, c.words...)
		})
	}
}

func TestMemoryUnknown(t *testing.T) {
	m := testMachine(t, nil)
	m.Limits = func() (*pinned.HostLimits, error) { return nil, errTest }
	r := collect(t, m)
	want(t, r, "memory", "", "available", Unknown, "it rained in")
	want(t, r, "cpu", "", "numa-nodes", Unknown)
}

func TestCPUQuota(t *testing.T) {
	m := testMachine(t, nil)
	m.CPUs = func() (int, int) { return 64, 4 }
	want(t, collect(t, m), "cpu", "", "cpus", Limited, "64, of which 4 at once", "quota")
}

func TestIOMMU(t *testing.T) {
	const group, unit = "sys/kernel/iommu_groups/", "sys/class/iommu/"
	for _, c := range []struct {
		name   string
		change map[string]string
		status Status
		words  []string
	}{
		{"off", nil, Missing, []string{"no groups", "VT-d", "intel_iommu=on", "no nvme: drives"}},
		{"on", map[string]string{group + "0/": "", group + "1/": "", unit + "dmar0/": "", "proc/cmdline": "quiet intel_iommu=on iommu=pt"}, OK,
			[]string{"dmar0, 2 groups", "intel_iommu=on iommu=pt"}},
		{"turned off", map[string]string{"proc/cmdline": "intel_iommu=off iommu=pt"}, Missing, []string{"take what turns it off", "command line: intel_iommu=off"}},
		{"there and not used", map[string]string{unit + "ivhd0/": ""}, Missing, []string{"ivhd0 there, but no groups"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want(t, collect(t, testMachine(t, c.change)), "vfio", "", "iommu", c.status, c.words...)
		})
	}
}

func TestVFIO(t *testing.T) {
	r := collect(t, testMachine(t, nil))
	want(t, r, "vfio", "", "vfio-pci", Missing, "modprobe vfio-pci")
	want(t, r, "vfio", "", "vfio-group", Missing, "--device /dev/vfio")
	want(t, r, "vfio", "", "iommufd", Missing, "Linux 6.6")
	r = collect(t, testMachine(t, map[string]string{
		"sys/bus/pci/drivers/vfio-pci/bind": "", "sys/bus/pci/drivers/vfio-pci/0000:03:00.0/": "", "dev/vfio/vfio": "", "dev/iommu": "",
		"dev/vfio/devices/vfio0": "", "sys/module/vfio/parameters/enable_unsafe_noiommu_mode": "Y\n",
	}))
	want(t, r, "vfio", "", "vfio-pci", OK, "has 1 device")
	want(t, r, "vfio", "", "vfio-group", OK, "without IOMMU")
	want(t, r, "vfio", "", "iommufd", OK, "1 device in /dev/vfio/devices")
}

func TestModules(t *testing.T) {
	r := collect(t, withGPUs(t, testMachine(t, nil)))
	want(t, r, "sharing", "", "gdrcopy", Missing, "modprobe gdrdrv")
	want(t, r, "sharing", "", "nvidia-peermem", Missing, "modprobe nvidia-peermem")
	r = collect(t, withGPUs(t, testMachine(t, map[string]string{"sys/module/gdrdrv/version": "2.5\n", "sys/module/nvidia_peermem/": ""})))
	want(t, r, "sharing", "", "gdrcopy", OK, "version 2.5")
	want(t, r, "sharing", "", "nvidia-peermem", OK, "loaded")
	want(t, collect(t, testMachine(t, nil)), "sharing", "", "gdrcopy", Missing, "nothing, without a GPU", "nothing is to be installed")
}

func TestProbeDirect(t *testing.T) {
	dir := t.TempDir()
	d, err := probeDirect(dir)
	if err != nil || d.Dir != dir || d.FileSystem == "" || d.Works != (d.Align > 0) || d.Works == (d.Reason != "") {
		t.Errorf("%+v, %v", d, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := probeDirect(dir + "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	// A file system without unnamed files gets a named one, which is gone at once; other errors stay errors.
	f, err := unnamed(-1, unix.EOPNOTSUPP, dir)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := unnamed(-1, unix.EROFS, dir); !errors.Is(err, unix.EROFS) {
		t.Errorf("a file system that cannot be written: %v", err)
	}
	m := testMachine(t, nil)
	m.Direct = func() (Direct, error) { return Direct{}, errTest }
	r := collect(t, m)
	want(t, r, "storage", "", "direct-io", Unknown, "it rained in")
	if n := strings.Join(pathOf(t, r, "file").Notes, ";"); !strings.Contains(n, "depends on the file's file system") {
		t.Errorf("file: %q", n)
	}
}
