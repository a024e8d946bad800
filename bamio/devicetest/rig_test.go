package devicetest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// build is one way to build the rig.
type build struct {
	name  string
	flags []string
}

var (
	plain     = build{"plain", []string{"-O2", "-Wall", "-Wextra", "-Werror"}}
	threads   = build{"thread-sanitizer", []string{"-O1", "-g", "-fsanitize=thread"}}
	addresses = build{"address-sanitizer", []string{"-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"}}
)

// compiler is g++, or a skip, or a failure when REQUIRE asks for it.
func compiler(t *testing.T) string {
	t.Helper()
	gxx, err := exec.LookPath("g++")
	if err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "g++") {
			t.Fatalf("REQUIRE has g++: %v", err)
		}
		t.Skip("no g++")
	}
	return gxx
}

var (
	programs  = map[string]string{} // by source and build
	building  sync.Mutex            // guards programs; held while one is built
	programIn string                // a folder for the whole run
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "devicetest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programIn = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// program is rig/source with the device headers, built once.
func program(t *testing.T, source string, b build) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	key := b.name + "-" + strings.TrimSuffix(source, ".cpp")
	if programs[key] == "" {
		bin := filepath.Join(programIn, key)
		compile(t, source, "../device", bin, b)
		programs[key] = bin
	}
	return programs[key]
}

// compile builds rig/source with the device headers of the folder.
func compile(t *testing.T, source, headers, bin string, b build) {
	t.Helper()
	gxx := compiler(t)
	args := append([]string{"-std=c++17", "-pthread", "-I", headers, "-I", "../../cuda/device", "-o", bin, filepath.Join("rig", source)}, b.flags...)
	out, err := exec.CommandContext(t.Context(), gxx, args...).CombinedOutput()
	if err == nil {
		return
	}
	for _, library := range []string{"asan", "tsan", "ubsan"} {
		if strings.Contains(string(out), "cannot find -l"+library) || strings.Contains(string(out), "cannot find lib"+library) {
			t.Skipf("g++ has no %s here", b.name)
		}
	}
	t.Fatalf("%v: %s", err, out)
}

// trial runs a program under a limit, with files as descriptors 3 and up.
// Output goes into the error.
func trial(t *testing.T, bin string, limit time.Duration, args []string, files ...*os.File) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.ExtraFiles = files
	cmd.Env = append(os.Environ(), "TSAN_OPTIONS=halt_on_error=1", "ASAN_OPTIONS=detect_leaks=0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("still running after %v", limit)
	}
	if err == nil {
		t.Logf("%s: %s", strings.Join(args, " "), lastLine(out.String()))
		return nil
	}
	text := out.String()
	if len(text) > 4000 {
		text = text[:4000] + " ..."
	}
	return fmt.Errorf("%s %s: %w\n%s", filepath.Base(bin), strings.Join(args, " "), err, text)
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
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
		t.Run(b.name, func(t *testing.T) {
			bin := program(t, "rig.cpp", b)
			for i, s := range scenarios {
				if testing.Short() && b.name != plain.name && i%3 != 0 && s.name != "random" {
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

// concurrently runs f for 0 to n-1, two at a time.
func concurrently(n int, f func(int)) {
	var wg sync.WaitGroup
	gate := make(chan struct{}, 2)
	for i := range n {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			f(i)
		})
	}
	wg.Wait()
}
