// Package guest holds the NVMe tests that run inside a QEMU guest, as its PID 1; package qemutest boots them. The kernel command line says
// in which mode: "vfio" or "iommufd", with an emulated IOMMU, or "raw" or "noiommu", without.
package guest

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/tritier/tritier/internal/pci"
	"github.com/tritier/tritier/internal/qemu/guest"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/raw"
	"github.com/tritier/tritier/libnvm/vfio"
)

func TestMain(m *testing.M) { guest.Main(m) }

// Serial numbers of the drives that package qemutest plugs in.
const (
	mainDrive   = "main"   // three namespaces: data, injected errors, slow
	narrowDrive = "narrow" // 8 KiB a command, one I/O queue pair, 4 KiB blocks
	hotDrive    = "hot"    // behind a port that can unplug it
	spareDrive  = "spare"  // for binding
)

// Namespaces of the main drive.
const (
	dataNS = 1
	badNS  = 2
	slowNS = 3
)

// addresses gives each drive's PCI address. Serial numbers are known only while the kernel's driver has a drive, so they are looked up once,
// before any test takes one.
var addresses = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for end := time.Now().Add(20 * time.Second); len(out) < 4 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		drives, err := pci.Host().NVMe()
		if err != nil {
			return nil
		}
		for _, d := range drives {
			if d.Serial != "" && len(d.Disks) > 0 {
				out[d.Serial] = d.Address
			}
		}
	}
	return out
})

func addressOf(t testing.TB, serial string) string {
	t.Helper()
	a, ok := addresses()[serial]
	if !ok {
		t.Fatalf("no drive %q, there are %v", serial, addresses())
	}
	return a
}

// reserve keeps enough huge pages for the raw mode.
var reserve = sync.OnceFunc(func() { os.WriteFile("/proc/sys/vm/nr_hugepages", []byte("48"), 0) })

// openTransport opens a drive in the guest's mode.
func openTransport(t testing.TB, serial string) (tr libnvm.Transport, err error) {
	t.Helper()
	switch mode := guest.Param("mode"); mode {
	case "vfio":
		tr, err = vfio.Open(addressOf(t, serial), vfio.Options{Bind: true, Force: true, Interface: vfio.Group})
	case "iommufd":
		tr, err = vfio.Open(addressOf(t, serial), vfio.Options{Bind: true, Force: true, Interface: vfio.IOMMUFD})
	case "raw":
		reserve()
		tr, err = raw.Open(addressOf(t, serial), raw.Options{AllowUnsafe: true, Bind: true, Force: true})
	case "noiommu":
		reserve()
		tr, err = raw.OpenNoIOMMU(addressOf(t, serial), raw.Options{AllowUnsafe: true, Bind: true, Force: true})
	default:
		t.Fatalf("mode %q", mode)
	}
	return tr, err
}

// transport opens a drive in the guest's mode and closes it after the test.
func transport(t testing.TB, serial string) libnvm.Transport {
	t.Helper()
	tr, err := openTransport(t, serial)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// controller brings a drive up and closes it after the test.
func controller(t testing.TB, tr libnvm.Transport) *libnvm.Controller {
	t.Helper()
	c, err := libnvm.Open(tr, libnvm.Config{IOTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// bench is a drive with one queue pair and memory, as most tests need it.
type bench struct {
	tr libnvm.Transport
	c  *libnvm.Controller
	ns *libnvm.Namespace
	q  *libnvm.QueuePair
	m  *libnvm.Memory
}

func newBench(t testing.TB, serial string, ns uint32, cfg libnvm.QueueConfig) *bench {
	t.Helper()
	b := &bench{tr: transport(t, serial)}
	b.c = controller(t, b.tr)
	var err error
	if b.ns, err = b.c.Namespace(ns); err != nil {
		t.Fatal(err)
	}
	if b.m, err = b.tr.Alloc(1 << 20); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.m.Free(); err != nil {
			t.Error(err)
		}
	})
	b.queue(t, cfg)
	return b
}

// queue makes a queue pair, again after a reset.
func (b *bench) queue(t testing.TB, cfg libnvm.QueueConfig) {
	t.Helper()
	q, err := b.c.CreateQueuePair(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.q = q
}

// request moves blocks between the drive and the memory at off.
func (b *bench) request(op libnvm.Opcode, lba, blocks uint64, off int) *libnvm.Request {
	return &libnvm.Request{Op: op, NS: b.ns, LBA: lba, Blocks: blocks, Mem: b.m, Offset: off}
}

func (b *bench) do(t testing.TB, op libnvm.Opcode, lba, blocks uint64, off int) {
	t.Helper()
	if err := b.q.Do(b.request(op, lba, blocks, off)); err != nil {
		t.Fatalf("%s at LBA %d: %v", op.Name(false), lba, err)
	}
}

// fetched returns once the controller has fetched everything that was submitted to the queue pair: it fetches in order, so it has when a
// later command is done. QEMU 7.2 crashes now and then when it is reset before.
func (b *bench) fetched(t testing.TB) {
	t.Helper()
	ns, err := b.c.Namespace(dataNS)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.q.Do(&libnvm.Request{Op: libnvm.OpRead, NS: ns, Blocks: 1, Mem: b.m, Offset: b.m.Len() - ns.BlockSize}); err != nil {
		t.Fatal(err)
	}
}
