package vfio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

const containerNode = "/dev/vfio/vfio"

// GroupOptions changes how [OpenGroup] opens a device.
type GroupOptions struct {
	// NoIOMMU opens a group of the kernel's unsafe no-IOMMU mode. Nothing then limits what memory the device touches, and Map is refused:
	// the device takes physical addresses.
	NoIOMMU bool
}

// OpenGroup opens the function at a PCI address through its IOMMU group. The function must be bound to vfio-pci, and nobody else may have
// a function of the group open.
func OpenGroup(sys System, addr string, o GroupOptions) (*Device, error) {
	group, err := groupOf(sys, addr)
	if err != nil {
		return nil, err
	}
	c := &container{sys: sys, fd: -1, group: -1}
	ranges, err := c.join(group, o)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	// The kernel wants the name with its final zero.
	fd, err := sys.Ioctl(c.group, ReqGroupGetDeviceFD, append([]byte(addr), 0))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("vfio: %s in group %s: %w", addr, group, err), c.close())
	}
	return newDevice(sys, addr, fd, newMappings(sys, c, ranges))
}

// groupOf finds the group's number once everything that can be in the way was looked at.
func groupOf(sys System, addr string) (string, error) {
	if err := Probe(sys, addr); err != nil {
		return "", err
	}
	if err := bound(sys, addr); err != nil {
		return "", err
	}
	link, err := sys.Readlink(sysDevices + addr + "/iommu_group")
	if err != nil {
		return "", &NoIOMMUError{addr}
	}
	return path.Base(link), nil
}

// container is an address space of type 1 with one group in it.
type container struct {
	sys       System
	fd, group int
	noIOMMU   bool
}

// join opens container and group, puts them together and gives the ranges of device addresses that can be mapped; without an IOMMU, none.
func (c *container) join(group string, o GroupOptions) (_ []iovaRange, err error) {
	node, kind := "/dev/vfio/"+group, uintptr(Type1v2)
	if c.noIOMMU = o.NoIOMMU; o.NoIOMMU {
		node, kind = "/dev/vfio/noiommu-"+group, NoIOMMU
	}
	if c.fd, err = open(c.sys, containerNode, func(e error) error { return &ModuleError{containerNode, e} }); err != nil {
		return nil, err
	}
	if v, err := c.sys.IoctlValue(c.fd, ReqGetAPIVersion, 0); err != nil || v != APIVersion {
		return nil, fmt.Errorf("vfio: the kernel's VFIO interface has version %d, want %d (%v)", v, APIVersion, err)
	}
	missing := func(e error) error {
		if !o.NoIOMMU && exists(c.sys, "/dev/vfio/noiommu-"+group) {
			return &NoIOMMUError{"group " + group}
		}
		return &os.PathError{Op: "open", Path: node, Err: e}
	}
	if c.group, err = open(c.sys, node, missing); err != nil {
		return nil, err
	}
	st := GroupStatus{}
	st.Argsz = sizeOf(&st)
	if _, err := c.sys.Ioctl(c.group, ReqGroupStatus, bytesOf(&st)); err != nil {
		return nil, fmt.Errorf("vfio: status of group %s: %w", group, err)
	}
	if st.Flags&GroupViable == 0 {
		return nil, &GroupNotViableError{group, others(c.sys, group)}
	}
	var fd [4]byte
	binary.NativeEndian.PutUint32(fd[:], uint32(c.fd))
	if _, err := c.sys.Ioctl(c.group, ReqGroupSetContainer, fd[:]); err != nil {
		return nil, fmt.Errorf("vfio: group %s into its container: %w", group, err)
	}
	if err := c.setIOMMU(group, kind); err != nil || c.noIOMMU {
		return nil, err
	}
	return c.ranges()
}

func (c *container) setIOMMU(group string, kind uintptr) error {
	_, err := c.sys.IoctlValue(c.fd, ReqSetIOMMU, kind)
	switch {
	case errors.Is(err, unix.EPERM) && !c.noIOMMU:
		return &InterruptRemappingError{group, err}
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.EINVAL):
		return &ModuleError{"the module vfio_iommu_type1", err}
	case err != nil:
		return fmt.Errorf("vfio: IOMMU type %d for group %s: %w", kind, group, err)
	}
	return nil
}

// defaultRange is used when the kernel (before 5.4) names no ranges: above the interrupt window, within 39 bits, which every IOMMU has.
var defaultRange = iovaRange{1 << 32, 1<<39 - 1}

// ranges asks which device addresses can be translated.
func (c *container) ranges() ([]iovaRange, error) {
	head := IOMMUInfo{}
	head.Argsz = sizeOf(&head)
	if _, err := c.sys.Ioctl(c.fd, ReqIOMMUInfo, bytesOf(&head)); err != nil {
		return nil, fmt.Errorf("vfio: IOMMU information: %w", err)
	}
	if head.Flags&IOMMUInfoCaps == 0 || head.Argsz <= sizeOf(&head) || head.Argsz > maxInfoBytes {
		return []iovaRange{defaultRange}, nil
	}
	// The kernel has said how much room the capabilities need.
	b := make([]byte, head.Argsz)
	binary.NativeEndian.PutUint32(b, head.Argsz)
	if _, err := c.sys.Ioctl(c.fd, ReqIOMMUInfo, b); err != nil {
		return nil, fmt.Errorf("vfio: IOMMU information: %w", err)
	}
	r := parseRanges(b)
	if len(r) == 0 {
		return []iovaRange{defaultRange}, nil
	}
	return r, nil
}

// parseRanges finds the IOVA ranges in a chain of capabilities; one that leaves the buffer or runs backwards ends the search.
func parseRanges(b []byte) (out []iovaRange) {
	ne := binary.NativeEndian
	if len(b) < int(sizeOf(&IOMMUInfo{})) {
		return nil
	}
	for at := int(ne.Uint32(b[16:])); at > 0 && at <= len(b)-capHeaderBytes; {
		if ne.Uint16(b[at:]) == CapIOVARange && at <= len(b)-capRangesAt {
			n := int(ne.Uint32(b[at+capHeaderBytes:]))
			for p := at + capRangesAt; n > 0 && p <= len(b)-rangeBytes; n, p = n-1, p+rangeBytes {
				out = append(out, iovaRange{ne.Uint64(b[p:]), ne.Uint64(b[p+8:])})
			}
			return out
		}
		next := int(ne.Uint32(b[at+4:]))
		if next <= at {
			return nil
		}
		at = next
	}
	return nil
}

func (c *container) mapAt(b []byte, iova uint64) error {
	m := DMAMap{Flags: MapRead | MapWrite, Vaddr: address(b), IOVA: iova, Size: uint64(len(b))}
	m.Argsz = sizeOf(&m)
	_, err := c.sys.Ioctl(c.fd, ReqMapDMA, bytesOf(&m))
	return err
}

func (c *container) unmapAt(iova, size uint64) (uint64, error) {
	u := DMAUnmap{IOVA: iova, Size: size}
	u.Argsz = sizeOf(&u)
	_, err := c.sys.Ioctl(c.fd, ReqUnmapDMA, bytesOf(&u))
	return u.Size, err
}

func (c *container) close() error {
	var errs []error
	for _, fd := range []*int{&c.group, &c.fd} {
		if *fd >= 0 {
			errs = append(errs, c.sys.Close(*fd))
			*fd = -1
		}
	}
	return errors.Join(errs...)
}
