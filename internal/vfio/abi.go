package vfio

// Requests, structures and flags of linux/vfio.h and linux/iommufd.h. Both use the ioctl type ';' without encoded sizes: _IO(';', nr).
const (
	ReqGetAPIVersion     = 0x3b64
	ReqSetIOMMU          = 0x3b66
	ReqGroupStatus       = 0x3b67
	ReqGroupSetContainer = 0x3b68
	ReqGroupGetDeviceFD  = 0x3b6a
	ReqDeviceInfo        = 0x3b6b
	ReqRegionInfo        = 0x3b6c
	ReqSetIRQs           = 0x3b6e
	ReqDeviceReset       = 0x3b6f
	ReqIOMMUInfo         = 0x3b70
	ReqMapDMA            = 0x3b71
	ReqUnmapDMA          = 0x3b72
	ReqBindIOMMUFD       = 0x3b76
	ReqAttachIOAS        = 0x3b77

	ReqIOASAlloc  = 0x3b81
	ReqIOASRanges = 0x3b84
	ReqIOASMap    = 0x3b85
	ReqIOASUnmap  = 0x3b86
)

// Values of those interfaces.
const (
	APIVersion = 0

	Type1v2 = 3 // IOMMU type: mappings are unmapped as they were mapped
	NoIOMMU = 8 // IOMMU type: none at all

	GroupViable = 1 << 0 // flag of GroupStatus

	DeviceCanReset = 1 << 0 // flags of DeviceInfo
	DeviceIsPCI    = 1 << 1

	RegionConfig  = 7 // index of the configuration space; 0 to 5 are the BARs
	RegionCanMmap = 1 << 2

	IRQRequest     = 4               // interrupt index by which the kernel asks for the device back
	IRQSetEventfd  = 1<<2 | 1<<5     // data is an eventfd, action is trigger
	MapRead        = 1 << 0          // flags of DMAMap
	MapWrite       = 1 << 1          //
	IOASFixedIOVA  = 1 << 0          // flags of IOASMap
	IOASWriteable  = 1 << 1          //
	IOASReadable   = 1 << 2          //
	IOMMUInfoCaps  = 1 << 1          // flag of IOMMUInfo: a chain of capabilities follows
	CapIOVARange   = 1               // capability: ranges of usable IOVAs
	capHeaderBytes = 8               // u16 id, u16 version, u32 offset of the next
	capRangesAt    = 16              // after the header: u32 count, u32 reserved, then the ranges
	rangeBytes     = 16              // u64 first, u64 last
	maxInfoBytes   = 1 << 20         // bound on a capability chain
	maxRanges      = 1 << 16         // bound on the ranges of an I/O address space
	iovaPage       = uint64(1) << 12 // unit of every mapping
)

// GroupStatus is struct vfio_group_status.
type GroupStatus struct{ Argsz, Flags uint32 }

// DeviceInfo is struct vfio_device_info.
type DeviceInfo struct{ Argsz, Flags, NumRegions, NumIRQs, CapOffset, Pad uint32 }

// RegionInfo is struct vfio_region_info.
type RegionInfo struct {
	Argsz, Flags, Index, CapOffset uint32
	Size, Offset                   uint64
}

// IRQSet is struct vfio_irq_set with one eventfd as its data.
type IRQSet struct {
	Argsz, Flags, Index, Start, Count uint32
	FD                                int32
}

// IOMMUInfo is struct vfio_iommu_type1_info.
type IOMMUInfo struct {
	Argsz, Flags   uint32
	PageSizes      uint64
	CapOffset, Pad uint32
}

// DMAMap is struct vfio_iommu_type1_dma_map.
type DMAMap struct {
	Argsz, Flags      uint32
	Vaddr, IOVA, Size uint64
}

// DMAUnmap is struct vfio_iommu_type1_dma_unmap.
type DMAUnmap struct {
	Argsz, Flags uint32
	IOVA, Size   uint64
}

// BindIOMMUFD is struct vfio_device_bind_iommufd.
type BindIOMMUFD struct {
	Argsz, Flags uint32
	FD           int32
	OutDeviceID  uint32
}

// AttachIOAS is struct vfio_device_attach_iommufd_pt.
type AttachIOAS struct{ Argsz, Flags, ID uint32 }

// IOASAlloc is struct iommu_ioas_alloc.
type IOASAlloc struct{ Size, Flags, OutID uint32 }

// IOASRanges is struct iommu_ioas_iova_ranges; Allowed is the address of Count pairs of first and last.
type IOASRanges struct {
	Size, ID, Count, Reserved uint32
	Allowed, Alignment        uint64
}

// IOASMap is struct iommu_ioas_map.
type IOASMap struct {
	Size, Flags, ID, Reserved uint32
	UserVA, Length, IOVA      uint64
}

// IOASUnmap is struct iommu_ioas_unmap.
type IOASUnmap struct {
	Size, ID     uint32
	IOVA, Length uint64
}
