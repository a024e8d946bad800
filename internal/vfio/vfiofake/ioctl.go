package vfiofake

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/internal/vfio"
)

var ne = binary.NativeEndian

// names of requests for Calls.
var names = map[uint32]string{
	vfio.ReqGetAPIVersion: "version", vfio.ReqSetIOMMU: "set iommu", vfio.ReqGroupStatus: "status", vfio.ReqGroupSetContainer: "set container",
	vfio.ReqGroupGetDeviceFD: "device", vfio.ReqDeviceInfo: "info", vfio.ReqRegionInfo: "region", vfio.ReqSetIRQs: "irqs",
	vfio.ReqDeviceReset: "reset", vfio.ReqIOMMUInfo: "iommu info", vfio.ReqMapDMA: "map", vfio.ReqUnmapDMA: "unmap",
	vfio.ReqBindIOMMUFD: "bind", vfio.ReqAttachIOAS: "attach", vfio.ReqIOASAlloc: "ioas", vfio.ReqIOASRanges: "ranges",
	vfio.ReqIOASMap: "map", vfio.ReqIOASUnmap: "unmap",
}

// sizes that the kernel demands in the structures' first field.
var sizes = map[uint32]int{
	vfio.ReqGroupStatus: 8, vfio.ReqDeviceInfo: 24, vfio.ReqRegionInfo: 32, vfio.ReqSetIRQs: 24, vfio.ReqMapDMA: 32, vfio.ReqUnmapDMA: 24,
	vfio.ReqBindIOMMUFD: 16, vfio.ReqAttachIOAS: 12, vfio.ReqIOASAlloc: 12, vfio.ReqIOASRanges: 32, vfio.ReqIOASMap: 40, vfio.ReqIOASUnmap: 24,
}

// enter does what all requests have in common.
func (k *Kernel) enter(fd int, request uint32) (*file, error) {
	f := k.files[fd]
	if f == nil {
		return nil, unix.EBADF
	}
	n, ok := names[request]
	if !ok {
		return nil, unix.ENOTTY
	}
	k.Calls = append(k.Calls, n)
	return f, k.Fail[request]
}

// IoctlValue takes the requests whose argument is a number.
func (k *Kernel) IoctlValue(fd int, request uint32, value uintptr) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f, err := k.enter(fd, request)
	if err != nil {
		return -1, err
	}
	switch {
	case request == vfio.ReqGetAPIVersion && f.kind == "container":
		return vfio.APIVersion, nil
	case request == vfio.ReqSetIOMMU && f.kind == "container":
		if !f.group || f.iommu || value != vfio.Type1v2 && value != vfio.NoIOMMU {
			return -1, unix.EINVAL
		}
		f.iommu, f.noIOMMU = true, value == vfio.NoIOMMU
		return 0, nil
	case request == vfio.ReqDeviceReset && k.usable(f):
		k.resets++
		return 0, nil
	}
	return -1, unix.ENOTTY
}

// Ioctl takes the requests with a structure.
func (k *Kernel) Ioctl(fd int, request uint32, arg []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f, err := k.enter(fd, request)
	if err != nil {
		return -1, err
	}
	if n, ok := sizes[request]; ok && (len(arg) != n || ne.Uint32(arg) != uint32(n)) {
		return -1, unix.EINVAL
	}
	switch f.kind {
	case "container":
		return k.container(f, request, arg)
	case "group":
		return k.group(f, request, arg)
	case "iommufd":
		return k.iommufd(request, arg)
	case "device", "cdev":
		return k.device(f, request, arg)
	}
	return -1, unix.ENOTTY
}

func (k *Kernel) container(f *file, request uint32, arg []byte) (int, error) {
	if !f.iommu || f.noIOMMU {
		return -1, unix.EINVAL
	}
	switch request {
	case vfio.ReqIOMMUInfo:
		return 0, k.iommuInfo(arg)
	case vfio.ReqMapDMA:
		if ne.Uint32(arg[4:]) != vfio.MapRead|vfio.MapWrite {
			return -1, unix.EINVAL
		}
		return 0, k.mapMemory(ne.Uint64(arg[8:]), ne.Uint64(arg[16:]), ne.Uint64(arg[24:]))
	case vfio.ReqUnmapDMA:
		return 0, k.unmapMemory(ne.Uint64(arg[8:]), ne.Uint64(arg[16:]))
	}
	return -1, unix.ENOTTY
}

// iommuInfo writes the structure, and the chain of capabilities when there is room, as the kernel does: first one that is not asked for.
func (k *Kernel) iommuInfo(arg []byte) error {
	const other, ranges = 24, 40
	need := ranges + 16 + 16*len(k.Ranges)
	if len(arg) < 24 || int(ne.Uint32(arg)) != len(arg) {
		return unix.EINVAL
	}
	ne.PutUint32(arg[4:], 1|vfio.IOMMUInfoCaps)
	ne.PutUint64(arg[8:], 0x40201000)
	if len(arg) < need {
		ne.PutUint32(arg, uint32(need))
		return nil
	}
	ne.PutUint32(arg[16:], other)
	ne.PutUint16(arg[other:], 3)
	ne.PutUint32(arg[other+4:], ranges)
	ne.PutUint16(arg[ranges:], vfio.CapIOVARange)
	ne.PutUint32(arg[ranges+8:], uint32(len(k.Ranges)))
	for i, r := range k.Ranges {
		ne.PutUint64(arg[ranges+16+16*i:], r[0])
		ne.PutUint64(arg[ranges+24+16*i:], r[1])
	}
	return nil
}

func (k *Kernel) group(f *file, request uint32, arg []byte) (int, error) {
	switch request {
	case vfio.ReqGroupStatus:
		ne.PutUint32(arg[4:], 0)
		if k.Viable {
			ne.PutUint32(arg[4:], vfio.GroupViable)
		}
		return 0, nil
	case vfio.ReqGroupSetContainer:
		c := k.files[int(int32(ne.Uint32(arg)))]
		if len(arg) != 4 || c == nil || c.kind != "container" {
			return -1, unix.EBADF
		}
		if !k.Viable {
			return -1, unix.EPERM
		}
		c.group, f.container = true, c
		return 0, nil
	case vfio.ReqGroupGetDeviceFD:
		if f.container == nil || !f.container.iommu {
			return -1, unix.EINVAL
		}
		if string(arg) != Address+"\x00" {
			return -1, unix.ENODEV
		}
		return k.add(&file{kind: "device"}), nil
	}
	return -1, unix.ENOTTY
}

func (k *Kernel) iommufd(request uint32, arg []byte) (int, error) {
	switch request {
	case vfio.ReqIOASAlloc:
		ne.PutUint32(arg[8:], 77)
		return 0, nil
	case vfio.ReqIOASRanges:
		room := int(ne.Uint32(arg[8:]))
		ne.PutUint32(arg[8:], uint32(len(k.Ranges)))
		if ne.Uint32(arg[4:]) != 77 {
			return -1, unix.ENOENT
		}
		if room < len(k.Ranges) {
			return -1, unix.EMSGSIZE
		}
		out := memoryAt(ne.Uint64(arg[16:]), uint64(16*len(k.Ranges)))
		for i, r := range k.Ranges {
			ne.PutUint64(out[16*i:], r[0])
			ne.PutUint64(out[16*i+8:], r[1])
		}
		return 0, nil
	case vfio.ReqIOASMap:
		if ne.Uint32(arg[8:]) != 77 || ne.Uint32(arg[4:]) != vfio.IOASFixedIOVA|vfio.IOASReadable|vfio.IOASWriteable {
			return -1, unix.EINVAL
		}
		return 0, k.mapMemory(ne.Uint64(arg[16:]), ne.Uint64(arg[32:]), ne.Uint64(arg[24:]))
	case vfio.ReqIOASUnmap:
		if ne.Uint32(arg[4:]) != 77 {
			return -1, unix.ENOENT
		}
		return 0, k.unmapMemory(ne.Uint64(arg[8:]), ne.Uint64(arg[16:]))
	}
	return -1, unix.ENOTTY
}

// mapMemory checks alignment, the ranges, overlap and the limit of locked memory.
func (k *Kernel) mapMemory(vaddr, iova, size uint64) error {
	if size == 0 || (vaddr|iova|size)&4095 != 0 {
		return unix.EINVAL
	}
	inside := false
	for _, r := range k.Ranges {
		inside = inside || iova >= r[0] && iova+size-1 <= r[1]
	}
	if !inside {
		return unix.EINVAL
	}
	locked := size
	for at, b := range k.dma {
		if iova < at+uint64(len(b)) && at < iova+size {
			return unix.EEXIST
		}
		locked += uint64(len(b))
	}
	if locked > k.Limit {
		return unix.ENOMEM
	}
	k.dma[iova] = memoryAt(vaddr, size)
	return nil
}

func (k *Kernel) unmapMemory(iova, size uint64) error {
	if b, ok := k.dma[iova]; !ok || uint64(len(b)) != size {
		return fmt.Errorf("nothing of this size there: %w", unix.ENOENT)
	}
	delete(k.dma, iova)
	return nil
}

func (k *Kernel) device(f *file, request uint32, arg []byte) (int, error) {
	switch request {
	case vfio.ReqBindIOMMUFD:
		if c := k.files[int(int32(ne.Uint32(arg[8:])))]; f.kind != "cdev" || f.bound || c == nil || c.kind != "iommufd" {
			return -1, unix.EINVAL
		}
		for _, o := range k.files {
			if o.bound || k.mapped > 0 {
				return -1, unix.EINVAL
			}
			if o.kind == "group" {
				return -1, unix.EBUSY
			}
		}
		f.bound = true
		return 0, nil
	case vfio.ReqAttachIOAS:
		if !f.bound || ne.Uint32(arg[8:]) != 77 {
			return -1, unix.EINVAL
		}
		f.ioas = 77
		return 0, nil
	}
	if !k.usable(f) {
		return -1, unix.EINVAL
	}
	switch request {
	case vfio.ReqDeviceInfo:
		ne.PutUint32(arg[4:], k.Flags)
		ne.PutUint32(arg[8:], 9)
		return 0, nil
	case vfio.ReqRegionInfo:
		i := ne.Uint32(arg[8:])
		ne.PutUint32(arg[4:], 3)
		size := uint64(0)
		switch i {
		case 0, 2:
			ne.PutUint32(arg[4:], 3|vfio.RegionCanMmap)
			size = barBytes
		case vfio.RegionConfig:
			size = uint64(len(k.config))
		}
		ne.PutUint64(arg[16:], size)
		ne.PutUint64(arg[24:], uint64(i)<<40)
		return 0, nil
	case vfio.ReqSetIRQs:
		e := int(int32(ne.Uint32(arg[20:])))
		if ne.Uint32(arg[4:]) != vfio.IRQSetEventfd || ne.Uint32(arg[8:]) != vfio.IRQRequest || ne.Uint32(arg[16:]) != 1 || k.files[e] == nil {
			return -1, unix.EINVAL
		}
		f.eventfd = e
		return 0, nil
	}
	return -1, unix.ENOTTY
}
