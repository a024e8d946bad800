// Package guest holds the tests that run inside a QEMU guest, as its PID 1; package qemutest boots them. They set queues up through libnvm
// and have a C++ program, built from the device headers, use them.
package guest

import (
	"sync"
	"testing"
	"time"

	"github.com/tritier/tritier/internal/pci"
	"github.com/tritier/tritier/internal/qemu/guest"
)

func TestMain(m *testing.M) { guest.Main(m) }

// Serial numbers of the drives, and namespaces of the main one.
const (
	mainDrive   = "main"
	narrowDrive = "narrow"

	dataNS = 1
	badNS  = 2 // some sectors fail
	slowNS = 3 // every command takes 2 s
)

// addresses gives each drive's PCI address. Serial numbers are known only while the kernel's driver has a drive, so they are looked up once,
// before any test takes one.
var addresses = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for end := time.Now().Add(20 * time.Second); len(out) < 2 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
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
