// Package pci finds NVMe drives among the PCI functions of a Linux machine, says what a drive is in use for, and moves a function between
// drivers.
//
// Everything is read through a [Tree], whose roots a test points at a folder of its own.
package pci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// classNVMe is the PCI class of an NVMe I/O controller: mass storage, non-volatile memory, NVM Express.
const classNVMe = "0x010802"

// Tree is where the kernel's file systems are mounted.
type Tree struct {
	Sys  string // sysfs
	Proc string // procfs
	Dev  string // device nodes
	// Busy reports whether the kernel, or a program, holds the block device at path exclusively, which every mount, swap area, device
	// mapper and RAID member does. Nil means to ask the kernel.
	Busy func(path string) (bool, error)
	// Write writes a value to a file of sysfs. Nil means to do just that; a test plays the kernel here.
	Write func(path, value string) error
}

// Host is the running machine.
func Host() Tree { return Tree{Sys: "/sys", Proc: "/proc", Dev: "/dev"} }

// Function is a PCI function.
type Function struct {
	Address  string // such as 0000:01:00.0
	Vendor   uint16
	Device   uint16
	Driver   string   // "" when none has it
	Group    string   // number of its IOMMU group, "" without an IOMMU
	NUMANode int      // -1 when unknown
	Serial   string   // only known while the kernel's nvme driver has it
	Model    string   // likewise
	Disks    []string // block devices, such as nvme0n1; likewise
	unread   error    // why Disks may lack some
}

// NotFoundError says that there is no NVMe controller at an address.
type NotFoundError struct {
	Address string
	Have    []string // addresses of those there are
}

func (e *NotFoundError) Error() string {
	have := "there is none on this machine"
	if len(e.Have) > 0 {
		have = "there are " + strings.Join(e.Have, ", ")
	}
	return fmt.Sprintf("pci: no NVMe controller at %q: %s", e.Address, have)
}

func (t Tree) devices() string { return filepath.Join(t.Sys, "bus/pci/devices") }

// NVMe lists the NVMe controllers by address.
func (t Tree) NVMe() ([]Function, error) {
	entries, err := os.ReadDir(t.devices())
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil // a machine without PCI
		}
		return nil, fmt.Errorf("pci: %w", err)
	}
	var out []Function
	for _, e := range entries {
		if t.attribute(e.Name(), "class") == classNVMe {
			out = append(out, t.function(e.Name()))
		}
	}
	return out, nil
}

// Find gives the NVMe controller at an address, which may lack the leading "0000:". Its error is a [*NotFoundError].
func (t Tree) Find(address string) (Function, error) {
	if strings.Count(address, ":") == 1 {
		address = "0000:" + address
	}
	all, err := t.NVMe()
	if err != nil {
		return Function{}, err
	}
	var have []string
	for _, f := range all {
		if f.Address == address {
			return f, nil
		}
		have = append(have, f.Address)
	}
	return Function{}, &NotFoundError{address, have}
}

// attribute is a one-line file of a function, "" when it is not there.
func (t Tree) attribute(address, name string) string {
	b, err := os.ReadFile(filepath.Join(t.devices(), address, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (t Tree) function(address string) Function {
	f := Function{Address: address, Driver: t.link(address, "driver"), Group: t.link(address, "iommu_group"), NUMANode: -1}
	hex := func(name string) uint16 {
		v, _ := strconv.ParseUint(t.attribute(address, name), 0, 16)
		return uint16(v)
	}
	f.Vendor, f.Device = hex("vendor"), hex("device")
	if n, err := strconv.Atoi(t.attribute(address, "numa_node")); err == nil {
		f.NUMANode = n
	}
	controllers, err := entries(filepath.Join(t.devices(), address, "nvme"))
	f.unread = err
	for _, c := range controllers {
		dir := filepath.Join("nvme", c.Name())
		f.Serial, f.Model = t.attribute(address, filepath.Join(dir, "serial")), t.attribute(address, filepath.Join(dir, "model"))
		names, err := entries(filepath.Join(t.devices(), address, dir))
		f.unread = errors.Join(f.unread, err)
		for _, n := range names {
			if d, ok := diskName(n.Name()); ok && !slices.Contains(f.Disks, d) {
				f.Disks = append(f.Disks, d)
			}
		}
	}
	return f
}

// diskName is the block device of a folder below a controller: nvme0n1 is one, nvme0c1n1 is the hidden path of the multipath device
// nvme0n1, and others, such as the generic character device ng0n1, are none.
func diskName(s string) (string, bool) {
	var a, b, c int
	if n, _ := fmt.Sscanf(s, "nvme%dc%dn%d", &a, &b, &c); n == 3 && s == fmt.Sprintf("nvme%dc%dn%d", a, b, c) {
		return fmt.Sprintf("nvme%dn%d", a, c), true
	}
	if n, _ := fmt.Sscanf(s, "nvme%dn%d", &a, &b); n == 2 && s == fmt.Sprintf("nvme%dn%d", a, b) {
		return s, true
	}
	return "", false
}

// link is the last element of a link of the function, "" when it is not there.
func (t Tree) link(address, name string) string {
	l, err := os.Readlink(filepath.Join(t.devices(), address, name))
	if err != nil {
		return ""
	}
	return filepath.Base(l)
}
