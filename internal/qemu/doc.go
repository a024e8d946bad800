// Package qemu runs Go tests inside a QEMU guest, so that code that needs a whole machine (an IOMMU, an NVMe controller, root) is tested on
// any machine, without KVM and without root.
//
// Test compiles a test package with "go test -c", packs the binary as PID 1 of an initial RAM disk together with the kernel modules that
// VFIO needs, boots a Debian cloud kernel with it and turns the guest's "--- PASS" and "--- FAIL" lines into subtests of the caller's test.
// A guest test reaches the host through [guest.QMP]: a line "@QMP {json}" on its standard output goes to QEMU's control socket, so that a
// test injects faults live.
//
// A run counts as passed only when all of this holds: QEMU's exit status is 33, which only the guest's own exit through isa-debug-exit
// gives (0 is what a crashed PID 1 gives, 1 what a usage error gives); the line "DONE 0" was seen; every test that the binary lists was
// reported; none was skipped without leave; and at least the expected number of tests and subtests passed.
//
// The kernel and QEMU come from Debian by .ci/qemu-setup; .ci/qemu-iommufd makes a kernel with the parts of VFIO that Debian's lack. Without them Test skips, except with REQUIRE=qemu in the environment, where it
// fails.
package qemu
