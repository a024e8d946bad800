package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/libnvm/soft"
)

// TestBenchTimeoutsCount: the percentiles hold the I/Os that timed out, which are
// the slowest, and IOPS do not.
func TestBenchTimeoutsCount(t *testing.T) {
	const deadline = 20 * time.Millisecond
	plan, err := soft.NewFaultPlan(1, soft.Rule{Opcodes: []libnvm.Opcode{libnvm.OpRead}, Probability: 0.2, Skip: 10, Fault: soft.Fault{Drop: true}})
	if err != nil {
		t.Fatal(err)
	}
	o := drive.Options{Faults: func(int) soft.Faults { return plan }, Driver: libnvm.Config{IOTimeout: deadline}}
	b, _ := testBench(t, o, tinyCell)
	b.faults, b.area, b.length = &faultSwitch{}, 1<<20, 300*time.Millisecond
	r, err := b.runCell(t.Context(), tinyCell, 0)
	if err != nil {
		t.Fatal(err)
	}
	if r.errors["timed out"] < 2 || r.latency.n <= r.ios || r.latency.percentile(1) < deadline*99/100 {
		t.Errorf("%d time-outs, %d I/Os, %d latencies up to %v", r.errors["timed out"], r.ios, r.latency.n, r.latency.percentile(1))
	}
}

// TestBenchFullHost: where the host has no space left the bench says so, and takes
// the file away that it could not fill. The file system is one of this thread's own.
func TestBenchFullHost(t *testing.T) {
	dir := t.TempDir()
	result := make(chan string, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here, and its mounts with it
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			result <- "skip: " + err.Error()
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			result <- "skip: " + err.Error()
			return
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
			result <- "skip: " + err.Error()
			return
		}
		var out, errOut bytes.Buffer
		path := filepath.Join(dir, "disk")
		code := run([]string{"nvme", "bench", "file:" + path + "?size=8MiB", "--verify", "--seconds", "0.1"}, nil, &out, &errOut)
		if _, err := os.Stat(path); err == nil {
			errOut.WriteString("the file is still there")
		}
		result <- strconv.Itoa(code) + out.String() + errOut.String()
	}()
	got := <-result
	if strings.HasPrefix(got, "skip") {
		t.Skip(got)
	}
	if !strings.HasPrefix(got, "1tritier: file:") || strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "disk: no space left on device\n") {
		t.Errorf("got %q", got)
	}
}
