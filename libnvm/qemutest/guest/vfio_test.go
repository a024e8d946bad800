package guest

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/internal/pci"
	"github.com/tritier/tritier/internal/qemu/guest"
	kernel "github.com/tritier/tritier/internal/vfio"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/raw"
	"github.com/tritier/tritier/libnvm/vfio"
)

// wantError checks that err has an error of type E in its chain, and shows its text.
func wantError[E error](t *testing.T, what string, err error) (e E) {
	t.Helper()
	if !errors.As(err, &e) {
		t.Errorf("%s: %v, want a %T", what, err, e)
	} else {
		t.Logf("%s: %v", what, err)
	}
	return e
}

// TestVFIOErrors meets what a user's machine may lack, on a real kernel.
func TestVFIOErrors(t *testing.T) {
	spare := addressOf(t, spareDrive)
	_, err := vfio.Open(spare, vfio.Options{})
	if e := wantError[*kernel.NotBoundError](t, "not bound", err); e != nil && e.Driver != "nvme" {
		t.Errorf("driver %q, want nvme", e.Driver)
	}
	_, err = vfio.Open("0000:7f:00.0", vfio.Options{})
	wantError[*pci.NotFoundError](t, "no such drive", err)
	_, err = raw.Open(spare, raw.Options{AllowUnsafe: true, Bind: true})
	wantError[*raw.IOMMUActiveError](t, "physical addresses behind an IOMMU", err)
	mode := guest.Param("mode")
	if tr := transport(t, mainDrive); tr.Name() != mode {
		t.Errorf("name %q, want %q", tr.Name(), mode)
	}
	_, err = vfio.Open(addressOf(t, mainDrive), vfio.Options{Interface: vfio.Group})
	wantError[*kernel.BusyError](t, "opened twice", err)
	_, err = vfio.Open(addressOf(t, mainDrive), vfio.Options{Interface: vfio.IOMMUFD})
	if mode == "iommufd" {
		wantError[*kernel.BusyError](t, "opened twice", err)
	} else {
		wantError[*kernel.NoIOMMUFDError](t, "a kernel without iommufd", err)
	}
}

// TestVFIOMap lets the drive reach memory that the caller brings, and refuses what cannot be pinned.
func TestVFIOMap(t *testing.T) {
	b := newBench(t, mainDrive, dataNS, libnvm.QueueConfig{Depth: 4})
	buf, err := unix.Mmap(-1, 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(buf)
	m, err := b.tr.Map(buf)
	if err != nil {
		t.Fatal(err)
	}
	for i := range buf[:8192] {
		buf[i] = byte(i * 11)
	}
	w := &libnvm.Request{Op: libnvm.OpWrite, NS: b.ns, LBA: 256, Blocks: 16, Mem: m}
	r := &libnvm.Request{Op: libnvm.OpRead, NS: b.ns, LBA: 256, Blocks: 16, Mem: m, Offset: 8192}
	if err := errors.Join(b.q.Do(w), b.q.Do(r)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(buf[:8192], buf[8192:16384]) {
		t.Error("what was read is not what was written")
	}
	if err := m.Free(); err != nil {
		t.Error(err)
	}
	if _, err := b.tr.Map(buf[1 : 4096+1]); err == nil {
		t.Error("memory that is not aligned was mapped")
	}
	readOnly, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(readOnly)
	_, err = b.tr.Map(readOnly)
	wantError[*libnvm.MapError](t, "memory that cannot be written", err)
}

// TestVFIORevokedData reads into memory that the drive lost: QEMU drops the data and reports success, so only a comparison shows it.
func TestVFIORevokedData(t *testing.T) {
	b := newBench(t, mainDrive, dataNS, libnvm.QueueConfig{Depth: 4})
	m, err := b.tr.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Bytes() {
		b.m.Bytes()[i], m.Bytes()[i] = 0x11, 0x77
	}
	b.do(t, libnvm.OpWrite, 512, 8, 0)
	if err := b.tr.(*vfio.Transport).Revoke(m); err != nil {
		t.Fatal(err)
	}
	err = b.q.Do(&libnvm.Request{Op: libnvm.OpRead, NS: b.ns, LBA: 512, Blocks: 8, Mem: m})
	t.Log("read into revoked memory:", err)
	if bytes.IndexByte(m.Bytes(), 0x11) >= 0 {
		t.Error("the drive wrote to memory that was revoked")
	}
	b.do(t, libnvm.OpRead, 512, 8, 4096)
	if err := m.Free(); err != nil {
		t.Error(err)
	}
}

// TestVFIOFatal takes the queues from under the controller, which then reports a fatal status, and recovers by a reset.
func TestVFIOFatal(t *testing.T) {
	b := newBench(t, mainDrive, dataNS, libnvm.QueueConfig{Depth: 4})
	rings, err := b.tr.Alloc(8192)
	if err != nil {
		t.Fatal(err)
	}
	cq, err := b.tr.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	q, err := b.c.CreateQueuePair(libnvm.QueueConfig{Depth: 16, SQ: rings, CQ: cq})
	if err != nil {
		t.Fatal(err)
	}
	v := b.tr.(*vfio.Transport)
	if err := errors.Join(v.Revoke(rings), v.Revoke(cq)); err != nil {
		t.Fatal(err)
	}
	r := b.request(libnvm.OpRead, 0, 1, 0)
	r.Timeout = 3 * time.Second
	wantError[*libnvm.ControllerFatalError](t, "queues gone", q.Do(r))
	if err := b.c.Reset(); err != nil {
		t.Fatal(err)
	}
	b.queue(t, libnvm.QueueConfig{Depth: 4})
	b.do(t, libnvm.OpRead, 0, 8, 0)
	if err := errors.Join(rings.Free(), cq.Free()); err != nil {
		t.Error(err)
	}
}

// TestVFIOFunctionReset resets the PCI function with commands in flight.
func TestVFIOFunctionReset(t *testing.T) {
	b := newBench(t, mainDrive, slowNS, libnvm.QueueConfig{Depth: 64})
	for i := range 32 {
		if _, err := b.q.Submit(b.request(libnvm.OpRead, uint64(i), 1, i*4096)); err != nil {
			t.Fatal(err)
		}
	}
	b.fetched(t)
	t.Logf("%d commands are in flight", b.q.Outstanding())
	if err := b.tr.(*vfio.Transport).Reset(); err != nil {
		t.Fatal(err)
	}
	wantError[*libnvm.NotReadyError](t, "reset behind the driver's back", b.c.Health())
	if err := b.c.Reset(); err != nil {
		t.Fatal(err)
	}
	b.queue(t, libnvm.QueueConfig{Depth: 4})
	b.do(t, libnvm.OpRead, 0, 1, 0)
}

// TestVFIOUnplug unplugs a drive in use: the kernel asks for it back, and after Close it is gone.
func TestVFIOUnplug(t *testing.T) {
	address := addressOf(t, hotDrive)
	tr, err := vfio.Open(address, vfio.Options{Bind: true, Force: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := libnvm.Open(tr, libnvm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if asked, err := tr.RemovalRequested(); asked || err != nil {
		t.Fatalf("asked for before it was unplugged: %v, %v", asked, err)
	}
	guest.QMP(t, `{"execute":"device_del","arguments":{"id":"nv1"}}`)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		asked, err := tr.RemovalRequested()
		if err != nil {
			t.Fatal(err)
		}
		if asked {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the kernel has not asked for the drive")
		}
	}
	if err := c.Close(); err != nil {
		t.Log("closing the controller of a drive that is being unplugged:", err)
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	guest.WaitFor(t, "/sys/bus/pci/devices/"+address, true, 20*time.Second)
	_, err = vfio.Open(address, vfio.Options{})
	wantError[*pci.NotFoundError](t, "unplugged", err)
}
