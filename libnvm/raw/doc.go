// Package raw reaches an NVMe drive without an IOMMU: through sysfs ([Open]) or through VFIO's no-IOMMU mode ([OpenNoIOMMU]). The drive is
// given physical addresses, of 2 MiB huge pages, and nothing keeps it from reading and writing any other memory of the machine.
//
// Both functions refuse to work unless Options.AllowUnsafe is set; [Warning] says what that risks. Both need root.
package raw

import "errors"

// Warning says what a user accepts with Options.AllowUnsafe. Show it wherever that option is offered.
const Warning = "without an IOMMU the drive can read and overwrite all memory of this machine, the kernel's included: a faulty drive, a bug in " +
	"this program, or the program's death while the drive still works on commands can corrupt memory of other programs, crash the machine or " +
	"leak secrets. Use it only on a machine that runs nothing else of value, and prefer VFIO with an IOMMU"

// ErrUnsafe is returned when Options.AllowUnsafe is not set.
var ErrUnsafe = errors.New("libnvm/raw: refused unless AllowUnsafe is set: " + Warning)

// Options for [Open] and [OpenNoIOMMU].
type Options struct {
	// AllowUnsafe accepts what [Warning] says.
	AllowUnsafe bool
	// Bind takes the drive from the kernel's driver (and for OpenNoIOMMU binds it to vfio-pci). A drive that is mounted, swap, part of
	// another device, partitioned or otherwise holds data is refused.
	Bind bool
	// Force takes it even then. Data on the drive may be lost.
	Force bool
}
