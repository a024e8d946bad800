package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/internal/gpuinfo"
)

// cudaFacts is what the CUDA driver answered.
type cudaFacts struct {
	version cuda.Version
	batch   cuda.Symbol // the batched copy call, or -1
	gpus    []gpu
	peers   *Peers
	noGPUs  error // why gpus is empty
}

// driver is the section of the driver, and the sections of its GPUs.
func (c *collector) driver() (Section, []Section) {
	s := Section{ID: "driver", Title: "CUDA driver"}
	f, err := within(c, "the CUDA driver", c.askCUDA)
	s.Items = append(s.Items, c.library(f, err), c.kernelModule(len(f.gpus) > 0))
	if err == nil || errors.Is(err, cuda.ErrNoDevice) {
		s.Items = append(s.Items, c.gpuCount(f, err))
	}
	if err == nil {
		c.gpus, c.peers = f.gpus, f.peers
		s.Items = append(s.Items, batchItem(f), c.kernelsItem(f.version))
	}
	nvml := c.nvml()
	s.Items = append(s.Items, nvml)
	var sections []Section
	for i := range c.gpus {
		sections = append(sections, c.gpuSection(&c.gpus[i], f.version, nvml.Status == OK))
	}
	return s, sections
}

func (c *collector) askCUDA() (cudaFacts, error) {
	d, err := c.Driver()
	if err != nil {
		return cudaFacts{}, err
	}
	f := cudaFacts{version: d.Version(), batch: -1}
	for _, s := range []cuda.Symbol{cuda.SymMemcpyBatchAsync, cuda.SymMemcpyBatchAsyncV2} {
		if d.Has(s) {
			f.batch = s
		}
	}
	devices, err := d.Devices()
	if err != nil {
		f.noGPUs = err
		return f, nil
	}
	for _, v := range devices {
		f.gpus = append(f.gpus, askGPU(v))
	}
	f.peers = askPeers(devices)
	return f, nil
}

// askPeers asks every pair of GPUs. One that does not answer cannot be used.
func askPeers(devices []*cuda.Device) *Peers {
	if len(devices) < 2 {
		return nil
	}
	p := &Peers{}
	for _, a := range devices {
		p.GPUs = append(p.GPUs, a.UUID())
		row := make([]bool, len(devices))
		for j, b := range devices {
			can, err := a.CanAccessPeer(b)
			row[j] = a == b || err == nil && can
		}
		p.Access = append(p.Access, row)
	}
	return p
}

const noDriverCost = "no GPU can be used: arrays live in host memory, and every copy is the CPU's"

// library is the item of the driver's library.
func (c *collector) library(f cudaFacts, err error) Item {
	const id, name = "cuda", "CUDA driver library"
	var missing *cuda.MissingLibraryError
	var symbol *cuda.MissingSymbolError
	var late *TimeoutError
	switch {
	case err == nil:
		return found(id, name, "CUDA "+f.version.String(), Facts{"cuda_version": f.version.String()})
	case errors.As(err, &missing):
		return lacking(Missing, id, name, "not found: "+missing.Reason, noDriverCost, c.driverRemedy(), Facts{"tried": missing.Tried})
	case errors.As(err, &symbol):
		return lacking(Missing, id, name, "too old: "+symbol.Error(), noDriverCost, "update the NVIDIA driver", Facts{"cuda_version": symbol.Have.String()})
	case errors.Is(err, cuda.ErrNoDevice):
		return found(id, name, "there, but it finds no GPU", nil)
	case errors.As(err, &late):
		return lacking(Limited, id, name, late.Error(), noDriverCost, "see whether nvidia-smi answers, and the kernel's log (dmesg) for messages of the driver (Xid)", nil)
	}
	return lacking(Limited, id, name, err.Error(), noDriverCost, "see whether nvidia-smi works, and the kernel's log (dmesg)", nil)
}

// driverRemedy depends on whether there is a GPU at all.
func (c *collector) driverRemedy() string {
	switch on := c.nvidiaFunctions(); {
	case len(on) > 0 && c.read("sys/module/nvidia/version") != "":
		return "the kernel module is loaded, the library is not to be found: install the driver's user-space part (libcuda.so.1), or start the container with the GPU's libraries"
	case len(on) > 0:
		return "install the NVIDIA driver: there is a GPU at " + strings.Join(on, ", ")
	}
	return "this machine shows no NVIDIA GPU: nothing is to be installed without one"
}

// nvidiaFunctions lists the PCI addresses of NVIDIA's display and 3D controllers (class 0x03).
func (c *collector) nvidiaFunctions() (list []string) {
	const bus = "sys/bus/pci/devices/"
	for _, a := range c.names(bus) {
		if c.read(bus+a+"/vendor") == "0x10de" && strings.HasPrefix(c.read(bus+a+"/class"), "0x03") {
			list = append(list, a)
		}
	}
	return list
}

// kernelModule looks for the driver's part in the kernel. works says that CUDA
// finds GPUs, so that it must be there, seen or not.
func (c *collector) kernelModule(works bool) Item {
	const id, name = "kernel-module", "NVIDIA kernel module"
	if v := c.read("sys/module/nvidia/version"); v != "" {
		return found(id, name, v, Facts{"version": v})
	}
	// The first line ends in the version, the date and the compiler: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  ...".
	if line, _, _ := strings.Cut(c.read("proc/driver/nvidia/version"), "\n"); line != "" {
		_, rest, _ := strings.Cut(line, "Kernel Module")
		for _, word := range strings.Fields(rest) {
			if strings.ContainsAny(word, "0123456789") && strings.Contains(word, ".") {
				return found(id, name, word, Facts{"version": word})
			}
		}
	}
	switch {
	case works:
		return unknown(id, name, errors.New("hidden, as by a sandbox: GPUs work, so that it is loaded"))
	case len(c.nvidiaFunctions()) == 0:
		return lacking(Missing, id, name, "not loaded, or hidden by a sandbox", noDriverCost, c.driverRemedy(), nil)
	}
	return lacking(Missing, id, name, "not loaded", noDriverCost, "modprobe nvidia (after installing the driver)", nil)
}

func (c *collector) gpuCount(f cudaFacts, err error) Item {
	const id, name = "gpus", "GPUs"
	visible := c.Env("CUDA_VISIBLE_DEVICES")
	note := ""
	if visible != "" {
		note = "; CUDA_VISIBLE_DEVICES=" + visible + " limits the choice"
	}
	if n := len(f.gpus); n > 0 {
		return found(id, name, count(n, "GPU")+note, Facts{"count": n})
	}
	if err == nil {
		err = f.noGPUs
	}
	remedy := "check nvidia-smi, and that the container may use a GPU"
	if visible != "" {
		remedy = "unset CUDA_VISIBLE_DEVICES, or name a GPU that there is"
	}
	value := "none" + note
	if err != nil && !errors.Is(err, cuda.ErrNoDevice) {
		value = err.Error()
	}
	return lacking(Missing, id, name, value, noDriverCost, remedy, Facts{"count": 0})
}

func batchItem(f cudaFacts) Item {
	const id, name = "batched-copy", "batched copy call"
	if f.batch >= 0 {
		return found(id, name, f.batch.String(), Facts{"call": f.batch.String()})
	}
	return lacking(Missing, id, name, "the driver lacks "+cuda.SymMemcpyBatchAsync.String(),
		"scattered pages are copied one call each, about 2 us of CPU time a page, or by a kernel",
		"update the driver to one for CUDA "+cuda.SymMemcpyBatchAsync.Since()+" or newer (570 and up)", nil)
}

// ptxSince is the CUDA version whose driver first compiles a PTX version, by the release table of the PTX ISA's manual.
var ptxSince = []struct{ ptx, major, minor int }{
	{63, 10, 0}, {64, 10, 1}, {65, 10, 2}, {70, 11, 0}, {71, 11, 1}, {72, 11, 2}, {73, 11, 3}, {74, 11, 4}, {75, 11, 5}, {76, 11, 6}, {77, 11, 7},
	{78, 11, 8}, {80, 12, 0}, {81, 12, 1}, {82, 12, 2}, {83, 12, 3}, {84, 12, 4}, {85, 12, 5}, {86, 12, 7}, {87, 12, 8}, {88, 12, 9}, {90, 13, 0},
}

// kernelsItem compares the PTX of this program's kernels with what the driver compiles.
func (c *collector) kernelsItem(v cuda.Version) Item {
	const id, name = "kernels", "tritier's kernels"
	text := fmt.Sprintf("PTX %d.%d for compute capability %d.%d", c.Kernels.PTX/10, c.Kernels.PTX%10, c.Kernels.Compute/10, c.Kernels.Compute%10)
	facts := Facts{"ptx": c.Kernels.PTX, "compute_capability": c.Kernels.Compute}
	for _, p := range ptxSince {
		if p.ptx < c.Kernels.PTX {
			continue
		}
		if v.AtLeast(p.major, p.minor) {
			return found(id, name, text+", which the driver compiles", facts)
		}
		return lacking(Missing, id, name, text+", newer than the driver", "no kernel runs: zero-copy and GPU-initiated I/O are not possible",
			fmt.Sprintf("update the driver to one for CUDA %d.%d or newer", p.major, p.minor), facts)
	}
	return unknown(id, name, fmt.Errorf("%s: which driver compiles that is not known here", text))
}

func (c *collector) nvml() Item {
	const id, name = "nvml", "NVML"
	ctx, cancel := context.WithTimeout(c.ctx, c.Deadline)
	defer cancel()
	version, err := c.GPUs.NVML(ctx)
	if err == nil {
		return found(id, name, "driver "+version, Facts{"driver_version": version})
	}
	const cost = "no utilisation, traffic, temperature and ECC errors of GPUs; the link's state comes from sysfs where that shows it"
	const remedy = "see whether nvidia-smi works, and the kernel's log (dmesg)"
	var u *gpuinfo.UnavailableError
	if errors.As(err, &u) {
		value := string(u.Reason)
		if u.Detail != "" {
			value += ": " + u.Detail
		}
		remedy := orElse(u.Advice(), remedy)
		if u.Reason == gpuinfo.NoLibrary && len(c.nvidiaFunctions()) == 0 && len(c.gpus) == 0 {
			remedy = "it comes with the NVIDIA driver, which is of no use without a GPU"
		}
		return lacking(Missing, id, name, value, cost, remedy, Facts{"reason": string(u.Reason)})
	}
	return lacking(Missing, id, name, err.Error(), cost, remedy, nil)
}

// orElse is s, or other where s says nothing.
func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
