package devicetest

import (
	"os"
	"testing"
	"time"

	"github.com/tritier/tritier/internal/devicerig"
)

type build = devicerig.Build

var (
	plain, threads, addresses = devicerig.Plain, devicerig.Threads, devicerig.Addresses

	rig = devicerig.New("../../bamio/device", "../../cuda/device")
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// program is the rig with the device headers, built once.
func program(t *testing.T, b build) string {
	t.Helper()
	return rig.Program(t, "rig.cpp", b)
}

// trial runs the rig under a limit and returns what it printed.
func trial(t *testing.T, bin string, limit time.Duration, args []string) (string, error) {
	t.Helper()
	return devicerig.Trial(t, bin, limit, args)
}

func lastLine(s string) string { return devicerig.LastLine(s) }
