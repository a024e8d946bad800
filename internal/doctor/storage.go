package doctor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/internal/uring"
)

// DriveState says whether a raw NVMe drive could be used.
type DriveState string

// The states of a drive.
const (
	DriveReady   DriveState = "ready"   // in the hands of VFIO
	DriveFree    DriveState = "free"    // could be taken from the kernel with --bind, as root
	DriveInUse   DriveState = "in-use"  // holds data
	DriveBlocked DriveState = "blocked" // something is in the way: see Advice
)

// Drive is an NVMe drive on the PCI bus.
type Drive struct {
	Address  string
	Model    string // "" while the kernel's driver does not have it
	State    DriveState
	InUse    []string // reasons
	Advice   string   // what to do, or how to name it
	NUMANode *int     // nil when not known
}

// Direct is what O_DIRECT does on a folder's file system.
type Direct struct {
	Dir        string
	FileSystem string // such as ext4; "" when not known
	Works      bool
	Align      int    // of memory, offsets and lengths, in bytes
	Reason     string // why it does not work
}

// storage is about drives and how files are read.
func (c *collector) storage() Section {
	s := Section{ID: "storage", Title: "Storage"}
	drives, err := within(c, "the list of drives", c.Drives)
	c.drives = drives
	switch {
	case err != nil:
		s.Items = append(s.Items, unknown("drives", "NVMe drives", err))
	case len(drives) == 0:
		s.Items = append(s.Items, lacking(Missing, "drives", "NVMe drives", "none on the PCI bus", "no nvme: drives; file: on any file system and mem: work", driveRemedy, nil))
	}
	for _, d := range drives {
		s.Items = append(s.Items, driveItem(d))
	}
	s.Items = append(s.Items, c.uringItem(), c.directItem())
	return s
}

// What helps where a drive does not say so itself, and where there is none.
const (
	listRemedy  = "tritier nvme list says what is in the way of each"
	driveRemedy = "a drive in the machine, or one that is passed through to this virtual machine"
)

func driveItem(d Drive) Item {
	name := "NVMe drive " + d.Address
	value := d.Model
	if value == "" {
		value = "model not known"
	}
	facts := Facts{"address": d.Address, "state": string(d.State), "in_use": append([]string{}, d.InUse...)}
	if d.Model != "" {
		facts["model"] = d.Model
	}
	if d.NUMANode != nil {
		facts["node"] = *d.NUMANode
		value += fmt.Sprintf(", node %d", *d.NUMANode)
	}
	switch d.State {
	case DriveReady:
		return found("drive", name, value+": "+d.Advice, facts)
	case DriveFree:
		return found("drive", name, value+": "+d.Advice, facts)
	case DriveInUse:
		return lacking(Limited, "drive", name, value+": in use: "+strings.Join(d.InUse, "; "), "it is the kernel's: reach its files by file:", orElse(d.Advice, listRemedy), facts)
	}
	return lacking(Limited, "drive", name, value, "not for nvme:", orElse(d.Advice, listRemedy), facts)
}

func (c *collector) uringItem() Item {
	const id, name = "io-uring", "io_uring"
	_, c.uring = within(c, "io_uring", func() (struct{}, error) { return struct{}{}, c.Uring() })
	facts := Facts{}
	if v := c.read("proc/sys/kernel/io_uring_disabled"); v != "" {
		facts["disabled"] = v
	}
	if c.uring == nil {
		return found(id, name, "works", facts)
	}
	value, remedy := c.uring.Error(), "Linux 5.11 or newer that lets this process use it"
	var u *uring.UnsupportedError
	if errors.As(c.uring, &u) {
		value = u.Reason
	}
	switch facts["disabled"] {
	case "1":
		remedy = "sysctl kernel.io_uring_disabled=0, or run as a member of kernel.io_uring_group"
	case "2":
		remedy = "sysctl kernel.io_uring_disabled=0"
	case "0":
		remedy = "allow io_uring_setup in the container's seccomp profile, or in the security module's policy"
	}
	c.uringRemedy = remedy
	return lacking(Missing, id, name, value, "file: drives read and write with pread and pwrite: one I/O in flight for each service thread", remedy, facts)
}

const directRemedy = "put the data on a file system that has it (ext4, xfs, btrfs), or on a block device"

func (c *collector) directItem() Item {
	const id, name = "direct-io", "O_DIRECT here"
	d, err := within(c, "the working directory's file system", c.Direct)
	if err != nil {
		return unknown(id, name, err)
	}
	c.direct = d
	on := d.Dir
	if d.FileSystem != "" {
		on += " (" + d.FileSystem + ")"
	}
	facts := Facts{"dir": d.Dir, "file_system": d.FileSystem}
	if d.Works {
		facts["align_bytes"] = d.Align
		return found(id, name, fmt.Sprintf("works in %s, in blocks of %s", on, units.FormatBytes(uint64(d.Align))), facts)
	}
	return lacking(Missing, id, name, "not in "+on+": "+d.Reason, "file: drives there pass the kernel's page cache: each byte is copied once more by a CPU, and takes memory", directRemedy, facts)
}
