package vfio

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/internal/pci"
	"github.com/tritier/tritier/internal/vfio"
	"github.com/tritier/tritier/internal/vfio/vfiofake"
	"github.com/tritier/tritier/libnvm"
)

var (
	_ libnvm.Transport = (*Transport)(nil)
	_ libnvm.CMB       = (*Transport)(nil)
)

// machine is a fake kernel and the part of sysfs that package pci reads, with one drive.
func machine(t *testing.T) (*vfiofake.Kernel, pci.Tree) {
	t.Helper()
	dir := t.TempDir()
	d := filepath.Join(dir, "sys/bus/pci/devices", vfiofake.Address)
	err := errors.Join(os.MkdirAll(d, 0o755), os.MkdirAll(dir+"/sys/bus/pci/drivers/vfio-pci", 0o755), os.MkdirAll(dir+"/proc/self", 0o755),
		os.WriteFile(d+"/class", []byte("0x010802\n"), 0o600), os.WriteFile(dir+"/proc/self/mountinfo", nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return vfiofake.New(), pci.Tree{Sys: dir + "/sys", Proc: dir + "/proc", Dev: dir + "/dev"}
}

func opened(t *testing.T, k *vfiofake.Kernel, tree pci.Tree, o Options) *Transport {
	t.Helper()
	tr, err := open(k, tree, vfiofake.Address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(tr.Close(), tr.Close()); err != nil {
			t.Error(err)
		}
		if l := k.Leaks(); len(l) > 0 {
			t.Errorf("left behind: %s", strings.Join(l, ", "))
		}
	})
	return tr
}

func TestChoiceOfInterface(t *testing.T) {
	without := func(k *vfiofake.Kernel) { delete(k.Nodes, "/dev/iommu") }
	with := func(*vfiofake.Kernel) {}
	for _, x := range []struct {
		want  Interface
		setup func(*vfiofake.Kernel)
		name  string // "" for an error
	}{
		{Auto, with, "iommufd"}, {Auto, without, "vfio"}, {Group, with, "vfio"}, {IOMMUFD, with, "iommufd"}, {IOMMUFD, without, ""},
		// Something else than a missing interface must not be hidden by trying the other.
		{Auto, func(k *vfiofake.Kernel) { k.Denied["/dev/iommu"] = unix.EACCES }, ""},
	} {
		k, tree := machine(t)
		x.setup(k)
		tr, err := open(k, tree, vfiofake.Address, Options{Interface: x.want})
		if err != nil {
			if x.name != "" {
				t.Errorf("%v: %v, want %s", x.want, err, x.name)
			}
			continue
		}
		if tr.Name() != x.name {
			t.Errorf("%v: %s, want %q", x.want, tr.Name(), x.name)
		}
		tr.Close()
		if v := tr.Registers().Read32(8); v != 1<<32-1 {
			t.Errorf("%s: after Close a register reads %#x, want all ones", tr.Name(), v)
		}
	}
}

func TestMemory(t *testing.T) {
	for _, i := range []Interface{Group, IOMMUFD} {
		k, tree := machine(t)
		tr := opened(t, k, tree, Options{Interface: i})
		k.BAR(0)[8] = 0x14
		if v := tr.Registers().Read32(8); v != 0x14 || tr.Registers().Len() != 16<<10 {
			t.Errorf("%s: register %#x in %d bytes", tr.Name(), v, tr.Registers().Len())
		}
		m, err := tr.Alloc(5000)
		if err != nil {
			t.Fatal(err)
		}
		if m.Len() != 8192 || !m.Contiguous(0, 8192) {
			t.Errorf("%s: %d bytes for 5000", tr.Name(), m.Len())
		}
		iova, err := m.IOVA(4097)
		if err != nil {
			t.Fatal(err)
		}
		m.Bytes()[4097] = 9
		if b, err := k.Memory(iova, 1); err != nil || b[0] != 9 {
			t.Errorf("%s: the drive finds %v, %v", tr.Name(), b, err)
		}
		if err := errors.Join(m.Free(), m.Free()); err != nil {
			t.Error(err)
		}
		if _, err := k.Memory(iova, 1); err == nil {
			t.Errorf("%s: the drive reaches freed memory", tr.Name())
		}
		for _, n := range []int{0, -1, int(^uint(0) >> 1)} {
			if _, err := tr.Alloc(n); err == nil {
				t.Errorf("%s: %d bytes were allocated", tr.Name(), n)
			}
		}
	}
}

func TestMapAndRevoke(t *testing.T) {
	k, tree := machine(t)
	tr := opened(t, k, tree, Options{})
	m, err := tr.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	mine, err := tr.Map(m.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	iova, err := mine.IOVA(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Revoke(mine); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Memory(iova, 1); err == nil {
		t.Error("the drive reaches revoked memory")
	}
	mine.Bytes()[0] = 1 // the program keeps its mapping
	if err := mine.Free(); err != nil {
		t.Error(err)
	}
	if err := tr.Revoke(mine); err == nil {
		t.Error("freed memory was revoked")
	}
	if err := m.Free(); err != nil {
		t.Error(err)
	}
	if len(tr.iova) != 0 {
		t.Errorf("%d pieces of freed memory are remembered", len(tr.iova))
	}
	var e *libnvm.MapError
	if _, err := tr.Map(make([]byte, 10)); !errors.As(err, &e) || e.Remedy == "" {
		t.Errorf("memory that is not aligned: %v", err)
	}
}

// TestMemlockReachesTheUser: the limit of locked memory is what most new users meet first.
func TestMemlockReachesTheUser(t *testing.T) {
	k, tree := machine(t)
	k.Limit = 64 << 10
	tr := opened(t, k, tree, Options{})
	_, err := tr.Alloc(1 << 20)
	var m *vfio.MemlockError
	if !errors.As(err, &m) || !strings.Contains(err.Error(), "ulimit -l 1024") {
		t.Errorf("%v, want a MemlockError with ulimit -l 1024", err)
	}
}

func TestMemoryThatOutlivesTheTransport(t *testing.T) {
	k, tree := machine(t)
	tr := opened(t, k, tree, Options{})
	m, err := tr.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.Free(); err != nil {
		t.Error(err)
	}
	if _, err := tr.Alloc(4096); err == nil {
		t.Error("allocated after Close")
	}
}

// TestMemoryOfADriveThatIsGone: a drive vanishes while it is enabled, with its admin queue set up. What it may still write to goes back when
// the transport has taken its access away, not before.
func TestMemoryOfADriveThatIsGone(t *testing.T) {
	for _, i := range []Interface{Group, IOMMUFD} {
		k, tree := machine(t)
		tr, err := open(k, tree, vfiofake.Address, Options{Interface: i})
		if err != nil {
			t.Fatal(err)
		}
		vanishOnEnable(t, tr.Registers())
		_, err = libnvm.Open(tr, libnvm.Config{ReadyTimeout: 10 * time.Second})
		var gone *libnvm.DeviceGoneError
		if !errors.As(err, &gone) {
			t.Fatalf("open: %v, want a DeviceGoneError", err)
		}
		if len(tr.iova) == 0 {
			t.Error("the rings were given back while the drive may use them")
		}
		if err := tr.Close(); err != nil || len(tr.iova) != 0 {
			t.Errorf("Close: %v, %d pieces of memory are left", err, len(tr.iova))
		}
	}
}

// vanishOnEnable plays a controller that is ready to be enabled and vanishes when it is.
func vanishOnEnable(t *testing.T, r libnvm.Registers) {
	const cc, csts = 0x14, 0x1c
	r.Write32(0, 0xff|20<<24) // CAP: 256 entries, 10 s
	r.Write32(4, 1<<5)        // the NVM command set
	done := make(chan struct{})
	go func() {
		defer close(done)
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
			if r.Read32(cc)&1 != 0 {
				r.Write32(csts, 1<<32-1)
				return
			}
		}
	}()
	t.Cleanup(func() { <-done })
}

// TestMemoryThatCannotBeUnmapped must not go back to the system while the drive may still write to it.
func TestMemoryThatCannotBeUnmapped(t *testing.T) {
	k, tree := machine(t)
	tr := opened(t, k, tree, Options{Interface: Group})
	m, err := tr.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	k.Fail[vfio.ReqUnmapDMA] = unix.EBUSY
	if err := m.Free(); err == nil {
		t.Error("no error")
	}
	m.Bytes()[0] = 1 // would fault had the memory been given back
	clear(k.Fail)
}

func TestBARs(t *testing.T) {
	k, tree := machine(t)
	tr := opened(t, k, tree, Options{})
	a, err := tr.BAR(2)
	if err != nil {
		t.Fatal(err)
	}
	b, err := tr.BAR(2)
	if err != nil || &a[0] != &b[0] {
		t.Error("mapped twice")
	}
	for _, bad := range []int{-1, 6, 3} {
		if _, err := tr.BAR(bad); err == nil {
			t.Errorf("BAR%d was mapped", bad)
		}
	}
}

func TestRemovalAndReset(t *testing.T) {
	k, tree := machine(t)
	tr := opened(t, k, tree, Options{})
	if asked, err := tr.RemovalRequested(); asked || err != nil {
		t.Error(asked, err)
	}
	k.AskBack()
	if asked, err := tr.RemovalRequested(); !asked || err != nil {
		t.Error(asked, err)
	}
	if err := tr.Reset(); err != nil || k.Resets() != 1 {
		t.Error(err, k.Resets())
	}
}

// TestDriveIsNotTakenForNothing: when VFIO cannot work anyway, the kernel keeps the drive.
func TestDriveIsNotTakenForNothing(t *testing.T) {
	k, tree := machine(t)
	touched := false
	tree.Write = func(string, string) error { touched = true; return nil }
	delete(k.Links, "/sys/bus/pci/devices/"+vfiofake.Address+"/iommu_group")
	var e *vfio.NoIOMMUError
	if _, err := open(k, tree, vfiofake.Address, Options{Bind: true, Force: true}); !errors.As(err, &e) || touched {
		t.Errorf("%v, touched %v", err, touched)
	}
	var n *pci.NotFoundError
	if _, err := open(k, tree, "0000:09:00.0", Options{}); !errors.As(err, &n) {
		t.Errorf("no such drive: %v", err)
	}
}

// TestBindRefusesDataOnTheDrive, and Force does not.
func TestBindRefusesDataOnTheDrive(t *testing.T) {
	k, tree := machine(t)
	d := filepath.Join(tree.Sys, "bus/pci/devices", vfiofake.Address)
	err := errors.Join(os.MkdirAll(d+"/nvme/nvme0/nvme0n1", 0o755), os.MkdirAll(tree.Dev, 0o755), os.Symlink("../drivers/nvme", d+"/driver"),
		os.WriteFile(tree.Dev+"/nvme0n1", append(make([]byte, 512), "EFI PART"...), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	tree.Busy = func(string) (bool, error) { return false, nil }
	tree.Write = func(p, v string) error {
		switch filepath.Base(p) {
		case "unbind":
			return os.Remove(d + "/driver")
		case "drivers_probe":
			return os.Symlink("../drivers/vfio-pci", d+"/driver")
		}
		return nil
	}
	var in *pci.InUseError
	if _, err := open(k, tree, vfiofake.Address, Options{Bind: true}); !errors.As(err, &in) {
		t.Errorf("%v, want an InUseError", err)
	}
	opened(t, k, tree, Options{Bind: true, Force: true})
}
