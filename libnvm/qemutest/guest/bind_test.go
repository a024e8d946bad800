package guest

import (
	"encoding/binary"
	"os"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/internal/pci"
	"github.com/tritier/tritier/internal/qemu/guest"
)

// TestBindRefusesDriveInUse puts data of several kinds on a drive, and lets the kernel use it, before asking for it.
func TestBindRefusesDriveInUse(t *testing.T) {
	tree, address := pci.Host(), addressOf(t, spareDrive)
	f, err := tree.Find(address)
	if err != nil || len(f.Disks) != 1 {
		t.Fatal(f, err)
	}
	disk := "/dev/" + f.Disks[0]
	refused := func(kinds ...string) {
		t.Helper()
		err := tree.Bind(address, "", false)
		e := wantError[*pci.InUseError](t, kinds[0], err)
		if e == nil {
			return
		}
		for _, k := range kinds {
			found := false
			for _, u := range e.Uses {
				found = found || u.Kind == k
			}
			if !found {
				t.Errorf("%v lacks %q", e.Uses, k)
			}
		}
	}
	// A swap area: version, last page, and the mark at the end of the first page.
	head := make([]byte, 4096)
	binary.LittleEndian.PutUint32(head[1024:], 1)
	binary.LittleEndian.PutUint32(head[1028:], 255)
	copy(head[4086:], "SWAPSPACE2")
	write(t, disk, head)
	refused("signature")
	path, err := unix.BytePtrFromString(disk)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, e := unix.Syscall(unix.SYS_SWAPON, uintptr(unsafe.Pointer(path)), 0, 0); e != 0 {
		t.Fatal("swapon:", e)
	}
	refused("swap", "signature")
	if _, _, e := unix.Syscall(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(path)), 0, 0); e != 0 {
		t.Fatal("swapoff:", e)
	}
	// An MBR with one partition, which the kernel reads.
	clear(head)
	head[446+4] = 0x83
	binary.LittleEndian.PutUint32(head[446+8:], 2048)
	binary.LittleEndian.PutUint32(head[446+12:], 4096)
	head[510], head[511] = 0x55, 0xaa
	write(t, disk, head)
	refused("partition table")
	// Held exclusively by a program, as by a mount in another namespace.
	write(t, disk, make([]byte, 4096))
	fd, err := unix.Open(disk, unix.O_RDONLY|unix.O_EXCL, 0)
	if err != nil {
		t.Fatal(err)
	}
	refused("exclusive")
	unix.Close(fd)
	// Empty again: it goes, and comes back.
	if err := tree.Bind(address, "", false); err != nil {
		t.Fatal("an empty drive: ", err)
	}
	if f, err = tree.Find(address); err != nil || f.Driver != "" {
		t.Fatalf("driver %q after unbinding (%v)", f.Driver, err)
	}
	if err := tree.Release(address); err != nil {
		t.Fatal(err)
	}
	guest.WaitFor(t, disk, false, 10*time.Second)
	if f, err = tree.Find(address); err != nil || f.Serial != spareDrive {
		t.Errorf("after its return: %+v, %v", f, err)
	}
}

// write overwrites the beginning of a disk and has the kernel read its partitions.
func write(t *testing.T, disk string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(disk, os.O_RDWR|unix.O_SYNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKRRPART, 0); e != 0 {
		t.Fatal("reading the partitions again:", e)
	}
}
