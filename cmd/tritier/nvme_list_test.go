package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tritier/tritier/internal/pci"
)

// fakeMachine is a tree of files with five drives: one with a mounted file
// system, one that is free, two in the hands of VFIO, of which one has no
// IOMMU, and one without a driver.
func fakeMachine(t *testing.T) pci.Tree {
	t.Helper()
	dir := t.TempDir()
	file := func(path, content string) {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	link := func(path, target string) {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)); err != nil {
			t.Fatal(err)
		}
	}
	file("proc/self/mountinfo", "22 1 259:0 / /data rw,relatime shared:1 - ext4 /dev/nvme0n1 rw\n")
	file("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n")
	for address, driver := range map[string]string{"0000:01:00.0": "nvme", "0000:02:00.0": "nvme", "0000:03:00.0": "vfio-pci", "0000:04:00.0": "vfio-pci", "0000:05:00.0": ""} {
		d := "sys/bus/pci/devices/" + address
		file(d+"/class", "0x010802\n")
		file(d+"/vendor", "0x144d\n")
		file(d+"/device", "0xa80a\n")
		if driver != "" {
			link(d+"/driver", "../../../bus/pci/drivers/"+driver)
		}
	}
	for i, address := range []string{"0000:01:00.0", "0000:02:00.0"} {
		d, disk := "sys/bus/pci/devices/"+address, []string{"nvme0n1", "nvme1n1"}[i]
		file(d+"/nvme/nvme"+disk[4:5]+"/serial", "S"+disk+"\n")
		file(d+"/nvme/nvme"+disk[4:5]+"/model", "MODEL X\n")
		file(d+"/nvme/nvme"+disk[4:5]+"/"+disk+"/size", "1\n")
		file("sys/class/block/"+disk+"/dev", []string{"259:0", "259:1"}[i]+"\n")
		file("dev/"+disk, strings.Repeat("\x00", 1<<17))
	}
	file("sys/bus/pci/devices/0000:02:00.0/numa_node", "1\n")
	link("sys/bus/pci/devices/0000:03:00.0/iommu_group", "../../../kernel/iommu_groups/17")
	return pci.Tree{Sys: filepath.Join(dir, "sys"), Proc: filepath.Join(dir, "proc"), Dev: filepath.Join(dir, "dev"),
		Busy: func(string) (bool, error) { return false, nil }}
}

func TestListDrives(t *testing.T) {
	probe := func(address string) error {
		if address == "0000:04:00.0" {
			return errors.New("no IOMMU group:\nturn it on")
		}
		return nil
	}
	list, err := listDrives(fakeMachine(t), probe)
	if err != nil || len(list) != 5 {
		t.Fatal(list, err)
	}
	for i, want := range []struct {
		usable        bool
		inUse, advice string
	}{
		{false, "nvme0n1 is mounted at /data", "wipe it"},
		{false, "", "free: use nvme:0000:02:00.0 with --bind, as root"},
		{true, "", "use nvme:0000:03:00.0"},
		{false, "", "no IOMMU group:; turn it on"},
		{false, "", "free: use nvme:0000:05:00.0 with --bind"},
	} {
		d := list[i]
		if d.Usable != want.usable || !strings.Contains(strings.Join(d.InUse, ";"), want.inUse) || len(d.InUse) > 0 != (want.inUse != "") || !strings.Contains(d.Advice, want.advice) {
			t.Errorf("%s: %+v, want %+v", d.Address, d, want)
		}
	}
	if n := list[1].NUMANode; n == nil || *n != 1 || list[0].NUMANode != nil {
		t.Errorf("NUMA nodes %v and %v, want none and 1", list[0].NUMANode, n)
	}
	var out bytes.Buffer
	if err := printDrives(&out, list); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	words := func(i int) string { return strings.Join(strings.Fields(lines[i]), " ") }
	for i, want := range map[int]string{
		1: "0000:01:00.0 MODEL X Snvme0n1 nvme - - nvme0n1 no",
		2: "0000:02:00.0 MODEL X Snvme1n1 nvme - 1 nvme1n1 no",
		3: "0000:03:00.0 (144d:a80a) - vfio-pci 17 - - yes",
		5: "0000:05:00.0 (144d:a80a) - - - - - no",
	} {
		if words(i) != want {
			t.Errorf("line %d: %q, want %q", i, words(i), want)
		}
	}
	if !slices.ContainsFunc(lines, func(s string) bool {
		return strings.HasPrefix(s, "0000:01:00.0: in use: nvme0n1 is mounted at /data: ")
	}) {
		t.Errorf("not said why a drive is not usable:\n%s", &out)
	}
}

func TestListNothing(t *testing.T) {
	list, err := listDrives(pci.Tree{Sys: t.TempDir()}, func(string) error { return nil })
	if err != nil || list == nil || len(list) != 0 {
		t.Fatalf("%#v, %v", list, err)
	}
	var out bytes.Buffer
	if err := printDrives(&out, list); err != nil || !strings.HasPrefix(out.String(), "no NVMe drive") {
		t.Errorf("%q, %v", &out, err)
	}
}
