package vfio

import (
	"fmt"
	"math"
	"strings"
)

// ModuleError says that the kernel part of VFIO is not loaded.
type ModuleError struct {
	Path string // the device node or sysfs folder that should be there
	Err  error
}

func (e *ModuleError) Error() string {
	return fmt.Sprintf("vfio: %s is missing: load the driver with: modprobe vfio-pci", e.Path)
}

// Unwrap gives the cause.
func (e *ModuleError) Unwrap() error { return e.Err }

// NoDeviceError says that there is no PCI function at an address.
type NoDeviceError struct {
	Address string
	Err     error
}

func (e *NoDeviceError) Error() string {
	return fmt.Sprintf("vfio: no PCI function at %s: list the NVMe drives with: tritier nvme list", e.Address)
}

// Unwrap gives the cause.
func (e *NoDeviceError) Unwrap() error { return e.Err }

// NoIOMMUError says that no IOMMU translates for the function.
type NoIOMMUError struct{ Address string }

func (e *NoIOMMUError) Error() string {
	return fmt.Sprintf("vfio: %s has no IOMMU group: turn the IOMMU on in the firmware (VT-d, AMD-Vi, SMMU) and boot the kernel with intel_iommu=on (Intel) or iommu=pt (AMD)", e.Address)
}

// NotBoundError says that another driver, or none, has the function.
type NotBoundError struct {
	Address string
	Driver  string // "" for none
}

func (e *NotBoundError) Error() string {
	has := "no driver"
	if e.Driver != "" {
		has = "the driver " + e.Driver
	}
	return fmt.Sprintf("vfio: %s has %s: it must be bound to vfio-pci first (its block devices vanish then)", e.Address, has)
}

// Member is a function of an IOMMU group and the driver that has it, "" for none.
type Member struct{ Address, Driver string }

// GroupNotViableError says that other functions of the group are in the hands of the kernel; a group changes hands whole.
type GroupNotViableError struct {
	Group  string
	Others []Member // those with a driver that is not VFIO's
}

func (e *GroupNotViableError) Error() string {
	var list []string
	for _, m := range e.Others {
		list = append(list, m.Address+" ("+m.Driver+")")
	}
	return fmt.Sprintf("vfio: IOMMU group %s also holds %s: unbind those or bind them to vfio-pci too, or move the drive to another slot", e.Group, strings.Join(list, ", "))
}

// BusyError says that somebody has the group or the device open already.
type BusyError struct {
	Path string
	Err  error
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("vfio: %s is in use by another process, or by this one (a mapped register region keeps it open)", e.Path)
}

// Unwrap gives the cause.
func (e *BusyError) Unwrap() error { return e.Err }

// PermissionError says that a device node belongs to somebody else.
type PermissionError struct {
	Path   string
	Access Access
	Err    error
}

func (e *PermissionError) Error() string {
	return fmt.Sprintf("vfio: no permission for %s (owner %d, group %d, mode %#o): run as root, or: chown $USER %s",
		e.Path, e.Access.UID, e.Access.GID, e.Access.Mode, e.Path)
}

// Unwrap gives the cause.
func (e *PermissionError) Unwrap() error { return e.Err }

// InterruptRemappingError says that the kernel finds the IOMMU unsafe, since a function could forge interrupts.
type InterruptRemappingError struct {
	Group string
	Err   error
}

func (e *InterruptRemappingError) Error() string {
	return fmt.Sprintf("vfio: the kernel refuses IOMMU group %s, mostly because the IOMMU does not remap interrupts: turn that on in the firmware (QEMU: intremap=on), "+
		"or accept forged interrupts with the module option vfio_iommu_type1.allow_unsafe_interrupts=1", e.Group)
}

// Unwrap gives the cause.
func (e *InterruptRemappingError) Unwrap() error { return e.Err }

// MemlockError says that the process may not lock so much memory as it wants to map.
type MemlockError struct {
	Need  uint64 // bytes mapped before, and these
	Limit uint64 // RLIMIT_MEMLOCK
	Err   error
}

func (e *MemlockError) Error() string {
	return fmt.Sprintf("vfio: mapping needs %d bytes of locked memory in all, the limit is %d: raise it with ulimit -l %d (unit KiB), or LimitMEMLOCK= in a systemd unit",
		e.Need, e.Limit, (e.Need+1023)/1024)
}

// Unwrap gives the cause.
func (e *MemlockError) Unwrap() error { return e.Err }

// MapError says that memory could not be mapped for another reason.
type MapError struct {
	Bytes  uint64
	Remedy string
	Err    error
}

func (e *MapError) Error() string {
	s := fmt.Sprintf("vfio: cannot map %d bytes for the device: %v", e.Bytes, e.Err)
	if e.Remedy != "" {
		s += ": " + e.Remedy
	}
	return s
}

// Unwrap gives the cause.
func (e *MapError) Unwrap() error { return e.Err }

// NoIOMMUFDError says that the kernel lacks the newer interface.
type NoIOMMUFDError struct {
	Path string // what should be there
	Err  error
}

func (e *NoIOMMUFDError) Error() string {
	return fmt.Sprintf("vfio: %s is missing: the kernel must be 6.6 or newer with CONFIG_IOMMUFD and CONFIG_VFIO_DEVICE_CDEV (modprobe iommufd); otherwise use the group interface", e.Path)
}

// Unwrap gives the cause.
func (e *NoIOMMUFDError) Unwrap() error { return e.Err }

// unlimited is RLIM_INFINITY.
const unlimited = math.MaxUint64
