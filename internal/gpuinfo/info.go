package gpuinfo

import "fmt"

// Link is the state of a PCIe link.
type Link struct {
	Generation int // 1 to 7
	Width      int // lanes
}

// String is the link as people write it: "Gen5 x16".
func (l Link) String() string { return fmt.Sprintf("Gen%d x%d", l.Generation, l.Width) }

// generations gives a generation's rate in GT/s and the share of the bits on the wire that carries packets, by PCI Express Base 6.0:
// 8b/10b, then 128b/130b, then flits of 256 bytes with 14 of check sums and link data.
var generations = []struct {
	rate     float64
	encoding float64
}{1: {2.5, 0.8}, 2: {5, 0.8}, 3: {8, 128. / 130}, 4: {16, 128. / 130}, 5: {32, 128. / 130}, 6: {64, 242. / 256}, 7: {128, 242. / 256}}

// BytesPerSecond is what the wire carries each way, packet headers included: copies reach about 0.85 to 0.9 of it. It is 0 for a
// generation that is not known here.
func (l Link) BytesPerSecond() float64 {
	if l.Generation < 1 || l.Generation >= len(generations) {
		return 0
	}
	g := generations[l.Generation]
	return g.rate * g.encoding * 1e9 / 8 * float64(l.Width)
}

// Utilisation is the share of the last sampling period (1/6 to 1 s, by product) in percent.
type Utilisation struct {
	GPU    int // in which a kernel ran
	Memory int // in which device memory was read or written
}

// Memory is the use of the GPU's memory, or of an aperture to it, in bytes. Used holds what the driver reserves for itself.
type Memory struct{ Total, Free, Used uint64 }

// ECC counts the errors of the GPU's memory since the driver was loaded.
type ECC struct{ Corrected, Uncorrected uint64 }

// Region is a base address register: a range of the bus's addresses that reaches the GPU.
type Region struct {
	Index int
	Bytes uint64
}

// Throughput is the traffic of the link, in bytes per second, as the GPU sees it.
type Throughput struct {
	Received uint64 // by the GPU: from the host
	Sent     uint64 // by the GPU: to the host
}

// Info is what is known of one GPU at one moment.
type Info struct {
	Address string // as sysfs writes it: 0000:01:00.0
	UUID    Figure[string]

	// Current is the link as it runs now. Idle GPUs lower the generation to save power, and raise it when there is something to do.
	Current Figure[Link]
	// Max is what GPU and slot can do together.
	Max Figure[Link]
	// OwnGeneration is what the GPU could do in a better slot.
	OwnGeneration Figure[int]
	// Replays counts packets that were sent again: a link with a bad contact has many.
	Replays Figure[uint64]

	Utilisation Figure[Utilisation]
	Memory      Figure[Memory]
	Temperature Figure[int] // degrees Celsius
	ECC         Figure[ECC]

	// BAR1 is the aperture to the GPU's memory. sysfs knows its size only: Free and Used are 0 then, see the figure's Source.
	BAR1    Figure[Memory]
	Regions Figure[[]Region]

	NUMANode Figure[int]   // the nearest node of the host
	CPUs     Figure[[]int] // the CPUs next to the GPU
}
