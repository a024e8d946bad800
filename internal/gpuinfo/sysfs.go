package gpuinfo

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// folder is where sysfs keeps a function's files.
func (r *Reader) folder(address string) string {
	return filepath.Join(r.sys, "bus/pci/devices", address)
}

// complete adds what sysfs knows and NVML did not answer.
func (r *Reader) complete(i *Info) {
	dir := r.folder(i.Address)
	i.Current = i.Current.or(sysLink(dir, "current"))
	i.Max = i.Max.or(sysMaxLink(dir))
	i.OwnGeneration = i.OwnGeneration.or(sysFigure(dir, "max_link_speed", generation))
	i.NUMANode = i.NUMANode.or(sysFigure(dir, "numa_node", node))
	i.CPUs = i.CPUs.or(sysFigure(dir, "local_cpulist", cpuList))
	i.Regions = i.Regions.or(sysFigure(dir, "resource", regions))
	i.BAR1 = i.BAR1.or(aperture(i.Regions))
}

// sysFigure reads a file of sysfs.
func sysFigure[T any](dir, name string, parse func(string) (T, bool)) Figure[T] {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return Figure[T]{Err: &UnavailableError{What: name, Reason: NotReported, Detail: err.Error(), Err: err}}
	}
	text := strings.TrimSpace(string(b))
	v, ok := parse(text)
	if !ok {
		return Figure[T]{Err: &UnavailableError{What: name, Reason: NotReported, Detail: "sysfs says " + strconv.Quote(text)}}
	}
	return known(v, Sysfs)
}

// sysLink reads the current or the max link of a function.
func sysLink(dir, which string) Figure[Link] {
	g := sysFigure(dir, which+"_link_speed", generation)
	w := sysFigure(dir, which+"_link_width", lanes)
	if !g.Known() || !w.Known() {
		return Figure[Link]{Err: errors.Join(g.Err, w.Err)}
	}
	return known(Link{g.Value, w.Value}, Sysfs)
}

// sysMaxLink is the lesser of what the function and the port above it can do. The port's folder holds the function's; a function of a
// virtual machine may sit on a bus without a port.
func sysMaxLink(dir string) Figure[Link] {
	own := sysLink(dir, "max")
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !own.Known() {
		return own
	}
	if port := sysLink(filepath.Dir(real), "max"); port.Known() {
		own.Value = Link{min(own.Value.Generation, port.Value.Generation), min(own.Value.Width, port.Value.Width)}
	}
	return own
}

// generation reads a link's speed: "32.0 GT/s PCIe", or "8 GT/s" from older kernels; "Unknown" where there is none.
func generation(s string) (int, bool) {
	number, _, _ := strings.Cut(s, " ")
	rate, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, false
	}
	for n := 1; n < len(generations); n++ {
		if generations[n].rate == rate {
			return n, true
		}
	}
	return 0, false
}

// lanes reads a link's width, by the PCI Express base specification 1 to 32; 0, 63 and 255 are what missing links read as.
func lanes(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 1 && n <= 32
}

// node reads a NUMA node; -1 is what the kernel writes when the firmware does not say.
func node(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 0
}

// maxCPUs bounds a list: a damaged file must not ask for all memory.
const maxCPUs = 1 << 16

// cpuList reads a list such as "0-3,8".
func cpuList(s string) ([]int, bool) {
	var list []int
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, errA := strconv.Atoi(from)
		b, errB := strconv.Atoi(to)
		if errA != nil || errB != nil || a < 0 || b < a || b >= maxCPUs {
			return nil, false
		}
		for n := a; n <= b; n++ {
			list = append(list, n)
		}
	}
	return list, true
}

// numBARs is how many of the lines of "resource" are base address registers; a ROM and bridges' windows follow.
const numBARs = 6

// regions reads the lines "first last flags" of "resource". Zeroes are no region, or the upper half of the one before.
func regions(s string) ([]Region, bool) {
	var list []Region
	for i, line := range strings.Split(s, "\n") {
		f := strings.Fields(line)
		if i == numBARs {
			break
		}
		if len(f) != 3 {
			return nil, false
		}
		first, errA := strconv.ParseUint(f[0], 0, 64)
		last, errB := strconv.ParseUint(f[1], 0, 64)
		if errA != nil || errB != nil || last < first {
			return nil, false
		}
		if last > 0 {
			list = append(list, Region{i, last - first + 1})
		}
	}
	return list, len(list) > 0
}

// aperture is the region that shows the GPU's memory: NVIDIA's GPUs have it in register 1.
func aperture(f Figure[[]Region]) Figure[Memory] {
	for _, r := range f.Value {
		if r.Index == 1 {
			return known(Memory{Total: r.Bytes}, f.Source)
		}
	}
	err := f.Err
	if err == nil {
		err = &UnavailableError{What: "base address register 1", Reason: NotReported, Detail: "sysfs lists none"}
	}
	return Figure[Memory]{Err: err}
}
