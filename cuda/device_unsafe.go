package cuda

import (
	"bytes"
	"fmt"
	"unsafe"
)

// readDevice asks for everything about a device that does not change.
func (d *Driver) readDevice(ordinal int) (*Device, error) {
	v := &Device{driver: d, ordinal: ordinal}
	err := d.call(SymDeviceGet, uintptr(unsafe.Pointer(&v.handle)), uintptr(ordinal))
	if err != nil {
		return nil, err
	}
	var text [256]byte
	err = d.call(SymDeviceGetName, uintptr(unsafe.Pointer(&text)), uintptr(len(text)), uintptr(v.handle))
	if err != nil {
		return nil, err
	}
	v.name = untilNUL(text[:])
	var id [16]byte
	if err = d.call(SymDeviceGetUUID, uintptr(unsafe.Pointer(&id)), uintptr(v.handle)); err != nil {
		return nil, err
	}
	v.uuid = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	clear(text[:])
	err = d.call(SymDeviceGetPCIBusID, uintptr(unsafe.Pointer(&text)), uintptr(len(text)), uintptr(v.handle))
	if err != nil {
		return nil, err
	}
	v.pci = sysfsAddress(untilNUL(text[:]))
	if err = d.call(SymDeviceTotalMem, uintptr(unsafe.Pointer(&v.memory)), uintptr(v.handle)); err != nil {
		return nil, err
	}
	if v.major, err = v.Attribute(ComputeCapabilityMajor); err != nil {
		return nil, err
	}
	v.minor, err = v.Attribute(ComputeCapabilityMinor)
	return v, err
}

// untilNUL is the text in a buffer that the driver filled.
func untilNUL(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// Attribute reads one of the device's attributes. An attribute that the
// driver is too old to know is InvalidValue.
func (v *Device) Attribute(a Attribute) (int, error) {
	if v.unmade() {
		return 0, missing("cuda.Device.Attribute", "device")
	}
	var n int32
	err := v.driver.call(SymDeviceGetAttribute, uintptr(unsafe.Pointer(&n)), uintptr(a), uintptr(v.handle))
	if err != nil {
		return 0, about(err, "attribute %d of %s", int(a), v)
	}
	return int(n), nil
}

// CanAccessPeer says whether kernels on the device can use the other one's
// memory, once Context.EnablePeer allows it.
func (v *Device) CanAccessPeer(other *Device) (bool, error) {
	if v.unmade() || other.unmade() {
		return false, missing("cuda.Device.CanAccessPeer", "device")
	}
	var can int32
	err := v.driver.call(SymDeviceCanAccessPeer, uintptr(unsafe.Pointer(&can)), uintptr(v.handle), uintptr(other.handle))
	if err != nil {
		return false, about(err, "%s to %s", v, other)
	}
	return can != 0, nil
}

// Active says whether some part of the process holds the primary context.
func (v *Device) Active() (bool, error) {
	if v.unmade() {
		return false, missing("cuda.Device.Active", "device")
	}
	var flags uint32
	var active int32
	err := v.driver.call(SymPrimaryCtxGetState, uintptr(v.handle),
		uintptr(unsafe.Pointer(&flags)), uintptr(unsafe.Pointer(&active)))
	if err != nil {
		return false, about(err, "%s", v)
	}
	return active != 0, nil
}

func (d *Driver) enumerate() ([]*Device, error) {
	var n int32
	if err := d.call(SymDeviceGetCount, uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, d.newError(SymDeviceGetCount, NoDevice)
	}
	devices := make([]*Device, 0, n)
	for i := range int(n) {
		v, err := d.readDevice(i)
		if err != nil {
			return nil, about(err, "GPU %d", i)
		}
		devices = append(devices, v)
	}
	return devices, nil
}

// retain takes a share of the primary context; v.mu is held.
func (v *Device) retain() (handle uintptr, err error) {
	err = v.driver.call(SymPrimaryCtxRetain, uintptr(unsafe.Pointer(&handle)), uintptr(v.handle))
	return handle, err
}
