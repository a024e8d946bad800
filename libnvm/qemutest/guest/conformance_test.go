package guest

import (
	"testing"
	"time"

	"github.com/tritier/tritier/internal/qemu/guest"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/nvmetest"
)

// stall lets every command of the main drive's data namespace take 2 s, until the returned function is called.
func stall(t testing.TB) (release func()) {
	point(t, "n1slow")
	released := false
	release = func() {
		if !released {
			released = true
			point(t, "n1")
		}
	}
	t.Cleanup(release)
	return release
}

// point gives the main drive's data namespace another block device below its throttle filter. It waits for what is in flight.
func point(t testing.TB, node string) {
	t.Helper()
	guest.QMP(t, `{"execute":"blockdev-reopen","arguments":{"options":[{"driver":"throttle","node-name":"t1","throttle-group":"tg","file":"`+node+`"}]}}`)
}

// TestDriveConformance runs the suite that every transport and controller must pass.
func TestDriveConformance(t *testing.T) {
	for serial, o := range map[string]nvmetest.Options{
		mainDrive:   {Queues: 8, DoorbellStride: 4, CMB: true, DoorbellEvents: true, Stall: stall},
		narrowDrive: {Queues: 1, DoorbellStride: 4, DoorbellEvents: true},
	} {
		t.Run(serial, func(t *testing.T) {
			o.FetchBeforeReset = true
			o.Config = libnvm.Config{IOTimeout: 20 * time.Second}
			nvmetest.Run(t, func(t testing.TB) libnvm.Transport { return transport(t, serial) }, o)
		})
	}
}
