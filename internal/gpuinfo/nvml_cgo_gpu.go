//go:build cgo && linux

package gpuinfo

import (
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

type nvmlGPU struct{ d nvml.Device }

func (g nvmlGPU) uuid() (string, error) { return call("nvmlDeviceGetUUID", g.d.GetUUID) }

func (g nvmlGPU) currentLink() (Link, error) {
	return link(
		"nvmlDeviceGetCurrPcieLinkGeneration", g.d.GetCurrPcieLinkGeneration,
		"nvmlDeviceGetCurrPcieLinkWidth", g.d.GetCurrPcieLinkWidth)
}

func (g nvmlGPU) maxLink() (Link, error) {
	return link(
		"nvmlDeviceGetMaxPcieLinkGeneration", g.d.GetMaxPcieLinkGeneration,
		"nvmlDeviceGetMaxPcieLinkWidth", g.d.GetMaxPcieLinkWidth)
}

// link asks for both halves. Zeroes, which some virtual machines answer, are no link.
func link(generationName string, generation func() (int, nvml.Return), widthName string, width func() (int, nvml.Return)) (Link, error) {
	n, err := call(generationName, generation)
	if err != nil {
		return Link{}, err
	}
	w, err := call(widthName, width)
	if err != nil {
		return Link{}, err
	}
	if n < 1 || w < 1 {
		return Link{}, &UnavailableError{What: generationName, Reason: NotReported, Detail: "it answers 0"}
	}
	return Link{n, w}, nil
}

func (g nvmlGPU) ownGeneration() (int, error) {
	return call("nvmlDeviceGetGpuMaxPcieLinkGeneration", g.d.GetGpuMaxPcieLinkGeneration)
}

func (g nvmlGPU) replays() (uint64, error) {
	n, err := call("nvmlDeviceGetPcieReplayCounter", g.d.GetPcieReplayCounter)
	return uint64(n), err
}

func (g nvmlGPU) utilisation() (Utilisation, error) {
	u, err := call("nvmlDeviceGetUtilizationRates", g.d.GetUtilizationRates)
	return Utilisation{int(u.Gpu), int(u.Memory)}, err
}

func (g nvmlGPU) memory() (Memory, error) {
	m, err := call("nvmlDeviceGetMemoryInfo", g.d.GetMemoryInfo)
	return Memory{m.Total, m.Free, m.Used}, err
}

func (g nvmlGPU) bar1() (Memory, error) {
	m, err := call("nvmlDeviceGetBAR1MemoryInfo", g.d.GetBAR1MemoryInfo)
	return Memory{m.Bar1Total, m.Bar1Free, m.Bar1Used}, err
}

func (g nvmlGPU) temperature() (int, error) {
	n, err := call("nvmlDeviceGetTemperature", func() (uint32, nvml.Return) { return g.d.GetTemperature(nvml.TEMPERATURE_GPU) })
	return int(n), err
}

func (g nvmlGPU) ecc() (ECC, error) {
	const name = "nvmlDeviceGetTotalEccErrors"
	count := func(kind nvml.MemoryErrorType) (uint64, error) {
		return call(name, func() (uint64, nvml.Return) { return g.d.GetTotalEccErrors(kind, nvml.VOLATILE_ECC) })
	}
	corrected, err := count(nvml.MEMORY_ERROR_TYPE_CORRECTED)
	if err != nil {
		return ECC{}, err
	}
	uncorrected, err := count(nvml.MEMORY_ERROR_TYPE_UNCORRECTED)
	return ECC{corrected, uncorrected}, err
}

// throughput asks for both directions one after the other; each call counts bytes for 20 ms. NVML's unit is KB/s, taken as 1000 bytes.
func (g nvmlGPU) throughput() (Throughput, error) {
	rate := func(counter nvml.PcieUtilCounter) (uint64, error) {
		n, err := call("nvmlDeviceGetPcieThroughput", func() (uint32, nvml.Return) { return g.d.GetPcieThroughput(counter) })
		return uint64(n) * 1000, err
	}
	received, err := rate(nvml.PCIE_UTIL_RX_BYTES)
	if err != nil {
		return Throughput{}, err
	}
	sent, err := rate(nvml.PCIE_UTIL_TX_BYTES)
	return Throughput{Received: received, Sent: sent}, err
}

// maskWords is the size of a set of CPUs or nodes. go-nvml takes the number of elements, but makes a word of 64 for every 8 of them, so
// that this many words are asked for by 8 times their number: room for 8,192 CPUs, which is the most that distributions build for.
const maskWords = 128

func (g nvmlGPU) nodes() ([]int, error) {
	words, err := call("nvmlDeviceGetMemoryAffinity", func() ([]uint, nvml.Return) {
		return g.d.GetMemoryAffinity(8*maskWords, nvml.AFFINITY_SCOPE_NODE)
	})
	return listed("nvmlDeviceGetMemoryAffinity", words, err)
}

func (g nvmlGPU) cpus() ([]int, error) {
	words, err := call("nvmlDeviceGetCpuAffinity", func() ([]uint, nvml.Return) { return g.d.GetCpuAffinity(8 * maskWords) })
	return listed("nvmlDeviceGetCpuAffinity", words, err)
}

func listed(name string, words []uint, err error) ([]int, error) {
	if err != nil {
		return nil, err
	}
	list := bits(words)
	if len(list) == 0 {
		return nil, &UnavailableError{What: name, Reason: NotReported, Detail: "it answers an empty set"}
	}
	return list, nil
}

// bits lists the numbers of the bits that are set, least significant word first.
func bits(words []uint) []int {
	var list []int
	for i, w := range words {
		for b := range strconv.IntSize {
			if w>>b&1 != 0 {
				list = append(list, strconv.IntSize*i+b)
			}
		}
	}
	return list
}
