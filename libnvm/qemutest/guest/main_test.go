// Package guest holds the NVMe tests that run inside a QEMU guest; package qemutest boots them.
package guest

import (
	"os"
	"testing"

	"github.com/tritier/tritier/internal/qemu/guest"
)

func TestMain(m *testing.M) { guest.Main(m) }

func TestGuestIsPID1(t *testing.T) {
	if os.Getpid() != 1 {
		t.Fatal("not PID 1")
	}
	t.Log(guest.QMP(t, `{"execute":"query-status"}`))
	b, _ := os.ReadFile("/proc/uptime")
	t.Log(string(b))
}
