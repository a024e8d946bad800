// Package qemutest boots a QEMU guest in which the device headers meet a controller that they were not written for: threads of a static
// C++ program (program) submit to QEMU's NVMe controller by the queue code that GPUs run, over VFIO. The guest's tests (guest) bring the
// controller up, hand the program queues, doorbells and memory, and check afterwards what it did.
package qemutest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	// What the guest's tests are built from, so that a cached result does not outlive a change there.
	_ "github.com/tritier/tritier/bamio/layout"
	"github.com/tritier/tritier/internal/qemu"
	_ "github.com/tritier/tritier/internal/qemu/guest"
	_ "github.com/tritier/tritier/libnvm/vfio"
)

// sources are the folders that compilers read while the test runs. go test takes a result from its cache unless a file that the test itself
// has opened is another one now.
var sources = []string{"guest", "program", "../device", "../../cuda/device", "../devicetest/rig", "../../internal/devicerig/rig"}

func openSources(t *testing.T) {
	t.Helper()
	for _, dir := range sources {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.IsDir() {
				continue
			}
			if _, err := os.ReadFile(filepath.Join(dir, f.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// compile builds the program for the guest, which has no files of its own: statically. It skips without a compiler, or fails with
// REQUIRE=g++.
func compile(t *testing.T) string {
	t.Helper()
	name := "g++"
	if runtime.GOARCH != "amd64" {
		name = "x86_64-linux-gnu-g++" // the guest's machine is one of amd64
	}
	compiler, err := exec.LookPath(name)
	if err != nil {
		if qemu.Required("g++") {
			t.Fatalf("REQUIRE has g++, but there is no %s: %v", name, err)
		}
		t.Skipf("no %s: %v", name, err)
	}
	out := filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), compiler, "-std=c++17", "-O2", "-static", "-pthread", "-Wall", "-Wextra", "-Werror",
		"-Iprogram", "-I../device", "-I../../cuda/device", "-I../devicetest/rig", "-I../../internal/devicerig/rig", "-o", out, "program/main.cpp")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, text)
	}
	return out
}

// TestDeviceHeadersOverVFIO runs the guest's tests. Drive main has three namespaces: data, one whose sectors 800 (reads) and 900 (writes)
// fail, and one that takes 2 s for every command. Drive narrow has blocks of 4 KiB, 8 KiB a command, and two I/O queue pairs.
func TestDeviceHeadersOverVFIO(t *testing.T) {
	if testing.Short() && !qemu.Required("qemu") {
		t.Skip("boots a guest: not under -short")
	}
	openSources(t)
	if _, err := qemu.Find(); err != nil && !qemu.Required("qemu") {
		t.Skip(err) // before the time for compiling is spent
	}
	qemu.Test(t, qemu.Config{
		Package: "github.com/tritier/tritier/bamio/qemutest/guest",
		IOMMU:   true,
		Modules: true,
		Files:   map[string]string{"/program": compile(t)},
		Disks:   map[string]int64{"main.img": 64 << 20, "bad.img": 4 << 20, "narrow.img": 64 << 20},
		Args: []string{
			"-blockdev", "driver=file,node-name=n1,filename={dir}/main.img",
			"-blockdev", "driver=blkdebug,node-name=n2,image.driver=file,image.filename={dir}/bad.img," +
				"inject-error.0.event=none,inject-error.0.iotype=read,inject-error.0.errno=5,inject-error.0.sector=800," +
				"inject-error.1.event=none,inject-error.1.iotype=write,inject-error.1.errno=5,inject-error.1.sector=900",
			"-blockdev", "driver=null-co,node-name=n3,size=67108864,latency-ns=2000000000",
			"-device", "nvme,id=nv0,serial=main,mdts=4",
			"-device", "nvme-ns,drive=n1,nsid=1,bus=nv0",
			"-device", "nvme-ns,drive=n2,nsid=2,bus=nv0",
			"-device", "nvme-ns,drive=n3,nsid=3,bus=nv0",
			"-blockdev", "driver=file,node-name=n4,filename={dir}/narrow.img",
			"-device", "nvme,id=nv1,serial=narrow,mdts=1,max_ioqpairs=2",
			"-device", "nvme-ns,drive=n4,nsid=1,bus=nv1,logical_block_size=4096,physical_block_size=4096",
		},
		Timeout: 5 * time.Minute,
		MinPass: 10,
	})
}
