package cuda

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Device is a GPU. Its methods may be called from any goroutine.
type Device struct {
	driver  *Driver
	ordinal int
	handle  int32 // CUdevice
	name    string
	uuid    string
	pci     string
	memory  uint64
	major   int
	minor   int

	mu   sync.Mutex             // protects the two below, over retain and release
	refs int                    // Contexts that hold the primary context
	lost *atomic.Pointer[Error] // shared by them; a new one once all are closed
}

// Devices lists the GPUs that this process may use, in CUDA's order. The
// list is read once: it does not change in the life of a process. Without a
// GPU the error is ErrNoDevice.
func (d *Driver) Devices() ([]*Device, error) {
	if d.unmade() {
		return nil, missing("cuda.Driver.Devices", "driver")
	}
	d.mu.Lock()
	known := d.devices
	d.mu.Unlock()
	if known == nil {
		found, err := d.enumerate()
		if err != nil {
			return nil, err
		}
		d.mu.Lock()
		if d.devices == nil { // another goroutine may have been faster
			d.devices = found
		}
		known = d.devices
		d.mu.Unlock()
	}
	return append([]*Device(nil), known...), nil
}

// Device finds a GPU by its ordinal ("0"), its UUID ("GPU-…", or the start
// of one if only one GPU has it) or its PCI address ("0000:01:00.0").
func (d *Driver) Device(name string) (*Device, error) {
	if d.unmade() {
		return nil, missing("cuda.Driver.Device", "driver")
	}
	devices, err := d.Devices()
	if err != nil {
		return nil, err
	}
	var found []*Device
	for _, v := range devices {
		if v.called(name) {
			found = append(found, v)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	e := refused("cuda.Driver.Device", "there is: "+list(devices), "no GPU has the ordinal, UUID or PCI address %q", name)
	if len(found) > 1 {
		e = refused("cuda.Driver.Device", "give more of it: "+list(found), "more than one GPU has a UUID that starts with %q", name)
	}
	e.Result, e.Name = InvalidDevice, InvalidDevice.String()
	return nil, e
}

// called says whether a user may mean the device by name.
func (v *Device) called(name string) bool {
	name = strings.TrimSpace(name)
	if n, err := strconv.Atoi(name); err == nil {
		return n == v.ordinal
	}
	if len(name) > len("GPU-") && strings.EqualFold(name[:len("GPU-")], "GPU-") {
		return strings.HasPrefix(strings.ToLower(v.uuid), strings.ToLower(name))
	}
	return sysfsAddress(name) == v.pci
}

// sysfsAddress writes a PCI address as sysfs does: lower case, with a domain
// of four digits where that is enough.
func sysfsAddress(a string) string {
	a = strings.ToLower(a)
	switch strings.Count(a, ":") {
	case 1:
		return "0000:" + a
	case 2:
		if domain, rest, _ := strings.Cut(a, ":"); len(domain) == 8 && strings.HasPrefix(domain, "0000") {
			return domain[4:] + ":" + rest
		}
	}
	return a
}

func list(devices []*Device) string {
	names := make([]string, len(devices))
	for i, v := range devices {
		names[i] = fmt.Sprintf("%d (%s, %s, %s)", v.ordinal, v.name, v.uuid, v.pci)
	}
	return strings.Join(names, "; ")
}

// String names the device in errors, as "GPU 0 (NVIDIA H200)".
func (v *Device) String() string {
	if v == nil {
		return "no GPU"
	}
	return fmt.Sprintf("GPU %d (%s)", v.ordinal, v.name)
}

// Ordinal is the device's place in CUDA's order, which changes with the
// environment: identify a GPU by its UUID.
func (v *Device) Ordinal() int { return v.ordinal }

// Name is the product's name.
func (v *Device) Name() string { return v.name }

// UUID is the device's identity, as nvidia-smi prints it: "GPU-" and 32
// digits in five groups.
func (v *Device) UUID() string { return v.uuid }

// PCIAddress is the device's address as sysfs writes it: "0000:01:00.0".
func (v *Device) PCIAddress() string { return v.pci }

// Memory is the size of the device's memory, in bytes.
func (v *Device) Memory() uint64 { return v.memory }

// ComputeCapability is the device's architecture: 9, 0 for sm_90.
func (v *Device) ComputeCapability() (major, minor int) { return v.major, v.minor }

// Retain takes a share of the device's primary context, which it makes if
// nobody holds it. Each Context must be closed.
func (v *Device) Retain() (*Context, error) {
	if v.unmade() {
		return nil, missing("cuda.Device.Retain", "device")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	handle, err := v.retain()
	if err != nil {
		return nil, about(err, "%s", v)
	}
	if v.refs == 0 {
		v.lost = new(atomic.Pointer[Error])
	}
	v.refs++
	return newContext(v, handle, v.lost), nil
}

// unmade says whether there is no device, or one that no driver has found.
func (v *Device) unmade() bool { return v == nil || v.driver == nil }

// release gives one share back.
func (v *Device) release() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refs--
	err := v.driver.call(SymPrimaryCtxRelease, uintptr(v.handle))
	if errors.Is(err, Deinitialized) {
		return nil // the process is ending, and the driver was faster
	}
	return about(err, "%s", v)
}
