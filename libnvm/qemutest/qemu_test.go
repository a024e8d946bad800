// Package qemutest boots QEMU guests in which the driver meets a controller that it was not written for: QEMU's, with the transports that
// reach real drives. The tests proper are in the folder guest.
package qemutest

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tritier/tritier/internal/qemu"
)

// machine has the drives that the guest's tests name.
//
// The main drive's data namespace lies on a throttle filter, whose child a test exchanges for one that fails (n1err) or is slow (n1slow), and whose limit stops
// the drive; the second namespace fails at fixed sectors; the third takes a second for everything. n1slow takes 2 s, which a guest on a
// busy machine without KVM does not sleep through.
func machine(mode, run string, iommu bool, minPass int) qemu.Config {
	return qemu.Config{
		Package: "github.com/tritier/tritier/libnvm/qemutest/guest",
		Run:     run,
		IOMMU:   iommu,
		Modules: iommu,
		Params:  map[string]string{"mode": mode},
		Disks:   maps.Clone(disks),
		Args: []string{
			"-object", "throttle-group,id=tg",
			"-blockdev", "driver=file,node-name=f1,filename={dir}/main.img",
			"-blockdev", "driver=blkdebug,node-name=n1,image=f1",
			"-blockdev", "driver=blkdebug,node-name=n1err,image=f1,inject-error.0.event=none,inject-error.0.iotype=read,inject-error.0.errno=5,inject-error.0.sector=5000",
			"-blockdev", "driver=null-co,node-name=n1slow,size=67108864,latency-ns=2000000000",
			"-blockdev", "driver=throttle,node-name=t1,throttle-group=tg,file=n1",
			"-blockdev", "driver=blkdebug,node-name=n2,image.driver=file,image.filename={dir}/bad.img," +
				"inject-error.0.event=none,inject-error.0.iotype=read,inject-error.0.errno=5,inject-error.0.sector=800," +
				"inject-error.1.event=none,inject-error.1.iotype=write,inject-error.1.errno=5,inject-error.1.sector=900," +
				"inject-error.2.event=none,inject-error.2.iotype=read,inject-error.2.errno=5,inject-error.2.sector=1000,inject-error.2.once=on",
			"-blockdev", "driver=null-co,node-name=n3,size=67108864,latency-ns=1000000000",
			"-device", "nvme,id=nv0,serial=main,max_ioqpairs=64,cmb_size_mb=16",
			"-device", "nvme-ns,drive=t1,nsid=1,bus=nv0",
			"-device", "nvme-ns,drive=n2,nsid=2,bus=nv0",
			"-device", "nvme-ns,drive=n3,nsid=3,bus=nv0",
			"-device", "pcie-root-port,id=rp,slot=1,chassis=1",
			"-blockdev", "driver=file,node-name=f4,filename={dir}/hot.img", "-device", "nvme,id=nv1,serial=hot,drive=f4,bus=rp",
			"-blockdev", "driver=file,node-name=f5,filename={dir}/spare.img", "-device", "nvme,id=nv2,serial=spare,drive=f5",
			"-object", "memory-backend-ram,id=ones,size=4096", "-device", "ivshmem-plain,memdev=ones",
			"-blockdev", "driver=file,node-name=f6,filename={dir}/narrow.img",
			"-device", "nvme,id=nv3,serial=narrow,mdts=1,max_ioqpairs=1",
			"-device", "nvme-ns,drive=f6,nsid=1,bus=nv3,logical_block_size=4096,physical_block_size=4096",
		},
		Timeout: 4 * time.Minute,
		MinPass: minPass,
		// What QEMU's controller cannot do: more than 2 MiB in a command, and aborting a command. The narrow drive has no buffer of its own
		// and no throttle.
		MaySkip: []string{
			"TestDriveConformance/main/Chains", "TestDriveConformance/main/Abort", "TestDriveConformance/narrow/Chains",
			"TestDriveConformance/narrow/CMB", "TestDriveConformance/narrow/Timeout", "TestDriveConformance/narrow/Abort",
		},
	}
}

var disks = map[string]int64{"main.img": 64 << 20, "bad.img": 64 << 20, "hot.img": 16 << 20, "spare.img": 16 << 20, "narrow.img": 64 << 20}

// TestVFIO drives QEMU's controller through VFIO behind an emulated IOMMU.
func TestVFIO(t *testing.T) {
	qemu.Test(t, machine("vfio", "^Test(Bind|Drive|VFIO)", true, 65))
}

// TestIOMMUFD does the same through the newer interface of VFIO.
func TestIOMMUFD(t *testing.T) {
	ownKernel(t)
	qemu.Test(t, machine("iommufd", "^Test(Bind|Drive|VFIO)", true, 65))
}

// TestNoIOMMU drives it through VFIO's no-IOMMU mode, with physical addresses.
func TestNoIOMMU(t *testing.T) {
	ownKernel(t)
	c := machine("noiommu", "^Test(Drive|RawStale|RawLarge)", false, 60)
	c.Modules = true
	c.Params["vfio.enable_unsafe_noiommu_mode"] = "1"
	qemu.Test(t, c)
}

// ownKernel skips a test that needs parts of VFIO which Debian's kernels lack, and which .ci/qemu-iommufd builds for the guest. With
// REQUIRE=iommufd a skip is a failure.
func ownKernel(t *testing.T) {
	t.Helper()
	in, err := qemu.Find()
	if err == nil && slices.ContainsFunc(in.Modules, func(m string) bool { return filepath.Base(m) == "iommufd.ko" }) {
		return
	}
	if qemu.Required("iommufd") {
		t.Fatal("the guest's kernel has no iommufd: run .ci/qemu-iommufd", err)
	}
	t.Skip("the guest's kernel has no iommufd and no no-IOMMU mode: see .ci/qemu-iommufd")
}

// TestRaw drives QEMU's controller through sysfs with physical addresses.
func TestRaw(t *testing.T) {
	qemu.Test(t, machine("raw", "^Test(Bind|Drive|Raw)", false, 64))
}
