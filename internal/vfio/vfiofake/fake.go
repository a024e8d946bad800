// Package vfiofake is a kernel with VFIO for tests: device nodes, sysfs links, groups, containers, iommufds and one NVMe function. It keeps
// to the kernel's rules about sizes, order and lifetimes, refuses what breaks them with the kernel's errno, and lets a test look at memory
// as the function would.
package vfiofake

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/internal/vfio"
)

// Address, Group and the names below are those of the function that New makes.
const (
	Address = "0000:01:00.0"
	Group   = "12"
	Cdev    = "/dev/vfio/devices/vfio0"
)

// barBytes is the size of BAR0; BAR2 is a controller memory buffer of the same size.
const barBytes = 16 << 10

// Kernel implements [vfio.System]. Tests change its exported fields before they use it.
type Kernel struct {
	Nodes  map[string]vfio.Access // device nodes, and sysfs folders whose presence is asked for
	Links  map[string]string      // symbolic links
	Dirs   map[string][]string    // folders
	Denied map[string]error       // what Open of a node fails with
	Fail   map[uint32]error       // what a request fails with
	Ranges [][2]uint64            // device addresses that the IOMMU translates
	Limit  uint64                 // RLIMIT_MEMLOCK; mapping beyond it fails
	Viable bool                   // of the group
	Flags  uint32                 // of the device
	Calls  []string               // requests in order

	mu     sync.Mutex
	files  map[int]*file
	next   int
	bars   map[int][]byte
	mapped int // register mappings that were not undone
	config [256]byte
	dma    map[uint64][]byte
	resets int
}

// file is an open descriptor.
type file struct {
	kind      string // container, group, device, cdev, iommufd, eventfd
	container *file  // of a group
	iommu     bool   // of a container: type set
	noIOMMU   bool
	group     bool // of a container: has one
	bound     bool // of a cdev
	ioas      uint32
	eventfd   int // of a device: where to ask for it
	events    int // of an eventfd
}

// New is a machine on which everything is in place: IOMMU, modules, both interfaces, and the function bound to vfio-pci.
func New() *Kernel {
	own := vfio.Access{Mode: 0o600}
	d := "/sys/bus/pci/devices/" + Address
	return &Kernel{
		Nodes: map[string]vfio.Access{
			"/dev/vfio/vfio": {Mode: 0o666}, "/dev/vfio/" + Group: own, Cdev: own, "/dev/iommu": own,
			"/sys/bus/pci/drivers/vfio-pci": own, d: own,
		},
		Links: map[string]string{d + "/driver": "../../../bus/pci/drivers/vfio-pci", d + "/iommu_group": "../../../kernel/iommu_groups/" + Group},
		Dirs: map[string][]string{
			d + "/vfio-dev": {"vfio0"}, "/sys/kernel/iommu_groups/" + Group + "/devices": {Address},
		},
		Denied: map[string]error{}, Fail: map[uint32]error{},
		Ranges: [][2]uint64{{0, 0xfedfffff}, {0xfef00000, 1<<39 - 1}},
		Limit:  1 << 62, Viable: true, Flags: vfio.DeviceIsPCI | vfio.DeviceCanReset,
		files: map[int]*file{}, next: 100, bars: map[int][]byte{}, dma: map[uint64][]byte{},
	}
}

// BAR is the memory behind a BAR, as the device has it.
func (k *Kernel) BAR(i int) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bar(i)
}

func (k *Kernel) bar(i int) []byte {
	if k.bars[i] == nil {
		b, err := unix.Mmap(-1, 0, barBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
		if err != nil {
			return nil
		}
		k.bars[i] = b
	}
	return k.bars[i]
}

// Memory is what the device finds at an address of its own; it fails where nothing is mapped, as the IOMMU does.
func (k *Kernel) Memory(iova uint64, n int) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for at, b := range k.dma {
		if iova >= at && iova-at+uint64(n) <= uint64(len(b)) {
			return b[iova-at : iova-at+uint64(n)], nil
		}
	}
	return nil, fmt.Errorf("IOMMU fault at %#x", iova)
}

// BusMaster reports whether the function may reach memory.
func (k *Kernel) BusMaster() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.config[4]&4 != 0
}

// Resets counts resets of the function.
func (k *Kernel) Resets() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.resets
}

// AskBack does what the kernel does when somebody unplugs the function.
func (k *Kernel) AskBack() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.files {
		if e := k.files[f.eventfd]; f.eventfd != 0 && e != nil {
			e.events++
		}
	}
}

// Leaks lists what was not given back: descriptors, register mappings, memory mapped for the device.
func (k *Kernel) Leaks() (out []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for fd, f := range k.files {
		out = append(out, fmt.Sprintf("descriptor %d (%s)", fd, f.kind))
	}
	if k.mapped > 0 {
		out = append(out, fmt.Sprintf("%d register mappings", k.mapped))
	}
	for at := range k.dma {
		out = append(out, fmt.Sprintf("memory at %#x", at))
	}
	slices.Sort(out)
	return out
}

func (k *Kernel) add(f *file) int {
	k.next++
	k.files[k.next] = f
	return k.next
}

// Open knows the nodes by their paths.
func (k *Kernel) Open(p string) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.Denied[p]; err != nil {
		return -1, err
	}
	if _, ok := k.Nodes[p]; !ok {
		return -1, unix.ENOENT
	}
	switch {
	case p == "/dev/vfio/vfio":
		return k.add(&file{kind: "container"}), nil
	case p == "/dev/iommu":
		return k.add(&file{kind: "iommufd"}), nil
	case strings.HasPrefix(p, "/dev/vfio/devices/"):
		return k.add(&file{kind: "cdev"}), nil // only binding it is exclusive
	case strings.HasPrefix(p, "/dev/vfio/"):
		return k.exclusive("group")
	}
	return -1, unix.ENXIO
}

// exclusive opens what only one may have; a register mapping of an earlier opening counts as open.
func (k *Kernel) exclusive(kind string) (int, error) {
	for _, f := range k.files {
		if f.kind == "group" || f.bound || f.kind == "device" {
			return -1, unix.EBUSY
		}
	}
	if k.mapped > 0 {
		return -1, unix.EBUSY
	}
	return k.add(&file{kind: kind}), nil
}

// Dup gives a device another descriptor, which counts as much as the first.
func (k *Kernel) Dup(fd int) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.files[fd]
	if f == nil {
		return -1, unix.EBADF
	}
	return k.add(f), nil
}

// Close ends the device's access to memory when it was the last way to it.
func (k *Kernel) Close(fd int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.files[fd]
	if f == nil {
		return unix.EBADF
	}
	delete(k.files, fd)
	if f.kind == "container" || f.kind == "iommufd" {
		clear(k.dma)
	}
	return nil
}

// Mmap maps a BAR.
func (k *Kernel) Mmap(fd int, offset int64, length int) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.usable(k.files[fd]) || length != barBytes {
		return nil, unix.EINVAL
	}
	k.mapped++
	return k.bar(int(offset >> 40)), nil
}

// Munmap undoes Mmap.
func (k *Kernel) Munmap([]byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mapped == 0 {
		return unix.EINVAL
	}
	k.mapped--
	return nil
}

// usable says whether f is a device whose memory accesses are translated.
func (k *Kernel) usable(f *file) bool {
	return f != nil && (f.kind == "device" || f.kind == "cdev" && f.bound && f.ioas != 0)
}

func (k *Kernel) space(fd int, b []byte, offset int64, write bool) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := offset - vfio.RegionConfig<<40
	if !k.usable(k.files[fd]) || at < 0 || at+int64(len(b)) > int64(len(k.config)) {
		return 0, unix.EINVAL
	}
	if write {
		return copy(k.config[at:], b), nil
	}
	return copy(b, k.config[at:]), nil
}

// Pread reads the configuration space.
func (k *Kernel) Pread(fd int, b []byte, offset int64) (int, error) {
	return k.space(fd, b, offset, false)
}

// Pwrite writes the configuration space.
func (k *Kernel) Pwrite(fd int, b []byte, offset int64) (int, error) {
	return k.space(fd, b, offset, true)
}

// Read takes an eventfd's count.
func (k *Kernel) Read(fd int, b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.files[fd]
	switch {
	case f == nil || f.kind != "eventfd" || len(b) < 8:
		return 0, unix.EINVAL
	case f.events == 0:
		return 0, unix.EAGAIN
	}
	clear(b)
	b[0] = byte(f.events)
	f.events = 0
	return 8, nil
}

// Eventfd makes an event counter.
func (k *Kernel) Eventfd() (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.add(&file{kind: "eventfd"}), nil
}

// Readlink looks a link up.
func (k *Kernel) Readlink(p string) (string, error) {
	if l, ok := k.Links[p]; ok {
		return l, nil
	}
	return "", &os.PathError{Op: "readlink", Path: p, Err: unix.ENOENT}
}

// ReadDir lists a folder.
func (k *Kernel) ReadDir(p string) ([]string, error) {
	if d, ok := k.Dirs[path.Clean(p)]; ok {
		return slices.Clone(d), nil
	}
	return nil, &os.PathError{Op: "open", Path: p, Err: unix.ENOENT}
}

// Access says who owns a node.
func (k *Kernel) Access(p string) (vfio.Access, error) {
	if a, ok := k.Nodes[p]; ok {
		return a, nil
	}
	return vfio.Access{}, unix.ENOENT
}

// Memlock is the limit of locked memory.
func (k *Kernel) Memlock() (uint64, error) { return k.Limit, nil }
