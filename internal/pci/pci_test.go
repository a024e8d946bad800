package pci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// machine is a tree of files that looks like a machine, and plays the kernel when something is written to it.
type machine struct {
	t    *testing.T
	tree Tree
	held map[string]bool // block devices that somebody holds exclusively

	stuck  bool              // no driver takes anything any more
	driver map[string]string // what drivers_probe binds to without an override
	over   map[string]string // driver_override
}

func newMachine(t *testing.T) *machine {
	dir := t.TempDir()
	m := &machine{t: t, held: map[string]bool{}, driver: map[string]string{}, over: map[string]string{},
		tree: Tree{Sys: dir + "/sys", Proc: dir + "/proc", Dev: dir + "/dev"}}
	m.tree.Busy = func(p string) (bool, error) { return m.held[filepath.Base(p)], nil }
	m.tree.Write = m.write
	m.file("proc/self/mountinfo", "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n")
	m.file("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n")
	for _, d := range []string{"nvme", "vfio-pci"} {
		m.file("sys/bus/pci/drivers/"+d+"/bind", "")
	}
	return m
}

func (m *machine) path(p string) string { return filepath.Join(filepath.Dir(m.tree.Sys), p) }

func (m *machine) file(p, content string) {
	m.t.Helper()
	p = m.path(p)
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), 0o600)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) link(p, target string) {
	m.t.Helper()
	p = m.path(p)
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.Symlink(target, p)); err != nil {
		m.t.Fatal(err)
	}
}

// drive adds an NVMe function with a block device, in the hands of the kernel's driver.
func (m *machine) drive(address, disk string) {
	d := "sys/bus/pci/devices/" + address
	m.file(d+"/class", "0x010802\n")
	m.file(d+"/vendor", "0x144d\n")
	m.file(d+"/device", "0xa80a\n")
	m.file(d+"/numa_node", "1\n")
	m.link(d+"/iommu_group", "../../../kernel/iommu_groups/17")
	m.link(d+"/driver", "../../../bus/pci/drivers/nvme")
	m.file(d+"/nvme/nvme0/serial", "S4EWNX0R\n")
	m.file(d+"/nvme/nvme0/model", "MODEL X\n")
	m.file(d+"/nvme/nvme0/"+disk+"/size", "1\n")
	m.driver[address] = "nvme"
	m.block(disk, "259:0")
	m.file("dev/"+disk, strings.Repeat("\x00", signatureBytes))
}

func (m *machine) block(name, number string) { m.file("sys/class/block/"+name+"/dev", number+"\n") }

// write is the kernel's side of sysfs.
func (m *machine) write(path, value string) error {
	address := strings.TrimSpace(value)
	switch filepath.Base(path) {
	case "unbind":
		return os.Remove(m.path("sys/bus/pci/devices/" + address + "/driver"))
	case "driver_override":
		m.over[filepath.Base(filepath.Dir(path))] = strings.TrimSpace(value)
		return nil
	case "drivers_probe":
		driver := m.over[address]
		if driver == "" {
			driver = m.driver[address]
		}
		if m.stuck && driver != "nvme" {
			return errors.New("probe failed")
		}
		m.link("sys/bus/pci/devices/"+address+"/driver", "../drivers/"+driver)
		return nil
	}
	return fmt.Errorf("nobody writes to %s", path)
}

func (m *machine) has(address string) string {
	f, err := m.tree.Find(address)
	if err != nil {
		m.t.Fatal(err)
	}
	return f.Driver
}

const addr = "0000:01:00.0"

func TestFind(t *testing.T) {
	m := newMachine(t)
	m.drive(addr, "nvme0n1")
	m.file("sys/bus/pci/devices/0000:00:1f.0/class", "0x010601\n")
	want := Function{Address: addr, Vendor: 0x144d, Device: 0xa80a, Driver: "nvme", Group: "17", NUMANode: 1, Serial: "S4EWNX0R", Model: "MODEL X", Disks: []string{"nvme0n1"}}
	for _, a := range []string{addr, "01:00.0"} {
		if f, err := m.tree.Find(a); err != nil || !reflect.DeepEqual(f, want) {
			t.Errorf("%s: %+v, %v, want %+v", a, f, err, want)
		}
	}
	_, err := m.tree.Find("0000:00:1f.0")
	var e *NotFoundError
	if !errors.As(err, &e) || !reflect.DeepEqual(e.Have, []string{addr}) {
		t.Errorf("a SATA controller: %v", err)
	}
	if all, err := (Tree{Sys: t.TempDir()}).NVMe(); all != nil || err != nil {
		t.Errorf("a machine without PCI: %v, %v", all, err)
	}
}

func TestDiskName(t *testing.T) {
	for name, want := range map[string]string{
		"nvme0n1": "nvme0n1", "nvme12n34": "nvme12n34", "nvme0c3n1": "nvme0n1", "ng0n1": "", "nvme0": "", "nvme0n1p1": "", "power": "", "nvme0c1": "", "nvme01n1": "",
	} {
		if got, ok := diskName(name); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got, ok, want)
		}
	}
}

// TestInUse: each way in which a drive can be in use refuses it, and force takes it all the same.
func TestInUse(t *testing.T) {
	const disk = "nvme0n1"
	put := func(m *machine, at int, mark string) {
		m.file("dev/"+disk, strings.Repeat("\x00", at)+mark+strings.Repeat("\x00", 70<<10))
	}
	part := func(m *machine) {
		m.file("sys/class/block/"+disk+"/"+disk+"p1/partition", "1\n")
		m.block(disk+"p1", "259:1")
	}
	for _, x := range []struct {
		name string
		use  func(*machine)
		want []Use
	}{
		{"nothing", func(*machine) {}, nil},
		{"mounted by number", func(m *machine) {
			m.file("proc/self/mountinfo", "90 1 259:0 / /data rw - xfs /dev/disk/by-uuid/1 rw\n")
		}, []Use{{"mount", disk, "/data"}}},
		{"mounted by name", func(m *machine) {
			m.file("proc/self/mountinfo", "90 1 0:51 /sub /srv rw,noatime master:1 - btrfs /dev/nvme0n1 rw\n")
		}, []Use{{"mount", disk, "/srv"}}},
		{"mounted for others", func(m *machine) { m.file("proc/1/mountinfo", "90 1 259:0 / / rw - xfs /dev/nvme0n1 rw\n") }, []Use{{"mount", disk, "/"}}},
		{"partition mounted", func(m *machine) {
			part(m)
			m.file("proc/self/mountinfo", "90 1 259:1 / /boot rw - ext4 /dev/nvme0n1p1 rw\n")
		}, []Use{{"mount", disk + "p1", "/boot"}, {"partition table", disk, "partition table with nvme0n1p1"}}},
		{"swap", func(m *machine) { m.file("proc/swaps", "Filename\n/dev/nvme0n1 partition 1 0 -2\n") }, []Use{{"swap", disk, ""}}},
		{"device mapper", func(m *machine) { m.file("sys/class/block/"+disk+"/holders/dm-0/x", "") }, []Use{{"holder", disk, "dm-0"}}},
		{"partition in a RAID", func(m *machine) { part(m); m.file("sys/class/block/"+disk+"p1/holders/md127/x", "") },
			[]Use{{"holder", disk + "p1", "md127"}, {"partition table", disk, "partition table with nvme0n1p1"}}},
		{"partitions", part, []Use{{"partition table", disk, "partition table with nvme0n1p1"}}},
		{"empty GPT", func(m *machine) { put(m, 512, "EFI PART") }, []Use{{"signature", disk, "GPT partition table"}}},
		{"empty GPT of 4 KiB blocks", func(m *machine) { put(m, 4096, "EFI PART") }, []Use{{"signature", disk, "GPT partition table"}}},
		{"MBR", func(m *machine) { put(m, 510, "\x55\xaa") }, []Use{{"signature", disk, "MBR partition table or boot sector"}}},
		{"ext4", func(m *machine) { put(m, 1080, "\x53\xef") }, []Use{{"signature", disk, "ext2, ext3 or ext4 file system"}}},
		{"Btrfs", func(m *machine) { put(m, 65600, "_BHRfS_M") }, []Use{{"signature", disk, "Btrfs file system"}}},
		{"held by somebody unseen", func(m *machine) { m.held[disk] = true }, []Use{{"exclusive", disk, ""}}},
	} {
		t.Run(x.name, func(t *testing.T) {
			m := newMachine(t)
			m.drive(addr, disk)
			x.use(m)
			f, err := m.tree.Find(addr)
			if err != nil {
				t.Fatal(err)
			}
			if uses, err := m.tree.Uses(f); err != nil || !reflect.DeepEqual(uses, x.want) {
				t.Fatalf("uses %v, %v, want %v", uses, err, x.want)
			}
			err = m.tree.Bind(addr, "vfio-pci", false)
			var in *InUseError
			if errors.As(err, &in) != (x.want != nil) {
				t.Fatalf("Bind: %v", err)
			}
			if x.want == nil {
				return
			}
			if m.has(addr) != "nvme" {
				t.Errorf("refused, and yet the driver is %q", m.has(addr))
			}
			for _, u := range x.want {
				if !strings.Contains(err.Error(), u.Disk) || !strings.Contains(err.Error(), u.Detail) {
					t.Errorf("%q does not tell %v", err, u)
				}
			}
			if err := m.tree.Bind(addr, "vfio-pci", true); err != nil || m.has(addr) != "vfio-pci" {
				t.Errorf("forced: %v, driver %q", err, m.has(addr))
			}
		})
	}
}

// TestUnknownIsRefused: what cannot be found out counts as in use.
func TestUnknownIsRefused(t *testing.T) {
	m := newMachine(t)
	m.drive(addr, "nvme0n1")
	if err := os.Remove(m.path("dev/nvme0n1")); err != nil {
		t.Fatal(err)
	}
	var in *InUseError
	if err := m.tree.Bind(addr, "", false); !errors.As(err, &in) || in.Uses[0].Kind != "unreadable" {
		t.Errorf("without its device node: %v", err)
	}
	m.file("dev/nvme0n1", "")
	m.tree.Busy = func(string) (bool, error) { return false, os.ErrPermission }
	if err := m.tree.Bind(addr, "", false); !errors.As(err, &in) || in.Uses[0].Kind != "unreadable" {
		t.Errorf("not to be opened: %v", err)
	}
	m.tree.Busy = func(string) (bool, error) { return false, nil }
	if err := os.Remove(m.path("proc/self/mountinfo")); err != nil {
		t.Fatal(err)
	}
	if err := m.tree.Bind(addr, "", false); err == nil {
		t.Error("bound without knowing the mounts")
	}
	if m.has(addr) != "nvme" {
		t.Error("taken from its driver")
	}
}

// TestUnreadableFoldersAreRefused: a folder that cannot be listed hides what it holds. A file in its place fails as such a folder does.
func TestUnreadableFoldersAreRefused(t *testing.T) {
	for _, folder := range []string{
		"sys/class/block/nvme0n1/holders", "sys/class/block/nvme0n1",
		"sys/bus/pci/devices/" + addr + "/nvme", "sys/bus/pci/devices/" + addr + "/nvme/nvme0",
	} {
		m := newMachine(t)
		m.drive(addr, "nvme0n1")
		if err := os.RemoveAll(m.path(folder)); err != nil {
			t.Fatal(err)
		}
		m.file(folder, "")
		if err := m.tree.Bind(addr, "", false); err == nil || m.has(addr) != "nvme" {
			t.Errorf("with %s unreadable: %v, driver %q", folder, err, m.has(addr))
		}
	}
}

func TestBindAndRelease(t *testing.T) {
	m := newMachine(t)
	m.drive(addr, "nvme0n1")
	for _, driver := range []string{"vfio-pci", "vfio-pci", "", "vfio-pci"} {
		if err := m.tree.Bind(addr, driver, false); err != nil || m.has(addr) != driver {
			t.Fatalf("to %q: %v, has %q", driver, err, m.has(addr))
		}
	}
	if m.over[addr] != "vfio-pci" {
		t.Errorf("override %q: any driver may take it", m.over[addr])
	}
	for range 2 {
		if err := m.tree.Release(addr); err != nil || m.has(addr) != "nvme" || m.over[addr] != "" {
			t.Fatalf("release: %v, has %q, override %q", err, m.has(addr), m.over[addr])
		}
	}
}

func TestBindFailures(t *testing.T) {
	m := newMachine(t)
	m.drive(addr, "nvme0n1")
	var e *BindError
	if err := m.tree.Bind(addr, "uio_pci_generic", false); !errors.As(err, &e) || !strings.Contains(err.Error(), "modprobe uio_pci_generic") {
		t.Errorf("driver not loaded: %v", err)
	}
	// The new driver does not take it: it must go back to the old one, not be lost to the machine.
	m.stuck = true
	if err := m.tree.Bind(addr, "vfio-pci", false); !errors.As(err, &e) || !strings.Contains(err.Error(), "dmesg") {
		t.Errorf("not taken: %v", err)
	}
	if m.has(addr) != "nvme" || m.over[addr] != "" {
		t.Errorf("afterwards the driver is %q, override %q, want nvme", m.has(addr), m.over[addr])
	}
	m.tree.Write = func(string, string) error { return os.ErrPermission }
	if err := m.tree.Bind(addr, "vfio-pci", false); !errors.As(err, &e) || !strings.Contains(err.Error(), "run as root") {
		t.Errorf("not root: %v", err)
	}
}

func FuzzParseMount(f *testing.F) {
	f.Add("22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw")
	f.Add("- - - - - - -")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		if m, ok := parseMount(s); ok && (m.target == "" || m.source == "") {
			t.Errorf("%q gives %+v", s, m)
		}
	})
}
