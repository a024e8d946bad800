package devicetest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/internal/devicerig"
)

type build = devicerig.Build

var (
	plain, threads, addresses = devicerig.Plain, devicerig.Threads, devicerig.Addresses

	rig = devicerig.New("../../cuda/device")
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// program is rig/source with the device headers, built once.
func program(t *testing.T, source string, b build) string {
	t.Helper()
	return rig.Program(t, source, b)
}

// trial runs a program under a limit, with files as descriptors 3 and up.
func trial(t *testing.T, bin string, limit time.Duration, args []string, files ...*os.File) error {
	t.Helper()
	out, err := devicerig.Trial(t, bin, limit, args, files...)
	if err == nil {
		t.Logf("%s: %s", strings.Join(args, " "), devicerig.LastLine(out))
	}
	return err
}

// scenarios are worlds in which nothing may go wrong, with the arguments of
// rig.cpp. Each is one hazard taken alone; random ones mix them.
var scenarios = []struct{ name, args string }{
	{"arguments", "mode=arguments"},
	{"many on few", "depth=64 cq=64 cids=63 queues=2 warps=8 rounds=60"},
	{"depth 2", "depth=2 cq=2 cids=1 warps=12 rounds=30"},
	{"depth 3, past 2^32", "depth=3 cq=7 cids=5 warps=12 rounds=30 start=4294967290 cq_start=4294967290"},
	{"past 3*2^32", "depth=64 cq=32 cids=31 warps=6 rounds=40 start=12884901860 cq_start=12884901870 lba=4294967200"},
	{"a warp on depth 2", "depth=2 cq=2 cids=1 warps=2 lanes=8 rounds=16"},
	{"warps, small ring", "depth=8 cq=64 cids=40 warps=2 lanes=8 rounds=24 stall=2 reorder=1 torn=3"},
	{"warps, small completion ring", "depth=64 cq=8 cids=7 warps=3 lanes=4 rounds=24 twice=3 fail=4 reorder=1"},
	{"a full warp", "depth=48 cq=40 cids=36 warps=1 lanes=32 rounds=10 reorder=1"},
	{"two in flight", "depth=16 cq=64 cids=60 warps=8 rounds=40 async=1 reorder=1 twice=4 fail=5"},
	{"two in flight, warps", "depth=16 cq=64 cids=60 warps=3 lanes=4 rounds=24 async=1 reorder=1 twice=4 fail=5"},
	{"torn and stalled", "depth=5 cq=9 cids=8 warps=8 rounds=40 torn=2 stall=2 reorder=1"},
	{"every status", "depth=16 cq=16 cids=15 warps=6 rounds=60 fail=2"},
	{"twice", "depth=16 cq=4 cids=3 warps=6 rounds=50 twice=2 reorder=1"},
	{"lost and late", "depth=8 cq=32 cids=20 warps=8 rounds=50 drop=15 late=15 losses=12 deadline=30 twice=5"},
	{"lost and late, warps", "depth=8 cq=32 cids=20 warps=2 lanes=4 rounds=40 drop=15 late=15 losses=12 deadline=30 twice=5"},
	{"all ids lost", "depth=8 cq=4 cids=3 warps=4 rounds=12 drop=2 losses=3 deadline=20"},
	{"gone", "depth=8 cq=32 cids=20 warps=8 rounds=1000 gone_after=200"},
	{"gone, warps", "depth=8 cq=32 cids=20 warps=2 lanes=4 rounds=1000 gone_after=200"},
	{"stopped", "depth=2 cq=2 cids=1 warps=8 rounds=100000 stop_after=20"},
	{"requests", "mode=requests depth=4 warps=6 rounds=60 start=4294967290"},
	{"requests, late answers", "mode=requests depth=4 warps=6 rounds=20 late=10 deadline=20"},
	{"requests that are withdrawn", "mode=requests depth=4 warps=6 rounds=300 withdraw=1 deadline=20000"},
	{"random", "mode=random ms=700"},
}

// TestRig runs the device code against the adversarial controller.
func TestRig(t *testing.T) {
	builds := []build{plain, threads, addresses}
	for _, b := range builds {
		t.Run(b.Name, func(t *testing.T) {
			bin := program(t, "rig.cpp", b)
			for i, s := range scenarios {
				if testing.Short() && b.Name != plain.Name && i%3 != 0 && s.name != "random" {
					continue
				}
				t.Run(strings.ReplaceAll(s.name, " ", "-"), func(t *testing.T) {
					seed := time.Now().UnixNano() & 0xffffff
					if err := trial(t, bin, 2*time.Minute, append(strings.Fields(s.args), fmt.Sprint("seed=", seed))); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// TestPayloadLate: queue code cannot know of payload that comes after its
// completion; what reads the payload sees it, and the rig does. On hardware the
// order is the platform's to give (PCIe keeps writes in order), and for GPU
// memory the host has to ask for it (package bamio's probes).
func TestPayloadLate(t *testing.T) {
	bin := program(t, "rig.cpp", plain)
	err := trial(t, bin, time.Minute, strings.Fields("payload_late=3 warps=2 rounds=40 seed=5"))
	if err == nil || !strings.Contains(err.Error(), "want") {
		t.Errorf("payload that comes late passes for good data: %v", err)
	}
}
