package gpuinfo

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const resource = `0x00000000b0000000 0x00000000b0ffffff 0x0000000000040200
0x0000004000000000 0x0000007fffffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000008000000000 0x0000008001ffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x00000000b1000000 0x00000000b107ffff 0x000000000004e200
`

// gpuTree is a sysfs with one function below a port, as in a machine: a link leads from the bus to its folder. Files that change names
// override the function's; those whose content is "-" are left out, and "port/NAME" is a file of the port.
func gpuTree(t *testing.T, change map[string]string) string {
	t.Helper()
	sys := t.TempDir()
	port := filepath.Join(sys, "devices/pci0000:00/0000:00:01.0")
	files := map[string]string{
		"current_link_speed": "16.0 GT/s PCIe\n", "current_link_width": "8\n", "max_link_speed": "32.0 GT/s PCIe\n", "max_link_width": "16\n",
		"numa_node": "1\n", "local_cpulist": "0-2,8\n", "resource": resource,
		"port/max_link_speed": "16.0 GT/s PCIe\n", "port/max_link_width": "32\n",
	}
	for name, content := range change {
		files[name] = content
	}
	for name, content := range files {
		path := filepath.Join(port, address, name)
		if rest, ok := strings.CutPrefix(name, "port/"); ok {
			path = filepath.Join(port, rest)
		}
		if content == "-" {
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	bus := filepath.Join(sys, "bus/pci/devices")
	if err := errors.Join(os.MkdirAll(bus, 0o755), os.Symlink("../../../devices/pci0000:00/0000:00:01.0/"+address, filepath.Join(bus, address))); err != nil {
		t.Fatal(err)
	}
	return sys
}

func TestSysfs(t *testing.T) {
	r := OpenWithoutNVML(gpuTree(t, nil))
	defer r.Close()
	i, err := r.Query(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if i.Current != known(Link{4, 8}, Sysfs) || i.Max != known(Link{4, 16}, Sysfs) || i.OwnGeneration != known(5, Sysfs) || i.NUMANode != known(1, Sysfs) {
		t.Errorf("%+v", i)
	}
	if !slices.Equal(i.CPUs.Value, []int{0, 1, 2, 8}) {
		t.Errorf("CPUs %v", i.CPUs)
	}
	want := []Region{{0, 16 << 20}, {1, 256 << 30}, {3, 32 << 20}}
	if !slices.Equal(i.Regions.Value, want) || i.BAR1.Value.Total != 256<<30 {
		t.Errorf("regions %v, BAR1 %v", i.Regions, i.BAR1)
	}
}

// What sysfs writes when it does not know must not become a figure.
func TestSysfsUnknown(t *testing.T) {
	for _, c := range []struct {
		name, content string
		lost          func(Info) error
	}{
		{"current_link_speed", "Unknown", func(i Info) error { return i.Current.Err }},
		{"current_link_speed", "-", func(i Info) error { return i.Current.Err }},
		{"current_link_speed", "", func(i Info) error { return i.Current.Err }},
		{"current_link_speed", "7 GT/s", func(i Info) error { return i.Current.Err }},
		{"current_link_width", "0", func(i Info) error { return i.Current.Err }},
		{"current_link_width", "63", func(i Info) error { return i.Current.Err }},
		{"max_link_width", "255", func(i Info) error { return i.Max.Err }},
		{"max_link_speed", "Unknown", func(i Info) error { return i.OwnGeneration.Err }},
		{"numa_node", "-1", func(i Info) error { return i.NUMANode.Err }},
		{"local_cpulist", "", func(i Info) error { return i.CPUs.Err }},
		{"local_cpulist", "3-1", func(i Info) error { return i.CPUs.Err }},
		{"local_cpulist", "0-999999999", func(i Info) error { return i.CPUs.Err }},
		{"resource", "-", func(i Info) error { return i.BAR1.Err }},
		{"resource", "0x0 0x0", func(i Info) error { return i.BAR1.Err }},
		{"resource", "0x10 0x1f 0x0\n0x0 0x0 0x0", func(i Info) error { return i.BAR1.Err }},
	} {
		r := OpenWithoutNVML(gpuTree(t, map[string]string{c.name: c.content}))
		i, err := r.Query(t.Context(), address)
		if err != nil {
			t.Errorf("%s=%q: %v", c.name, c.content, err)
		}
		if err := c.lost(i); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s=%q: got %v, want a figure that is not available", c.name, c.content, err)
		}
	}
}

// Older kernels write speeds without the word PCIe, and a port that says nothing limits nothing.
func TestSysfsForms(t *testing.T) {
	r := OpenWithoutNVML(gpuTree(t, map[string]string{"current_link_speed": "2.5 GT/s", "port/max_link_speed": "-"}))
	i, err := r.Query(t.Context(), address)
	if err != nil || i.Current != known(Link{1, 8}, Sysfs) || i.Max != known(Link{5, 16}, Sysfs) {
		t.Errorf("%+v, %v", i, err)
	}
}

func TestLink(t *testing.T) {
	for _, c := range []struct {
		link Link
		gb   float64
		text string
	}{
		{Link{1, 1}, 0.25, "Gen1 x1"}, {Link{3, 16}, 15.75, "Gen3 x16"}, {Link{4, 16}, 31.51, "Gen4 x16"}, {Link{5, 16}, 63.02, "Gen5 x16"},
		{Link{6, 16}, 121, "Gen6 x16"}, {Link{0, 16}, 0, "Gen0 x16"}, {Link{9, 16}, 0, "Gen9 x16"},
	} {
		if got := c.link.BytesPerSecond() / 1e9; math.Abs(got-c.gb) > 0.01 || c.link.String() != c.text {
			t.Errorf("%v: %.3f GB/s, want %.3f", c.link, got, c.gb)
		}
	}
}
