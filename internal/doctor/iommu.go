package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// translation is about the IOMMU and VFIO, through which a raw drive is reached.
func (c *collector) translation() Section {
	return Section{ID: "vfio", Title: "IOMMU and VFIO", Items: []Item{c.iommu(), c.vfioDriver(), c.vfioContainer(), c.iommufd()}}
}

const noVFIOCost = "no nvme: drives: a raw drive cannot be reached from user space safely; file: and mem: drives need none of it"

// iommu looks at the groups: they are there exactly when devices are translated for.
func (c *collector) iommu() Item {
	const id, name = "iommu", "IOMMU"
	groups, units, flags := len(c.names("sys/kernel/iommu_groups")), c.names("sys/class/iommu"), c.iommuFlags()
	facts := Facts{"groups": groups, "units": append([]string{}, units...), "command_line": append([]string{}, flags...)}
	said := ""
	if len(flags) > 0 {
		said = "; kernel started with " + strings.Join(flags, " ")
	}
	if groups > 0 {
		value := count(groups, "group") + said
		if len(units) > 0 {
			value = strings.Join(units, ", ") + ", " + value
		}
		return found(id, name, value, facts)
	}
	remedy := "turn it on in the firmware (VT-d, AMD-Vi, SMMU) and start the kernel with intel_iommu=on iommu=pt (Intel) or iommu=pt (AMD); in a virtual machine, give it a virtual IOMMU"
	value := "no groups" + said
	switch {
	case slices.ContainsFunc(flags, turnsOff):
		remedy = "take what turns it off from the kernel's command line: " + strings.Join(slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return !turnsOff(f) }), " ")
	case len(units) > 0:
		value = strings.Join(units, ", ") + " there, but " + value
		remedy = "start the kernel with intel_iommu=on iommu=pt"
	}
	return lacking(Missing, id, name, value, noVFIOCost, remedy, facts)
}

// iommuFlags are the words of the kernel's command line that are about the IOMMU.
func (c *collector) iommuFlags() (flags []string) {
	for _, word := range strings.Fields(c.read("proc/cmdline")) {
		key, _, _ := strings.Cut(word, "=")
		if key == "intel_iommu" || key == "amd_iommu" || key == "iommu" || strings.HasPrefix(key, "iommu.") || strings.HasPrefix(key, "arm-smmu") {
			flags = append(flags, word)
		}
	}
	return flags
}

func turnsOff(flag string) bool {
	_, value, _ := strings.Cut(flag, "=")
	return value == "off"
}

func (c *collector) vfioDriver() Item {
	const id, name = "vfio-pci", "vfio-pci driver"
	if c.exists("sys/bus/pci/drivers/vfio-pci") {
		bound := 0
		for _, n := range c.names("sys/bus/pci/drivers/vfio-pci") {
			if strings.Count(n, ":") == 2 {
				bound++
			}
		}
		return found(id, name, "loaded, has "+count(bound, "device"), Facts{"devices": bound})
	}
	return lacking(Missing, id, name, "not loaded", "no nvme: drives", "modprobe vfio-pci", nil)
}

func (c *collector) vfioContainer() Item {
	const id, name = "vfio-group", "VFIO groups (/dev/vfio/vfio)"
	unsafe := c.read("sys/module/vfio/parameters/enable_unsafe_noiommu_mode")
	facts := Facts{"unsafe_noiommu": unsafe == "Y"}
	switch {
	case !c.exists("dev/vfio/vfio"):
		return lacking(Missing, id, name, "not there", "no nvme: drives by the group interface", "modprobe vfio-pci; for a container, --device /dev/vfio", facts)
	case unsafe == "Y":
		return found(id, name, "there; the mode without IOMMU is allowed, in which a faulty drive can overwrite any memory", facts)
	}
	return found(id, name, "there", facts)
}

func (c *collector) iommufd() Item {
	const id, name = "iommufd", "iommufd (/dev/iommu)"
	if c.exists("dev/iommu") {
		n := len(c.names("dev/vfio/devices"))
		return found(id, name, fmt.Sprintf("there, %s in /dev/vfio/devices", count(n, "device")), Facts{"devices": n})
	}
	return lacking(Missing, id, name, "not there", "drives are reached by the older group interface, which does the same", "Linux 6.6 or newer with CONFIG_IOMMUFD and CONFIG_VFIO_DEVICE_CDEV: modprobe iommufd", nil)
}
