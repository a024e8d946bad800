package qemu

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// exitOK is QEMU's status when the guest leaves through isa-debug-exit with 0x10: 2*0x10+1. No other way out of QEMU gives it.
const exitOK = 33

// Config describes a guest and what is expected of it.
type Config struct {
	Package  string            // import path of the package whose tests run as PID 1
	Run      string            // selects tests, as go test -run does; empty means all
	IOMMU    bool              // emulate an Intel IOMMU (with interrupt remapping, which VFIO demands) and turn it on
	Modules  bool              // put the VFIO modules into the guest and load them
	Files    map[string]string // further files of the guest, executable: absolute path there to path on the host
	Params   map[string]string // further key=value on the kernel command line; guest.Param reads them
	Disks    map[string]int64  // empty disk images to make: file name to size in bytes; {dir} in Args names their folder
	Args     []string          // further arguments for QEMU: devices and their back ends
	Memory   int               // MiB; 0 means 512
	Timeout  time.Duration     // for the boot and the tests together; 0 means 3 minutes
	MinPass  int               // how many tests and subtests must pass at least
	MaySkip  []string          // tests that may be skipped
	TestArgs []string          // further arguments for the test binary, such as -test.short
}

// arguments is QEMU's command line for a guest whose files lie in dir.
func (c *Config) arguments(in Install, dir string) []string {
	mem := c.Memory
	if mem == 0 {
		mem = 512
	}
	// tsc=reliable and no_timer_check save a second of calibration under TCG; panic=-1 with -no-reboot turns a kernel panic into an exit.
	app := []string{"console=ttyS0", "quiet", "loglevel=4", "panic=-1", "mitigations=off", "tsc=reliable", "no_timer_check", "out=ttyS1"}
	// Without cx16, since CMPXCHG16B as QEMU 7.2 emulates it corrupts the allocator of newer kernels, which then fail to boot.
	a := []string{"-M", "q35,kernel-irqchip=split", "-accel", "tcg,thread=multi", "-cpu", "max,-cx16"}
	a = append(a, "-smp", "2", "-m", fmt.Sprintf("%dM", mem), "-nodefaults", "-display", "none", "-no-reboot",
		"-serial", "file:"+dir+"/console.txt",
		"-serial", "unix:"+dir+"/ctl,server=on,wait=on",
		"-qmp", "unix:"+dir+"/qmp,server=on,wait=off",
		"-device", "isa-debug-exit,iobase=0xf4,iosize=0x04",
		"-kernel", in.Kernel, "-initrd", dir+"/initrd")
	if c.IOMMU {
		app = append(app, "intel_iommu=on")
		a = append(a, "-device", "intel-iommu,intremap=on,caching-mode=on")
	}
	if c.Modules {
		names := make([]string, len(in.Modules))
		for i, m := range in.Modules {
			names[i] = strings.TrimSuffix(filepath.Base(m), ".ko")
		}
		app = append(app, "modules="+strings.Join(names, ","))
	}
	for _, k := range slices.Sorted(maps.Keys(c.Params)) {
		app = append(app, k+"="+c.Params[k])
	}
	app = append(app, "--", "-test.v=test2json", fmt.Sprintf("-test.timeout=%s", c.timeout()))
	if c.Run != "" {
		app = append(app, "-test.run="+c.Run)
	}
	a = append(a, "-append", strings.Join(append(app, c.TestArgs...), " "))
	for _, x := range c.Args {
		a = append(a, strings.ReplaceAll(x, "{dir}", dir))
	}
	return a
}

func (c *Config) timeout() time.Duration {
	if c.Timeout == 0 {
		return 3 * time.Minute
	}
	return c.Timeout
}
