package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/internal/gpuinfo"
	"github.com/tritier/tritier/internal/units"
)

// gpu is what CUDA says of one GPU, and where it sits.
type gpu struct {
	ordinal      int
	name, uuid   string
	address      string
	memory       uint64
	major, minor int
	attributes   map[cuda.Attribute]attribute
	info         gpuinfo.Info
	infoErr      error
}

// attribute is a value, or why there is none: a driver does not know the attributes of later ones.
type attribute struct {
	value int
	err   error
}

// asked are the attributes that the report needs.
var asked = []cuda.Attribute{
	cuda.MultiprocessorCount, cuda.AsyncEngineCount, cuda.CanMapHostMemory, cuda.HostRegisterSupported, cuda.ReadOnlyHostRegisterSupported,
	cuda.HostNativeAtomicSupported, cuda.PageableMemoryAccess, cuda.DMABufSupported, cuda.GPUDirectRDMASupported, cuda.CanUse64BitStreamMemOps,
}

func askGPU(v *cuda.Device) gpu {
	g := gpu{ordinal: v.Ordinal(), name: v.Name(), uuid: v.UUID(), address: v.PCIAddress(), memory: v.Memory(), attributes: map[cuda.Attribute]attribute{}}
	g.major, g.minor = v.ComputeCapability()
	for _, a := range asked {
		n, err := v.Attribute(a)
		g.attributes[a] = attribute{n, err}
	}
	return g
}

// gpuSection is all about one GPU.
func (c *collector) gpuSection(g *gpu, driver cuda.Version, nvml bool) Section {
	ctx, cancel := context.WithTimeout(c.ctx, c.Deadline)
	defer cancel()
	g.info, g.infoErr = c.GPUs.Query(ctx, g.address)
	s := Section{ID: "gpu", Title: fmt.Sprintf("GPU %d: %s", g.ordinal, g.name), Device: g.uuid}
	s.Items = []Item{
		found("identity", "identity", g.uuid+" at "+g.address, Facts{"uuid": g.uuid, "pci_address": g.address, "ordinal": g.ordinal, "name": g.name}),
		found("memory", "memory", units.FormatBytes(g.memory), Facts{"bytes": g.memory}),
		c.computeItem(g),
	}
	for _, a := range abilities {
		s.Items = append(s.Items, a.item(g))
	}
	if g.infoErr != nil {
		s.Items = append(s.Items, unknown("link", "PCIe link", g.infoErr))
	} else {
		s.Items = append(s.Items, linkItem(g.info), bar1Item(g), c.numaItem(g.info), healthItem(g.info, nvml))
	}
	if c.Calibration != nil {
		s.Items = append(s.Items, c.calibrationItem(g, driver))
	}
	return s
}

func (c *collector) computeItem(g *gpu) Item {
	const id, name = "compute", "compute capability"
	value := fmt.Sprintf("%d.%d", g.major, g.minor)
	facts := Facts{"major": g.major, "minor": g.minor}
	if n := g.attributes[cuda.MultiprocessorCount]; n.err == nil {
		value += fmt.Sprintf(", %d multiprocessors", n.value)
		facts["multiprocessors"] = n.value
	}
	if 10*g.major+g.minor < c.Kernels.Compute {
		return lacking(Missing, id, name, value, "no kernel of tritier runs on it: only copies by the driver",
			fmt.Sprintf("a GPU of compute capability %d.%d or newer", c.Kernels.Compute/10, c.Kernels.Compute%10), facts)
	}
	return found(id, name, value, facts)
}

// ability is an attribute that a GPU has or lacks.
type ability struct {
	id, name string
	of       cuda.Attribute
	enough   int // values from here on are OK, those between are Limited, 0 is Missing
	cost     string
	remedy   string
}

var abilities = []ability{
	{"copy-engines", "copy engines", cuda.AsyncEngineCount, 2, "copies to and from the GPU take turns, or wait for kernels", "a data-centre or workstation GPU"},
	{"mapped-host-memory", "mapped host memory", cuda.CanMapHostMemory, 1, "kernels cannot reach host memory: no zero-copy, no GPU-initiated I/O", "another GPU"},
	{"host-register", "host memory registration", cuda.HostRegisterSupported, 1,
		"pinned memory comes from the driver alone, which touches it at 1 to 2 GB/s from one thread", "no driver option: it depends on the platform"},
	{"read-only-register", "read-only registration", cuda.ReadOnlyHostRegisterSupported, 1,
		"memory that the process may only read (a file mapped so) cannot be registered: it is copied into the pinned pool first", "no driver option: it depends on the platform"},
	{"host-atomics", "atomics on host memory", cuda.HostNativeAtomicSupported, 1,
		"GPU and CPU cannot update the same word of host memory atomically; tritier's queues do without", "a GPU joined to its CPU by NVLink-C2C; no GPU on PCIe has it"},
	{"pageable-access", "pageable memory access (HMM)", cuda.PageableMemoryAccess, 1,
		"kernels reach host memory only where it is pinned, which tritier's is", "the driver's open kernel modules on Linux 6.1.24 or newer (HMM), or a coherent platform (Grace)"},
	{"dma-buf", "DMA-BUF export", cuda.DMABufSupported, 1,
		"GPU memory cannot be given to another device without an extra kernel module", "the driver's open kernel modules, Linux 5.12 or newer and CUDA 11.7 or newer"},
	{"gpudirect-rdma", "GPUDirect RDMA", cuda.GPUDirectRDMASupported, 1,
		"no drive or network card can reach GPU memory: payload goes by way of host memory", "a data-centre or workstation GPU; in a virtual machine, one that is passed through whole"},
	{"stream-mem-ops", "64-bit stream memory operations", cuda.CanUse64BitStreamMemOps, 1,
		"a stream cannot wait for a 64-bit word in memory: the CPU waits in its place", "a newer driver (CUDA 12) or GPU"},
}

func (a ability) item(g *gpu) Item {
	v := g.attributes[a.of]
	switch {
	case v.err != nil:
		return unknown(a.id, a.name, fmt.Errorf("the driver does not say: %w", v.err))
	case v.value <= 0:
		return lacking(Missing, a.id, a.name, "no", a.cost, a.remedy, Facts{"value": v.value})
	case v.value < a.enough:
		return lacking(Limited, a.id, a.name, fmt.Sprint(v.value), a.cost, a.remedy, Facts{"value": v.value})
	case a.enough > 1:
		return found(a.id, a.name, fmt.Sprint(v.value), Facts{"value": v.value})
	}
	return found(a.id, a.name, "yes", Facts{"value": v.value})
}

// healthItem is what NVML alone knows: use, temperature, memory errors.
func healthItem(i gpuinfo.Info, nvml bool) Item {
	const id, name = "state", "state now"
	value, facts := "", Facts{}
	add := func(s string) {
		if value != "" {
			value += ", "
		}
		value += s
	}
	if u := i.Utilisation; u.Known() {
		add(fmt.Sprintf("%d %% busy", u.Value.GPU))
		facts["busy_percent"] = u.Value.GPU
	}
	if m := i.Memory; m.Known() {
		add(units.FormatBytes(m.Value.Free) + " of its memory free")
		facts["free_bytes"] = m.Value.Free
	}
	if t := i.Temperature; t.Known() {
		add(fmt.Sprintf("%d °C", t.Value))
		facts["celsius"] = t.Value
	}
	if e := i.ECC; e.Known() {
		facts["ecc_corrected"], facts["ecc_uncorrected"] = e.Value.Corrected, e.Value.Uncorrected
		if e.Value.Uncorrected > 0 {
			add(fmt.Sprintf("%d uncorrected memory errors", e.Value.Uncorrected))
			return sourced(lacking(Limited, id, name, value, "results may be wrong, and contexts get lost", "see nvidia-smi -q -d ECC, and reset or replace the GPU", facts), gpuinfo.NVML)
		}
		add("no uncorrected memory error")
	}
	switch {
	case value != "":
		return sourced(found(id, name, value, facts), gpuinfo.NVML)
	case nvml:
		return unknown(id, name, firstReason(i.Utilisation.Err))
	}
	return unknown(id, name, errors.New("only NVML knows, which is not available"))
}

func (c *collector) calibrationItem(g *gpu, driver cuda.Version) Item {
	const id, name = "calibration", "copy calibration"
	type answer struct {
		status Status
		text   string
	}
	a, err := within(c, "the calibration's folder", func() (answer, error) {
		status, text := c.Calibration(g.uuid, driver.String())
		return answer{status, text}, nil
	})
	switch {
	case err != nil:
		return unknown(id, name, err)
	case a.status == OK:
		return found(id, name, a.text, nil)
	}
	return lacking(a.status, id, name, a.text, "copies choose their path by the built-in curves, of another machine", "tritier calibrate (some seconds)", nil)
}

func sourced(i Item, s gpuinfo.Source) Item {
	i.Source = string(s)
	return i
}

// firstReason is the first of the reasons why no source knows a figure: NVML's, where it was asked.
func firstReason(err error) error {
	var u *gpuinfo.UnavailableError
	if errors.As(err, &u) {
		return u
	}
	if err == nil {
		err = gpuinfo.ErrUnavailable
	}
	return err
}
