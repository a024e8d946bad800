package vfio_test

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/internal/vfio"
	"github.com/tritier/tritier/internal/vfio/vfiofake"
)

// TestSharedRegion maps registers through a descriptor of their own, which keeps the device open after Close.
func TestSharedRegion(t *testing.T) {
	onBoth(t, func(t *testing.T, k *vfiofake.Kernel, open func(vfio.System) (*vfio.Device, error)) {
		d, err := open(k)
		if err != nil {
			t.Fatal(err)
		}
		fd, offset, bytes, err := d.ShareRegion(2)
		if err != nil {
			t.Fatal(err)
		}
		b, err := k.Mmap(fd, offset, bytes)
		if err != nil {
			t.Fatal(err)
		}
		b[1] = 77
		if k.BAR(2)[1] != 77 || len(b) != len(k.BAR(2)) {
			t.Errorf("what was mapped is not the whole of BAR2: %d bytes", len(b))
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		var busy *vfio.BusyError
		if _, err := open(k); !errors.As(err, &busy) {
			t.Errorf("opened again while the registers are mapped elsewhere: %v", err)
		}
		if err := errors.Join(k.Munmap(b), k.Close(fd)); err != nil {
			t.Error(err)
		}
		if _, _, _, err := d.ShareRegion(2); !errors.Is(err, os.ErrClosed) {
			t.Errorf("shared after Close: %v", err)
		}
	})
}

// TestSharedRegionFails leaves no descriptor behind.
func TestSharedRegionFails(t *testing.T) {
	onBoth(t, func(t *testing.T, k *vfiofake.Kernel, open func(vfio.System) (*vfio.Device, error)) {
		d, err := open(k)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		k.Fail[vfio.ReqRegionInfo] = unix.EINVAL
		if fd, _, _, err := d.ShareRegion(0); !errors.Is(err, unix.EINVAL) || fd != -1 {
			t.Errorf("descriptor %d, %v", fd, err)
		}
		delete(k.Fail, vfio.ReqRegionInfo)
	})
}

// TestKernelDup: the other descriptor outlives the first, and programs that are started do not get it by chance.
func TestKernelDup(t *testing.T) {
	sys := vfio.Kernel()
	a, err := sys.Eventfd()
	if err != nil {
		t.Fatal(err)
	}
	b, err := sys.Dup(a)
	if err != nil {
		t.Fatal(err)
	}
	if flags, err := unix.FcntlInt(uintptr(b), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
	if err := sys.Close(a); err != nil {
		t.Fatal(err)
	}
	if _, err := sys.Read(b, make([]byte, 8)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("reading the other descriptor: %v", err)
	}
	if err := sys.Close(b); err != nil {
		t.Fatal(err)
	}
	if _, err := sys.Dup(b); !errors.Is(err, unix.EBADF) {
		t.Errorf("of a closed descriptor: %v", err)
	}
}
