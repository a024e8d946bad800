package cudafake

import (
	"fmt"
	"maps"
	"time"

	"github.com/tritier/tritier/cuda"
)

const (
	// DefaultMemory is the memory in bytes of a device whose spec gives none.
	DefaultMemory = 4 << 30
	// DefaultLag is how long an operation that nobody asks for waits.
	DefaultLag = time.Millisecond
	// DefaultVersion is the CUDA version that the fake driver states.
	DefaultVersion = 13000
)

// DeviceSpec describes a device. Fields left zero are filled in: by the
// device's ordinal for name, UUID and PCI address, and from a data-centre GPU
// of compute capability 9.0 for the attributes.
type DeviceSpec struct {
	Name       string
	UUID       [16]byte
	PCI        string // "0000:01:00.0"
	Memory     uint64 // bytes
	Attributes map[cuda.Attribute]int
}

// Option changes what New makes.
type Option func(*config)

type config struct {
	devices     []DeviceSpec
	version     int
	without     map[cuda.Symbol]bool
	seed        uint64
	lag         time.Duration
	lazy        bool
	pinnedLimit uint64
	dmaBuf      bool
	noPeer      bool
	noRange     bool
}

// Devices gives the GPU n like devices; 0 is a driver that finds none. Without
// it and WithDevice there is one.
func Devices(n int) Option {
	return func(c *config) { c.devices = make([]DeviceSpec, max(n, 0)) }
}

// WithDevice adds a device to those of Devices, or is the only one.
func WithDevice(spec DeviceSpec) Option {
	return func(c *config) { c.devices = append(c.devices, spec) }
}

// Version sets the CUDA version of the driver, such as 12080 for 12.8. Calls
// that came later are missing.
func Version(v int) Option { return func(c *config) { c.version = v } }

// Without takes functions out of the driver.
func Without(symbols ...cuda.Symbol) Option {
	return func(c *config) {
		for _, s := range symbols {
			c.without[s] = true
		}
	}
}

// Seed sets the seed of all random choices. It is 1 without.
func Seed(seed uint64) Option { return func(c *config) { c.seed = seed } }

// Lag sets how long after it was queued an operation starts that nobody asks
// for. A negative lag is for ever: such work never runs, so that a missing
// synchronisation shows without fail; but a host that waits for memory to
// change, with no call to the driver, waits for ever too.
func Lag(d time.Duration) Option {
	return func(c *config) { c.lag, c.lazy = d, d < 0 }
}

// PinnedLimit bounds the bytes of pinned and registered host memory, as
// RLIMIT_MEMLOCK does: beyond it the calls answer OutOfMemory.
func PinnedLimit(bytes uint64) Option { return func(c *config) { c.pinnedLimit = bytes } }

// DMABuf makes device memory exportable as a file descriptor: one of a memfd
// that holds the whole allocation, so that it can be mapped elsewhere.
func DMABuf() Option { return func(c *config) { c.dmaBuf = true } }

// NoPeer makes the devices unable to reach each other's memory.
func NoPeer() Option { return func(c *config) { c.noPeer = true } }

// NoPointerRange makes the driver not say in which allocation an address lies:
// neither where it starts nor its size.
func NoPointerRange() Option { return func(c *config) { c.noRange = true } }

func newConfig(opts []Option) config {
	c := config{version: DefaultVersion, without: make(map[cuda.Symbol]bool), seed: 1, lag: DefaultLag}
	c.pinnedLimit = 1 << 40
	for _, o := range opts {
		o(&c)
	}
	if c.devices == nil {
		c.devices = make([]DeviceSpec, 1)
	}
	for i := range c.devices {
		c.devices[i].fill(i, c.dmaBuf)
	}
	return c
}

// fill gives the i-th device what its spec leaves out.
func (s *DeviceSpec) fill(i int, dmaBuf bool) {
	if s.Name == "" {
		s.Name = "Software GPU"
	}
	if s.UUID == [16]byte{} {
		s.UUID = [16]byte{0x5f, 0x6a, 0x4e, byte(i >> 8), byte(i), 0xfa, 0x4e, 0x01, 0x8a, 0x4e, 0x5e, 0xed, 0, 0, 0, byte(i + 1)}
	}
	if s.PCI == "" {
		s.PCI = fmt.Sprintf("0000:%02x:00.0", i+1)
	}
	if s.Memory == 0 {
		s.Memory = DefaultMemory
	}
	all := maps.Clone(defaultAttributes)
	var domain, bus, slot int
	if _, err := fmt.Sscanf(s.PCI, "%x:%x:%x", &domain, &bus, &slot); err == nil {
		all[cuda.PCIDomainID], all[cuda.PCIBusID], all[cuda.PCIDeviceID] = domain, bus, slot
	}
	if dmaBuf {
		all[cuda.DMABufSupported] = 1
	}
	maps.Copy(all, s.Attributes)
	s.Attributes = all
}

// attrMax is the largest attribute number that the driver knows.
const attrMax = 147

// defaultAttributes are those of a GPU of compute capability 9.0 that are not
// 0, as far as anybody here asks for them.
var defaultAttributes = map[cuda.Attribute]int{
	1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 1<<31 - 1, 6: 65535, 7: 65535, // block and grid
	8: 49152, 9: 65536, 10: 32, 12: 65536, 13: 1980000, 14: 512, 15: 1, 16: 132,
	19: 1, 31: 1, 32: 1, 36: 3201000, 37: 6016, 38: 62914560, 39: 2048, 40: 3, 41: 1,
	75: 9, 76: 0, 78: 1, 79: 1, 80: 1, 81: 233472, 82: 65536, 83: 1, 89: 1, 90: 1, 91: 1,
	95: 1, 97: 232448, 99: 1, 102: 1, 106: 32, 111: 1024, 113: 1, 122: 1, 131: -1,
}
