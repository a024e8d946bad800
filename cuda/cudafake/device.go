package cudafake

import (
	"github.com/tritier/tritier/cuda"
)

// device is one GPU of the driver.
type device struct {
	DeviceSpec
	ordinal int
	used    uint64   // bytes of its memory
	primary *context // nil before the first retain
}

func (c *call) init() cuda.Result {
	switch {
	case c.u32(0) != 0:
		return cuda.InvalidValue
	case c.closed:
		return cuda.Deinitialized
	case len(c.devices) == 0:
		return cuda.NoDevice
	}
	if err := c.initialise(); err != nil {
		c.note("cuInit: %v", err)
		return cuda.OutOfMemory
	}
	return cuda.Success
}

func (c *call) driverVersion() cuda.Result {
	c.put32(0, uint32(c.config.version))
	return cuda.Success
}

func (c *call) errorName() cuda.Result {
	return c.resultText(func(t resultText) []byte { return t.name })
}

func (c *call) errorString() cuda.Result {
	return c.resultText(func(t resultText) []byte { return t.text })
}

// resultText stores the address of a string about the result in args[0].
func (c *call) resultText(which func(resultText) []byte) cuda.Result {
	t, ok := resultTexts[cuda.Result(c.u32(0))]
	if !ok {
		c.put64(1, 0)
		return cuda.InvalidValue
	}
	c.put64(1, uint64(start(which(t))))
	return cuda.Success
}

func (c *call) deviceCount() cuda.Result {
	c.put32(0, uint32(len(c.devices)))
	return cuda.Success
}

// device is the one that argument i names.
func (c *call) device(i int) (*device, bool) {
	n := c.i32(i)
	if n < 0 || n >= len(c.devices) {
		return nil, false
	}
	return c.devices[n], true
}

func (c *call) deviceGet() cuda.Result {
	d, ok := c.device(1)
	if !ok {
		return cuda.InvalidDevice
	}
	c.put32(0, uint32(d.ordinal))
	return cuda.Success
}

func (c *call) deviceName() cuda.Result {
	d, ok := c.device(2)
	if !ok {
		return cuda.InvalidDevice
	}
	return c.putString(0, 1, d.Name, true)
}

func (c *call) devicePCI() cuda.Result {
	d, ok := c.device(2)
	if !ok {
		return cuda.InvalidDevice
	}
	return c.putString(0, 1, d.PCI, false)
}

// putString stores s with its NUL at argument at, which has the room that
// argument size gives; the driver shortens some strings and refuses others.
func (c *call) putString(at, size int, s string, shorten bool) cuda.Result {
	room := c.i32(size)
	if room <= 0 || len(s)+1 > room && !shorten {
		return cuda.InvalidValue
	}
	dst := view(c.ptr(at), uint64(min(room, len(s)+1))) // no more than is written
	n := copy(dst[:len(dst)-1], s)
	dst[n] = 0
	return cuda.Success
}

func (c *call) deviceUUID() cuda.Result {
	d, ok := c.device(1)
	if !ok {
		return cuda.InvalidDevice
	}
	copy(view(c.ptr(0), 16), d.UUID[:])
	return cuda.Success
}

func (c *call) deviceMemory() cuda.Result {
	d, ok := c.device(1)
	if !ok {
		return cuda.InvalidDevice
	}
	c.put64(0, d.Memory)
	return cuda.Success
}

func (c *call) deviceAttribute() cuda.Result {
	d, ok := c.device(2)
	if !ok {
		return cuda.InvalidDevice
	}
	v, known := d.Attributes[cuda.Attribute(c.i32(1))]
	if n := c.i32(1); !known && (n < 1 || n > attrMax) {
		return cuda.InvalidValue
	}
	c.put32(0, uint32(v))
	return cuda.Success
}

func (c *call) deviceCanAccessPeer() cuda.Result {
	a, ok1 := c.device(1)
	b, ok2 := c.device(2)
	if !ok1 || !ok2 {
		return cuda.InvalidDevice
	}
	var can uint32
	if a != b && !c.config.noPeer {
		can = 1
	}
	c.put32(0, can)
	return cuda.Success
}

// attribute is one that has a default, as a number to count with.
func (d *device) attribute(a cuda.Attribute) uint64 { return uint64(max(d.Attributes[a], 0)) }

// smVersion is the compute capability as PTX targets count, 90 for 9.0.
func (d *device) smVersion() int {
	return 10*d.Attributes[cuda.ComputeCapabilityMajor] + d.Attributes[cuda.ComputeCapabilityMinor]
}
