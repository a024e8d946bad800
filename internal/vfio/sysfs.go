package vfio

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	sysDevices = "/sys/bus/pci/devices/"
	sysDriver  = "/sys/bus/pci/drivers/vfio-pci"
	sysGroups  = "/sys/kernel/iommu_groups/"
)

// Probe says what keeps the function at a PCI address from being used through VFIO, apart from who has it now: it does not have to be
// bound yet.
func Probe(sys System, addr string) error {
	if err := present(sys, addr); err != nil {
		return err
	}
	if _, err := sys.Readlink(sysDevices + addr + "/iommu_group"); err != nil {
		return &NoIOMMUError{addr}
	}
	if !exists(sys, sysDriver) {
		return &ModuleError{sysDriver, os.ErrNotExist}
	}
	return nil
}

// present also keeps an address such as "../../x" out of the paths made with it.
func present(sys System, addr string) error {
	if addr == "" || strings.ContainsAny(addr, "/\x00") || !exists(sys, sysDevices+addr) {
		return &NoDeviceError{addr, os.ErrNotExist}
	}
	return nil
}

// driver is the name of the driver that has the function, or "".
func driver(sys System, addr string) string {
	l, err := sys.Readlink(sysDevices + addr + "/driver")
	if err != nil {
		return ""
	}
	return path.Base(l)
}

// isVFIO also takes vendors' variants, such as mlx5_vfio_pci.
func isVFIO(driver string) bool {
	return strings.HasSuffix(strings.ReplaceAll(driver, "-", "_"), "vfio_pci")
}

// bound checks that a VFIO driver has the function.
func bound(sys System, addr string) error {
	if d := driver(sys, addr); !isVFIO(d) {
		return &NotBoundError{addr, d}
	}
	return nil
}

// others lists the functions of a group that the kernel has in use. Bridges are the kernel's in any case and do not count.
func others(sys System, group string) (list []Member) {
	names, err := sys.ReadDir(sysGroups + group + "/devices")
	if err != nil {
		return nil
	}
	slices.Sort(names)
	for _, n := range names {
		if d := driver(sys, n); d != "" && d != "pcieport" && !isVFIO(d) {
			list = append(list, Member{n, d})
		}
	}
	return list
}

// open opens a node and turns the errors that a user can do something about into typed ones; missing makes the one for a missing node.
func open(sys System, node string, missing func(error) error) (int, error) {
	fd, err := sys.Open(node)
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return -1, missing(err)
	case errors.Is(err, unix.EBUSY):
		return -1, &BusyError{node, err}
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		a, _ := sys.Access(node)
		return -1, &PermissionError{node, a, err}
	}
	return -1, &os.PathError{Op: "open", Path: node, Err: err}
}
