package pci

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Use is one reason not to take a drive away from the kernel.
type Use struct {
	Kind   string // "mount", "swap", "holder", "partition table", "signature", "exclusive", "unreadable"
	Disk   string // block device or partition, such as nvme0n1p2
	Detail string // where it is mounted, which device holds it, which signature
}

func (u Use) String() string {
	switch u.Kind {
	case "mount":
		return u.Disk + " is mounted at " + u.Detail
	case "swap":
		return u.Disk + " is swap space"
	case "holder":
		return u.Disk + " is part of " + u.Detail
	case "exclusive":
		return u.Disk + " is held exclusively by the kernel or a program"
	case "unreadable":
		return u.Disk + " cannot be examined: " + u.Detail
	}
	return u.Disk + " has a " + u.Detail
}

// Uses lists what the drive's block devices are in use for: mounted file systems, swap, device-mapper and RAID members, partition tables,
// and data of a known kind on them. A drive that the kernel's nvme driver does not have has no block devices, and so no known uses.
func (t Tree) Uses(f Function) ([]Use, error) {
	mounts, err := t.mounts()
	if err != nil {
		return nil, err
	}
	swaps, err := t.swaps()
	if err != nil {
		return nil, err
	}
	if f.unread != nil {
		return nil, fmt.Errorf("pci: which block devices %s has cannot be found out: %w", f.Address, f.unread)
	}
	var uses []Use
	for _, disk := range f.Disks {
		parts, err := t.partitions(disk)
		if err != nil {
			uses = append(uses, Use{"unreadable", disk, err.Error()})
		}
		for _, name := range append([]string{disk}, parts...) {
			for _, m := range mounts {
				if m.source == "/dev/"+name || m.number != "" && m.number == t.number(name) {
					uses = append(uses, Use{"mount", name, m.target})
				}
			}
			if slices.Contains(swaps, "/dev/"+name) {
				uses = append(uses, Use{"swap", name, ""})
			}
			holders, err := entries(filepath.Join(t.Sys, "class/block", name, "holders"))
			if err != nil {
				uses = append(uses, Use{"unreadable", name, err.Error()})
			}
			for _, h := range holders {
				uses = append(uses, Use{"holder", name, h.Name()})
			}
		}
		if len(parts) > 0 {
			uses = append(uses, Use{"partition table", disk, fmt.Sprintf("partition table with %s", strings.Join(parts, ", "))})
		}
		uses = append(uses, t.content(disk, len(parts) == 0, len(uses) == 0)...)
	}
	return uses, nil
}

// content looks at the block device itself: what is written on it (only when the kernel sees no partitions, since it would say the
// same again), and whether somebody unseen, such as a mount in another mount namespace, holds it.
func (t Tree) content(disk string, read, probe bool) (uses []Use) {
	path := filepath.Join(t.Dev, disk)
	if read {
		switch s, err := signatureOf(path); {
		case err != nil:
			return []Use{{"unreadable", disk, err.Error()}}
		case s != "":
			uses = append(uses, Use{"signature", disk, s})
		}
	}
	if !probe {
		return uses
	}
	busy := t.Busy
	if busy == nil {
		busy = heldExclusively
	}
	switch b, err := busy(path); {
	case err != nil:
		uses = append(uses, Use{"unreadable", disk, err.Error()})
	case b:
		uses = append(uses, Use{"exclusive", disk, ""})
	}
	return uses
}

// heldExclusively opens the device as a mount would.
func heldExclusively(path string) (bool, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, unix.Close(fd)
}

// partitions are the folders of a disk that carry a partition number.
func (t Tree) partitions(disk string) (out []string, err error) {
	dir := filepath.Join(t.Sys, "class/block", disk)
	found, err := entries(dir)
	for _, e := range found {
		if _, err := os.Stat(filepath.Join(dir, e.Name(), "partition")); err == nil {
			out = append(out, e.Name())
		}
	}
	return out, err
}

// entries lists a folder; one that is not there is empty. Any other failure is an error: what cannot be seen may be in use.
func entries(dir string) ([]os.DirEntry, error) {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return found, err
}

// number is "major:minor" of a block device or partition.
func (t Tree) number(name string) string {
	b, err := os.ReadFile(filepath.Join(t.Sys, "class/block", name, "dev"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

type mount struct{ number, source, target string }

// mounts reads the mounts of this process and, where that is allowed, of the first one, whose mount namespace is mostly the machine's.
func (t Tree) mounts() (out []mount, err error) {
	for _, p := range []string{"self", "1"} {
		f, err := os.Open(filepath.Join(t.Proc, p, "mountinfo"))
		if err != nil {
			if p == "self" {
				return nil, fmt.Errorf("pci: which file systems are mounted is not known: %w", err)
			}
			continue
		}
		for sc := bufio.NewScanner(f); sc.Scan(); {
			if m, ok := parseMount(sc.Text()); ok && !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
		f.Close()
	}
	return out, nil
}

// parseMount takes a line of mountinfo: id, parent, major:minor, root, mount point, options, optional fields, "-", type, source, options.
// File systems over several devices have a number of their own, so the source counts too.
func parseMount(line string) (mount, bool) {
	f := strings.Fields(line)
	i := slices.Index(f, "-")
	if i < 5 || len(f) < i+3 {
		return mount{}, false
	}
	return mount{number: f[2], source: f[i+2], target: f[4]}, true
}

// swaps lists the swap areas; a kernel without swap has no such file.
func (t Tree) swaps() (out []string, err error) {
	b, err := os.ReadFile(filepath.Join(t.Proc, "swaps"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("pci: which swap space is in use is not known: %w", err)
	}
	for l := range strings.Lines(string(b)) {
		if f := strings.Fields(l); len(f) > 0 {
			out = append(out, f[0])
		}
	}
	return out, nil
}
