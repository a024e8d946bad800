package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/internal/gpuinfo"
	"github.com/tritier/tritier/internal/pinned"
)

// fakeGPUs answers for GPUs by address.
type fakeGPUs struct {
	nvml  error
	infos map[string]gpuinfo.Info
}

func (f *fakeGPUs) NVML(context.Context) (string, error) { return "580.82.07", f.nvml }

func (f *fakeGPUs) Query(_ context.Context, address string) (gpuinfo.Info, error) {
	i, ok := f.infos[address]
	if !ok {
		return gpuinfo.Info{}, &gpuinfo.NotFoundError{Address: address, Err: gpuinfo.ErrUnavailable}
	}
	return i, nil
}

var noCgo = &gpuinfo.UnavailableError{What: "NVML", Reason: gpuinfo.NoCgo}

// files are the machine's by default: 64 GiB, two nodes, nothing of the IOMMU.
var files = map[string]string{
	"proc/meminfo":                                      "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\nCommitLimit: 33554432 kB\nCommitted_AS: 1024 kB\n",
	"proc/self/status":                                  "VmSize: 1024 kB\nVmData: 512 kB\nCapEff: 0000000000000000\nCpus_allowed_list: 0-7\nMems_allowed_list: 0-1\n",
	"proc/self/limits":                                  "Limit Soft Hard Units\nMax locked memory         8388608 8388608 bytes\nMax address space         unlimited unlimited bytes\nMax data size             unlimited unlimited bytes\n",
	"proc/self/maps":                                    "a\nb\n",
	"proc/self/mountinfo":                               "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
	"proc/self/cgroup":                                  "0::/job\n",
	"proc/cmdline":                                      "quiet root=/dev/sda1\n",
	"proc/sys/vm/max_map_count":                         "65530\n",
	"proc/sys/vm/overcommit_memory":                     "0\n",
	"sys/kernel/mm/transparent_hugepage/enabled":        "always [madvise] never\n",
	"sys/kernel/mm/transparent_hugepage/hpage_pmd_size": "2097152\n",
	"sys/devices/system/node/online":                    "0-1\n",
	"sys/devices/system/node/node0/cpulist":             "0-3\n",
	"sys/devices/system/node/node1/cpulist":             "4-7\n",
	"sys/devices/system/node/node0/meminfo":             "Node 0 MemTotal: 33554432 kB\nNode 0 MemFree: 16777216 kB\n",
	"sys/devices/system/node/node1/meminfo":             "Node 1 MemTotal: 33554432 kB\nNode 1 MemFree: 16777216 kB\n",
}

// testMachine is a machine without a driver, with those files, overridden by change; "-" leaves one out. A name that ends in "/" is a folder.
func testMachine(t *testing.T, change map[string]string) Machine {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{}
	for _, m := range []map[string]string{files, change} {
		for name, content := range m {
			all[name] = content
		}
	}
	for name, content := range all {
		path := filepath.Join(root, name)
		dir := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			dir = path
		}
		if content == "-" {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir == path {
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Machine{
		Root: root, Env: func(string) string { return "" },
		Driver: func() (*cuda.Driver, error) {
			return nil, &cuda.MissingLibraryError{Tried: []string{"libcuda.so.1"}, Reason: "no such file"}
		},
		GPUs:     &fakeGPUs{nvml: noCgo},
		Limits:   func() (*pinned.HostLimits, error) { return pinned.LimitsOf(os.DirFS(root)) },
		Drives:   func() ([]Drive, error) { return nil, nil },
		Uring:    func() error { return nil },
		Direct:   func() (Direct, error) { return Direct{Dir: "/data", FileSystem: "ext4", Works: true, Align: 512}, nil },
		CPUs:     func() (int, int) { return 8, 8 },
		Kernels:  Kernels{PTX: 63, Compute: 70},
		Features: Features{},
	}
}

// withGPUs puts a fake driver in.
func withGPUs(t *testing.T, m Machine, opts ...cudafake.Option) Machine {
	t.Helper()
	g := cudafake.New(opts...)
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	m.Driver = func() (*cuda.Driver, error) { return cuda.OpenBackend(g) }
	return m
}

func collect(t *testing.T, m Machine) *Report {
	t.Helper()
	r, err := m.Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkReport(t, r)
	return r
}

// checkReport holds for every report: each item says something, what is lacking says what that costs and how to get it, and the counts add
// up.
func checkReport(t *testing.T, r *Report) {
	t.Helper()
	counts := map[Status]int{}
	for _, s := range r.Sections {
		if s.ID == "" || s.Title == "" || len(s.Items) == 0 || (s.ID == "gpu") != (s.Device != "") {
			t.Errorf("section %+v", s)
		}
		for _, i := range s.Items {
			counts[i.Status]++
			if i.ID == "" || i.Name == "" || i.Value == "" {
				t.Errorf("%s: empty: %+v", s.ID, i)
			}
			switch i.Status {
			case OK:
				if i.Cost != "" || i.Remedy != "" {
					t.Errorf("%s/%s is %s and has a remedy: %+v", s.ID, i.ID, i.Status, i)
				}
			case Unknown:
				if i.Cost != "" {
					t.Errorf("%s/%s is not known and costs something: %+v", s.ID, i.ID, i)
				}
			case Limited, Missing:
				if i.Cost == "" || i.Remedy == "" {
					t.Errorf("%s/%s is %s and does not say what that costs and how to get it: %+v", s.ID, i.ID, i.Status, i)
				}
			default:
				t.Errorf("%s/%s: status %q", s.ID, i.ID, i.Status)
			}
		}
	}
	for _, s := range Statuses() {
		if r.Counts[s] != counts[s] {
			t.Errorf("%d items %s, counted %d", r.Counts[s], s, counts[s])
		}
	}
	if len(r.Paths) != 4 {
		t.Errorf("%d paths", len(r.Paths))
	}
	for _, p := range r.Paths {
		if (p.Status == OK) != (p.Remedy == "") || p.Status != OK && len(p.Notes) == 0 {
			t.Errorf("path %s is %s and does not say why and how to get it: %+v", p.ID, p.Status, p)
		}
	}
}

// want checks an item's verdict, and that its texts hold a word each.
func want(t *testing.T, r *Report, section, device, id string, s Status, words ...string) {
	t.Helper()
	i := r.Item(section, device, id)
	if i == nil {
		t.Errorf("no item %s/%s", section, id)
		return
	}
	text := strings.Join([]string{i.Value, i.Cost, i.Remedy, i.Source}, "\n")
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s/%s: no %q in %+v", section, id, w, *i)
		}
	}
	if i.Status != s {
		t.Errorf("%s/%s is %s, want %s: %+v", section, id, i.Status, s, *i)
	}
}

func pathOf(t *testing.T, r *Report, id string) Path {
	t.Helper()
	for _, p := range r.Paths {
		if p.ID == id {
			return p
		}
	}
	t.Fatalf("no path %s", id)
	return Path{}
}

var errTest = errors.New("it rained in")
