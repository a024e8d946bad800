package vfio

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

const iommuNode = "/dev/iommu"

// OpenCdev opens the function at a PCI address through its own character device and an iommufd. The function must be bound to vfio-pci.
// Unlike with groups, several processes may each open a function of one group only when they share the iommufd; this one is private.
func OpenCdev(sys System, addr string) (*Device, error) {
	group, err := groupOf(sys, addr)
	if err != nil {
		return nil, err
	}
	node, err := cdevNode(sys, addr)
	if err != nil {
		return nil, err
	}
	s := &ioas{sys: sys}
	if s.fd, err = open(sys, iommuNode, func(e error) error { return &NoIOMMUFDError{iommuNode, e} }); err != nil {
		return nil, err
	}
	fd, err := open(sys, node, func(e error) error { return &NoIOMMUFDError{node, e} })
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	err = s.attach(fd, addr, group)
	var ranges []iovaRange
	if err == nil {
		ranges, err = s.ranges()
	}
	if err != nil {
		return nil, errors.Join(err, sys.Close(fd), s.close())
	}
	return newDevice(sys, addr, fd, newMappings(sys, s, ranges))
}

// cdevNode finds the character device that the kernel made for the function.
func cdevNode(sys System, addr string) (string, error) {
	dir := sysDevices + addr + "/vfio-dev"
	names, err := sys.ReadDir(dir)
	if err != nil {
		return "", &NoIOMMUFDError{dir, err}
	}
	for _, n := range names {
		if strings.HasPrefix(n, "vfio") {
			return "/dev/vfio/devices/" + n, nil
		}
	}
	return "", &NoIOMMUFDError{dir + "/vfioN", os.ErrNotExist}
}

// ioas is an I/O address space of an iommufd.
type ioas struct {
	sys System
	fd  int
	id  uint32
}

// attach binds the device to the iommufd and gives it a new address space.
func (s *ioas) attach(device int, addr, group string) error {
	b := BindIOMMUFD{FD: int32(s.fd)}
	b.Argsz = sizeOf(&b)
	switch _, err := s.sys.Ioctl(device, ReqBindIOMMUFD, bytesOf(&b)); {
	case errors.Is(err, unix.EPERM):
		return &InterruptRemappingError{group, err}
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EINVAL):
		// Another process has the function open (which gives EINVAL) or another one of the group, or a driver of the kernel has.
		if o := others(s.sys, group); len(o) > 0 {
			return &GroupNotViableError{group, o}
		}
		return &BusyError{addr, err}
	case errors.Is(err, unix.ENOTTY):
		return &NoIOMMUFDError{"VFIO_DEVICE_BIND_IOMMUFD", err}
	case err != nil:
		return fmt.Errorf("vfio: binding %s to the iommufd: %w", addr, err)
	}
	a := IOASAlloc{}
	a.Size = sizeOf(&a)
	if _, err := s.sys.Ioctl(s.fd, ReqIOASAlloc, bytesOf(&a)); err != nil {
		return fmt.Errorf("vfio: I/O address space: %w", err)
	}
	s.id = a.OutID
	p := AttachIOAS{ID: s.id}
	p.Argsz = sizeOf(&p)
	if _, err := s.sys.Ioctl(device, ReqAttachIOAS, bytesOf(&p)); err != nil {
		return fmt.Errorf("vfio: attaching %s to its I/O address space: %w", addr, err)
	}
	return nil
}

// ranges asks which device addresses can be mapped: first how many ranges there are, then for them.
func (s *ioas) ranges() ([]iovaRange, error) {
	q := IOASRanges{ID: s.id}
	q.Size = sizeOf(&q)
	_, err := s.sys.Ioctl(s.fd, ReqIOASRanges, bytesOf(&q))
	if err != nil && !errors.Is(err, unix.EMSGSIZE) || q.Count > maxRanges {
		return nil, fmt.Errorf("vfio: ranges of the I/O address space: %d, %w", q.Count, err)
	}
	// Its length is not known to the compiler, so the array is on the heap, where it does not move.
	out := make([]iovaRange, q.Count)
	q.Allowed = rangesAddress(out)
	_, err = s.sys.Ioctl(s.fd, ReqIOASRanges, bytesOf(&q))
	runtime.KeepAlive(out)
	if err != nil {
		return nil, fmt.Errorf("vfio: ranges of the I/O address space: %w", err)
	}
	return out[:min(int(q.Count), len(out))], nil
}

func (s *ioas) mapAt(b []byte, iova uint64) error {
	m := IOASMap{Flags: IOASFixedIOVA | IOASReadable | IOASWriteable, ID: s.id, UserVA: address(b), Length: uint64(len(b)), IOVA: iova}
	m.Size = sizeOf(&m)
	_, err := s.sys.Ioctl(s.fd, ReqIOASMap, bytesOf(&m))
	return err
}

func (s *ioas) unmapAt(iova, size uint64) (uint64, error) {
	u := IOASUnmap{ID: s.id, IOVA: iova, Length: size}
	u.Size = sizeOf(&u)
	_, err := s.sys.Ioctl(s.fd, ReqIOASUnmap, bytesOf(&u))
	return u.Length, err
}

// close runs after the device's descriptor was closed, which detached it: the address space and its mappings go with the iommufd.
func (s *ioas) close() error {
	if s.fd < 0 {
		return nil
	}
	fd := s.fd
	s.fd = -1
	return s.sys.Close(fd)
}
