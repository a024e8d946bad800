package vfio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Device is an opened PCI function. Its methods may be called from several goroutines at once; Close comes last.
type Device struct {
	sys   System
	addr  string
	fd    int
	space *mappings
	info  DeviceInfo

	mu      sync.Mutex // guards the fields below
	regions [][]byte   // mapped registers: each keeps the device open
	request int        // eventfd by which the kernel asks for the device back, or -1
}

// newDevice takes over fd and space; on an error it closes both.
func newDevice(sys System, addr string, fd int, s *mappings) (*Device, error) {
	d := &Device{sys: sys, addr: addr, fd: fd, space: s, request: -1}
	d.info.Argsz = sizeOf(&d.info)
	_, err := sys.Ioctl(fd, ReqDeviceInfo, bytesOf(&d.info))
	if err == nil && d.info.Flags&DeviceIsPCI == 0 {
		err = errors.New("not a PCI function")
	}
	if err == nil {
		err = d.command(commandMemory|commandBusMaster, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("vfio: %s: %w", addr, err), d.Close())
	}
	d.watchRequest()
	return d, nil
}

// Address is the function's PCI address.
func (d *Device) Address() string { return d.addr }

func (d *Device) region(index int) (RegionInfo, error) {
	r := RegionInfo{Index: uint32(index)}
	r.Argsz = sizeOf(&r)
	if _, err := d.sys.Ioctl(d.fd, ReqRegionInfo, bytesOf(&r)); err != nil {
		return r, fmt.Errorf("vfio: %s: region %d: %w", d.addr, index, err)
	}
	return r, nil
}

// mappable is a region that can be mapped.
func (d *Device) mappable(index int) (RegionInfo, error) {
	r, err := d.region(index)
	if err == nil && (r.Size == 0 || r.Flags&RegionCanMmap == 0) {
		err = fmt.Errorf("vfio: %s: region %d of %d bytes cannot be mapped (flags %#x)", d.addr, index, r.Size, r.Flags)
	}
	return r, err
}

// MapRegion maps a BAR whole; the mapping lives until Close.
func (d *Device) MapRegion(index int) ([]byte, error) {
	r, err := d.mappable(index)
	if err != nil {
		return nil, err
	}
	b, err := d.sys.Mmap(d.fd, int64(r.Offset), int(r.Size))
	if err != nil {
		return nil, fmt.Errorf("vfio: %s: mapping region %d of %d bytes: %w", d.addr, index, r.Size, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.regions = append(d.regions, b)
	return b, nil
}

// ShareRegion gives another descriptor of the device, which the caller closes, and where in it a BAR of so many bytes lies, for another
// process that maps it. That process's descriptor and mapping keep the device open.
func (d *Device) ShareRegion(index int) (fd int, offset int64, bytes int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fd < 0 {
		return -1, 0, 0, fmt.Errorf("vfio: %s: %w", d.addr, os.ErrClosed)
	}
	r, err := d.mappable(index)
	if err != nil {
		return -1, 0, 0, err
	}
	if fd, err = d.sys.Dup(d.fd); err != nil {
		return -1, 0, 0, fmt.Errorf("vfio: %s: another descriptor: %w", d.addr, err)
	}
	return fd, int64(r.Offset), int(r.Size), nil
}

// Bits of the PCI command register.
const (
	commandOffset    = 4
	commandMemory    = 1 << 1
	commandBusMaster = 1 << 2
)

// command sets and clears bits of the PCI command register.
func (d *Device) command(set, clear uint16) error {
	r, err := d.region(RegionConfig)
	if err != nil {
		return err
	}
	var b [2]byte
	at := int64(r.Offset) + commandOffset
	if n, err := d.sys.Pread(d.fd, b[:], at); err != nil || n != len(b) {
		return fmt.Errorf("vfio: %s: reading the PCI command register: %d bytes, %w", d.addr, n, err)
	}
	v := binary.LittleEndian.Uint16(b[:])
	binary.LittleEndian.PutUint16(b[:], v&^clear|set)
	if n, err := d.sys.Pwrite(d.fd, b[:], at); err != nil || n != len(b) {
		return fmt.Errorf("vfio: %s: writing the PCI command register: %d bytes, %w", d.addr, n, err)
	}
	return nil
}

// Map lets the device read and write b, whose address and length must be multiples of 4 KiB and which must stay where it is until Unmap.
// The kernel locks the memory.
func (d *Device) Map(b []byte) (iova uint64, err error) {
	if len(b) == 0 || uint64(len(b))%iovaPage != 0 || address(b)%iovaPage != 0 {
		return 0, &MapError{Bytes: uint64(len(b)), Err: errors.New("address and length must be multiples of 4096"), Remedy: "use memory that the transport allocated"}
	}
	return d.space.add(b)
}

// Unmap ends the device's access to what Map mapped, whole.
func (d *Device) Unmap(iova uint64, size int) error { return d.space.remove(iova, uint64(size), false) }

// Revoke ends the device's access as Unmap does but keeps the address from being used again until Unmap: for memory of a command that the
// device may still be working on.
func (d *Device) Revoke(iova uint64, size int) error { return d.space.remove(iova, uint64(size), true) }

// Reset resets the function; its registers and all its queues are as after power-on.
func (d *Device) Reset() error {
	if d.info.Flags&DeviceCanReset == 0 {
		return fmt.Errorf("vfio: %s cannot be reset on its own", d.addr)
	}
	if _, err := d.sys.IoctlValue(d.fd, ReqDeviceReset, 0); err != nil {
		return fmt.Errorf("vfio: reset of %s: %w", d.addr, err)
	}
	return nil
}

// watchRequest registers an eventfd by which the kernel asks for the device back. A kernel that cannot is no reason to fail: it then
// waits, silently, until the device is closed.
func (d *Device) watchRequest() {
	fd, err := d.sys.Eventfd()
	if err != nil {
		return
	}
	s := IRQSet{Flags: IRQSetEventfd, Index: IRQRequest, Count: 1, FD: int32(fd)}
	s.Argsz = sizeOf(&s)
	if _, err := d.sys.Ioctl(d.fd, ReqSetIRQs, bytesOf(&s)); err != nil {
		d.sys.Close(fd)
		return
	}
	d.request = fd
}

// RemovalRequested reports whether the kernel has asked for the device back since the last call: it is to be unplugged or unbound, which
// waits until Close. The kernel asks again every few seconds.
func (d *Device) RemovalRequested() (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.request < 0 {
		return false, nil
	}
	var b [8]byte
	switch n, err := d.sys.Read(d.request, b[:]); {
	case errors.Is(err, unix.EAGAIN):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("vfio: %s: removal request: %w", d.addr, err)
	default:
		return n == len(b) && binary.LittleEndian.Uint64(b[:]) > 0, nil
	}
}

// Close ends the device's access to memory, unmaps its registers and gives it back. A second Close does nothing.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fd < 0 {
		return nil
	}
	// A function that is gone cannot be told anything; closing it is what counts.
	_ = d.command(0, commandBusMaster)
	var errs []error
	for _, b := range d.regions {
		errs = append(errs, d.sys.Munmap(b))
	}
	d.regions = nil
	if d.request >= 0 {
		errs = append(errs, d.sys.Close(d.request))
		d.request = -1
	}
	errs = append(errs, d.sys.Close(d.fd), d.space.close())
	d.fd = -1
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("vfio: closing %s: %w", d.addr, err)
	}
	return nil
}
