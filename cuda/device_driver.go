package cuda

// Driver is the driver that the device belongs to.
func (v *Device) Driver() *Driver { return v.driver }
