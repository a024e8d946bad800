package vfio_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/internal/vfio"
	"github.com/tritier/tritier/internal/vfio/vfiofake"
)

const device = "/sys/bus/pci/devices/" + vfiofake.Address

// is makes a check for an error of type E.
func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// TestErrorsNameTheRemedy breaks one thing after the other on a machine on which all is in place.
func TestErrorsNameTheRemedy(t *testing.T) {
	for _, x := range []struct {
		name    string
		disturb func(*vfiofake.Kernel)
		only    string // interface, "" for both
		is      func(error) bool
		says    []string
	}{
		{"no such device", func(k *vfiofake.Kernel) { delete(k.Nodes, device) }, "", is[*vfio.NoDeviceError], []string{vfiofake.Address}},
		{"IOMMU off", func(k *vfiofake.Kernel) { delete(k.Links, device+"/iommu_group") }, "", is[*vfio.NoIOMMUError], []string{"intel_iommu=on", "iommu=pt"}},
		{"module not loaded", func(k *vfiofake.Kernel) { delete(k.Nodes, "/sys/bus/pci/drivers/vfio-pci") }, "", is[*vfio.ModuleError], []string{"modprobe vfio-pci"}},
		{"no container node", func(k *vfiofake.Kernel) { delete(k.Nodes, "/dev/vfio/vfio") }, "group", is[*vfio.ModuleError], []string{"modprobe vfio-pci"}},
		{"type 1 not there", func(k *vfiofake.Kernel) { k.Fail[vfio.ReqSetIOMMU] = unix.ENODEV }, "group", is[*vfio.ModuleError], []string{"vfio_iommu_type1", "modprobe"}},
		{"kernel driver has it", func(k *vfiofake.Kernel) { k.Links[device+"/driver"] = "../../../bus/pci/drivers/nvme" }, "", is[*vfio.NotBoundError], []string{"driver nvme", "vfio-pci"}},
		{"no driver has it", func(k *vfiofake.Kernel) { delete(k.Links, device+"/driver") }, "", is[*vfio.NotBoundError], []string{"no driver"}},
		{"group of another user", func(k *vfiofake.Kernel) {
			k.Denied["/dev/vfio/"+vfiofake.Group] = unix.EACCES
			k.Nodes["/dev/vfio/"+vfiofake.Group] = vfio.Access{UID: 7, GID: 8, Mode: 0o600}
		}, "group", is[*vfio.PermissionError], []string{"owner 7, group 8, mode 0600", "chown $USER /dev/vfio/12"}},
		{"device node of another user", func(k *vfiofake.Kernel) { k.Denied[vfiofake.Cdev] = unix.EACCES }, "iommufd", is[*vfio.PermissionError], []string{"chown $USER " + vfiofake.Cdev}},
		{"group in use", func(k *vfiofake.Kernel) { k.Denied["/dev/vfio/"+vfiofake.Group] = unix.EBUSY }, "group", is[*vfio.BusyError], []string{"/dev/vfio/12"}},
		{"device in use", func(k *vfiofake.Kernel) { k.Fail[vfio.ReqBindIOMMUFD] = unix.EBUSY }, "iommufd", is[*vfio.BusyError], []string{vfiofake.Address}},
		{"interrupts not remapped", func(k *vfiofake.Kernel) {
			k.Fail[vfio.ReqSetIOMMU], k.Fail[vfio.ReqBindIOMMUFD] = unix.EPERM, unix.EPERM
		}, "", is[*vfio.InterruptRemappingError], []string{"intremap=on", "allow_unsafe_interrupts=1"}},
		{"no /dev/iommu", func(k *vfiofake.Kernel) { delete(k.Nodes, "/dev/iommu") }, "iommufd", is[*vfio.NoIOMMUFDError], []string{"/dev/iommu", "CONFIG_IOMMUFD", "modprobe iommufd"}},
		{"no character devices", func(k *vfiofake.Kernel) { delete(k.Dirs, device+"/vfio-dev") }, "iommufd", is[*vfio.NoIOMMUFDError], []string{"CONFIG_VFIO_DEVICE_CDEV"}},
		{"no binding request", func(k *vfiofake.Kernel) { k.Fail[vfio.ReqBindIOMMUFD] = unix.ENOTTY }, "iommufd", is[*vfio.NoIOMMUFDError], nil},
		{"no address space", func(k *vfiofake.Kernel) { k.Fail[vfio.ReqIOASAlloc] = unix.ENOMEM }, "iommufd", is[unix.Errno], []string{"address space"}},
		{"attach fails", func(k *vfiofake.Kernel) { k.Fail[vfio.ReqAttachIOAS] = unix.EINVAL }, "iommufd", is[unix.Errno], []string{"attaching"}},
		{"ranges fail", func(k *vfiofake.Kernel) { k.Fail[vfio.ReqIOASRanges] = unix.EINVAL }, "iommufd", is[unix.Errno], []string{"ranges"}},
		{"information fails", func(k *vfiofake.Kernel) { k.Fail[vfio.ReqDeviceInfo] = unix.EIO }, "", is[unix.Errno], []string{vfiofake.Address}},
		{"not a PCI function", func(k *vfiofake.Kernel) { k.Flags = 0 }, "", func(e error) bool { return e != nil }, []string{"not a PCI function"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			for name, open := range interfaces {
				if x.only != "" && x.only != name {
					continue
				}
				k := vfiofake.New()
				x.disturb(k)
				d, err := open(k)
				if err == nil {
					d.Close()
					t.Fatalf("%s: no error", name)
				}
				if !x.is(err) {
					t.Errorf("%s: %v (%T)", name, err, err)
				}
				for _, s := range x.says {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("%s: %q does not say %q", name, err, s)
					}
				}
				if l := k.Leaks(); len(l) > 0 {
					t.Errorf("%s: left behind: %v", name, l)
				}
			}
		})
	}
}

// TestGroupNotViable names the functions that keep the group with the kernel, and only those.
func TestGroupNotViable(t *testing.T) {
	for name, open := range interfaces {
		k := vfiofake.New()
		k.Viable = false
		k.Fail[vfio.ReqBindIOMMUFD] = unix.EBUSY
		k.Dirs["/sys/kernel/iommu_groups/"+vfiofake.Group+"/devices"] = []string{"0000:00:1f.0", "0000:00:1c.0", vfiofake.Address, "0000:02:00.0"}
		k.Links["/sys/bus/pci/devices/0000:00:1f.0/driver"] = "../drivers/ahci"
		k.Links["/sys/bus/pci/devices/0000:00:1c.0/driver"] = "../drivers/pcieport"
		_, err := open(k)
		var e *vfio.GroupNotViableError
		if !errors.As(err, &e) || len(e.Others) != 1 || e.Others[0] != (vfio.Member{Address: "0000:00:1f.0", Driver: "ahci"}) {
			t.Errorf("%s: %v", name, err)
		}
		if l := k.Leaks(); len(l) > 0 {
			t.Errorf("%s: left behind: %v", name, l)
		}
	}
}

func TestMapErrors(t *testing.T) {
	onBoth(t, func(t *testing.T, k *vfiofake.Kernel, open func(vfio.System) (*vfio.Device, error)) {
		k.Limit = 5 * 4096
		d, err := open(k)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		b := pages(t, 8)
		first, err := d.Map(b[:3*4096])
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Map(b[3*4096 : 6*4096])
		var m *vfio.MemlockError
		if !errors.As(err, &m) || m.Need != 6*4096 || m.Limit != 5*4096 || !strings.Contains(err.Error(), "ulimit -l 24") || !errors.Is(err, unix.ENOMEM) {
			t.Errorf("beyond the limit: %v", err)
		}
		// What was mapped before does not count once it is unmapped.
		if err := d.Unmap(first, 3*4096); err != nil {
			t.Fatal(err)
		}
		if first, err = d.Map(b[:5*4096]); err != nil {
			t.Fatal(err)
		}
		if err := d.Unmap(first, 5*4096); err != nil {
			t.Fatal(err)
		}
		if _, err = d.Map(b); !errors.As(err, &m) || m.Need != 8*4096 {
			t.Errorf("with nothing mapped, 8 pages are too many: %v", err)
		}
		for _, bad := range [][]byte{nil, b[:100], b[8 : 4096+8]} {
			if _, err := d.Map(bad); !is[*vfio.MapError](err) {
				t.Errorf("%d bytes: %v, want a MapError", len(bad), err)
			}
		}
		for errno, says := range map[unix.Errno]string{unix.ENOSPC: "dma_entry_limit", unix.EFAULT: "cannot be pinned", unix.EINVAL: "invalid"} {
			k.Fail[vfio.ReqMapDMA], k.Fail[vfio.ReqIOASMap] = errno, errno
			_, err := d.Map(b)
			if !is[*vfio.MapError](err) || !errors.Is(err, errno) || !strings.Contains(err.Error(), says) {
				t.Errorf("%v: %v", errno, err)
			}
		}
		delete(k.Fail, vfio.ReqMapDMA)
		delete(k.Fail, vfio.ReqIOASMap)
		iova, err := d.Map(b[:4096])
		if err != nil || iova != first {
			t.Fatalf("failed mappings kept their addresses: the next is %#x, want %#x (%v)", iova, first, err)
		}
		// Memory that could not be unmapped must count as mapped still.
		k.Fail[vfio.ReqUnmapDMA], k.Fail[vfio.ReqIOASUnmap] = unix.EBUSY, unix.EBUSY
		if err := d.Unmap(iova, 4096); err == nil {
			t.Error("a failed unmapping was reported as done")
		}
		clear(k.Fail)
		if other, err := d.Map(b[4096:8192]); err != nil || other == iova {
			t.Errorf("the address of memory that is still mapped was given out again (%v)", err)
		}
	})
}

func TestProbeDoesNotNeedBinding(t *testing.T) {
	k := vfiofake.New()
	delete(k.Links, device+"/driver")
	if err := vfio.Probe(k, vfiofake.Address); err != nil {
		t.Error(err)
	}
	delete(k.Links, device+"/iommu_group")
	if err := vfio.Probe(k, vfiofake.Address); !is[*vfio.NoIOMMUError](err) {
		t.Error(err)
	}
	if err := vfio.Probe(k, ""); !is[*vfio.NoDeviceError](err) || !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
