package vfio

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"
)

// layout is a number of the kernel's interface: what Go has, the C expression for it, and its value on amd64 and arm64.
type layout struct {
	c     string
	value uint64
	want  uint64
}

func vfioLayouts() []layout {
	var (
		gs GroupStatus
		di DeviceInfo
		ri RegionInfo
		is IRQSet
		ii IOMMUInfo
		dm DMAMap
		du DMAUnmap
	)
	size := func(name string, n uintptr, want uint64) layout {
		return layout{"sizeof(struct " + name + ")", uint64(n), want}
	}
	at := func(name, field string, n uintptr, want uint64) layout {
		return layout{"offsetof(struct " + name + ", " + field + ")", uint64(n), want}
	}
	return []layout{
		{"VFIO_GET_API_VERSION", ReqGetAPIVersion, 0x3b64}, {"VFIO_SET_IOMMU", ReqSetIOMMU, 0x3b66},
		{"VFIO_GROUP_GET_STATUS", ReqGroupStatus, 0x3b67}, {"VFIO_GROUP_SET_CONTAINER", ReqGroupSetContainer, 0x3b68},
		{"VFIO_GROUP_GET_DEVICE_FD", ReqGroupGetDeviceFD, 0x3b6a}, {"VFIO_DEVICE_GET_INFO", ReqDeviceInfo, 0x3b6b},
		{"VFIO_DEVICE_GET_REGION_INFO", ReqRegionInfo, 0x3b6c}, {"VFIO_DEVICE_SET_IRQS", ReqSetIRQs, 0x3b6e},
		{"VFIO_DEVICE_RESET", ReqDeviceReset, 0x3b6f}, {"VFIO_IOMMU_GET_INFO", ReqIOMMUInfo, 0x3b70},
		{"VFIO_IOMMU_MAP_DMA", ReqMapDMA, 0x3b71}, {"VFIO_IOMMU_UNMAP_DMA", ReqUnmapDMA, 0x3b72},
		{"VFIO_API_VERSION", APIVersion, 0}, {"VFIO_TYPE1v2_IOMMU", Type1v2, 3}, {"VFIO_NOIOMMU_IOMMU", NoIOMMU, 8},
		{"VFIO_GROUP_FLAGS_VIABLE", GroupViable, 1}, {"VFIO_DEVICE_FLAGS_RESET", DeviceCanReset, 1}, {"VFIO_DEVICE_FLAGS_PCI", DeviceIsPCI, 2},
		{"VFIO_PCI_CONFIG_REGION_INDEX", RegionConfig, 7}, {"VFIO_REGION_INFO_FLAG_MMAP", RegionCanMmap, 4},
		{"VFIO_PCI_REQ_IRQ_INDEX", IRQRequest, 4}, {"(VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER)", IRQSetEventfd, 0x24},
		{"VFIO_DMA_MAP_FLAG_READ", MapRead, 1}, {"VFIO_DMA_MAP_FLAG_WRITE", MapWrite, 2},
		{"VFIO_IOMMU_INFO_CAPS", IOMMUInfoCaps, 2}, {"VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE", CapIOVARange, 1},
		size("vfio_info_cap_header", capHeaderBytes, 8), at("vfio_info_cap_header", "next", 4, 4),
		at("vfio_iommu_type1_info_cap_iova_range", "nr_iovas", capHeaderBytes, 8),
		at("vfio_iommu_type1_info_cap_iova_range", "iova_ranges", capRangesAt, 16),
		size("vfio_iova_range", rangeBytes, 16), at("vfio_iova_range", "end", unsafe.Offsetof(iovaRange{}.last), 8),
		size("vfio_group_status", unsafe.Sizeof(gs), 8), at("vfio_group_status", "flags", unsafe.Offsetof(gs.Flags), 4),
		at("vfio_device_info", "flags", unsafe.Offsetof(di.Flags), 4), at("vfio_device_info", "num_irqs", unsafe.Offsetof(di.NumIRQs), 12),
		size("vfio_region_info", unsafe.Sizeof(ri), 32), at("vfio_region_info", "index", unsafe.Offsetof(ri.Index), 8),
		at("vfio_region_info", "size", unsafe.Offsetof(ri.Size), 16), at("vfio_region_info", "offset", unsafe.Offsetof(ri.Offset), 24),
		at("vfio_irq_set", "index", unsafe.Offsetof(is.Index), 8), at("vfio_irq_set", "count", unsafe.Offsetof(is.Count), 16),
		at("vfio_irq_set", "data", unsafe.Offsetof(is.FD), 20),
		size("vfio_iommu_type1_info", unsafe.Sizeof(ii), 24), at("vfio_iommu_type1_info", "cap_offset", unsafe.Offsetof(ii.CapOffset), 16),
		size("vfio_iommu_type1_dma_map", unsafe.Sizeof(dm), 32), at("vfio_iommu_type1_dma_map", "vaddr", unsafe.Offsetof(dm.Vaddr), 8),
		at("vfio_iommu_type1_dma_map", "iova", unsafe.Offsetof(dm.IOVA), 16), at("vfio_iommu_type1_dma_map", "size", unsafe.Offsetof(dm.Size), 24),
		size("vfio_iommu_type1_dma_unmap", unsafe.Sizeof(du), 24), at("vfio_iommu_type1_dma_unmap", "iova", unsafe.Offsetof(du.IOVA), 8),
		at("vfio_iommu_type1_dma_unmap", "size", unsafe.Offsetof(du.Size), 16),
	}
}

func iommufdLayouts() []layout {
	var (
		bi BindIOMMUFD
		at AttachIOAS
		al IOASAlloc
		ra IOASRanges
		ma IOASMap
		un IOASUnmap
	)
	size := func(name string, n uintptr, want uint64) layout {
		return layout{"sizeof(struct " + name + ")", uint64(n), want}
	}
	off := func(name, field string, n uintptr, want uint64) layout {
		return layout{"offsetof(struct " + name + ", " + field + ")", uint64(n), want}
	}
	return []layout{
		{"VFIO_DEVICE_BIND_IOMMUFD", ReqBindIOMMUFD, 0x3b76}, {"VFIO_DEVICE_ATTACH_IOMMUFD_PT", ReqAttachIOAS, 0x3b77},
		{"IOMMU_IOAS_ALLOC", ReqIOASAlloc, 0x3b81}, {"IOMMU_IOAS_IOVA_RANGES", ReqIOASRanges, 0x3b84},
		{"IOMMU_IOAS_MAP", ReqIOASMap, 0x3b85}, {"IOMMU_IOAS_UNMAP", ReqIOASUnmap, 0x3b86},
		{"IOMMU_IOAS_MAP_FIXED_IOVA", IOASFixedIOVA, 1}, {"IOMMU_IOAS_MAP_WRITEABLE", IOASWriteable, 2}, {"IOMMU_IOAS_MAP_READABLE", IOASReadable, 4},
		size("vfio_device_bind_iommufd", unsafe.Sizeof(bi), 16), off("vfio_device_bind_iommufd", "iommufd", unsafe.Offsetof(bi.FD), 8),
		off("vfio_device_bind_iommufd", "out_devid", unsafe.Offsetof(bi.OutDeviceID), 12),
		// A later kernel's structure has a field more; the size that is passed says which one it is.
		off("vfio_device_attach_iommufd_pt", "pt_id", unsafe.Offsetof(at.ID), 8),
		size("iommu_ioas_alloc", unsafe.Sizeof(al), 12), off("iommu_ioas_alloc", "out_ioas_id", unsafe.Offsetof(al.OutID), 8),
		size("iommu_ioas_iova_ranges", unsafe.Sizeof(ra), 32), off("iommu_ioas_iova_ranges", "ioas_id", unsafe.Offsetof(ra.ID), 4),
		off("iommu_ioas_iova_ranges", "num_iovas", unsafe.Offsetof(ra.Count), 8), off("iommu_ioas_iova_ranges", "allowed_iovas", unsafe.Offsetof(ra.Allowed), 16),
		size("iommu_iova_range", unsafe.Sizeof(iovaRange{}), 16), off("iommu_iova_range", "last", unsafe.Offsetof(iovaRange{}.last), 8),
		size("iommu_ioas_map", unsafe.Sizeof(ma), 40), off("iommu_ioas_map", "ioas_id", unsafe.Offsetof(ma.ID), 8),
		off("iommu_ioas_map", "user_va", unsafe.Offsetof(ma.UserVA), 16), off("iommu_ioas_map", "length", unsafe.Offsetof(ma.Length), 24),
		off("iommu_ioas_map", "iova", unsafe.Offsetof(ma.IOVA), 32),
		size("iommu_ioas_unmap", unsafe.Sizeof(un), 24), off("iommu_ioas_unmap", "iova", unsafe.Offsetof(un.IOVA), 8),
		off("iommu_ioas_unmap", "length", unsafe.Offsetof(un.Length), 16),
	}
}

func TestLayoutsAreTheKernels(t *testing.T) {
	for _, l := range append(vfioLayouts(), iommufdLayouts()...) {
		if l.value != l.want {
			t.Errorf("%s is %#x, want %#x", l.c, l.value, l.want)
		}
	}
}

// TestLayoutsAgainstHeaders asks the C compiler. TRITIER_UAPI names a folder with newer headers than the machine's, if it has none with
// iommufd.
func TestLayoutsAgainstHeaders(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc: the numbers written down were checked by TestLayoutsAreTheKernels")
	}
	all := vfioLayouts()
	src := "#include <stddef.h>\n#include <stdio.h>\n#include <linux/vfio.h>\n"
	include := os.Getenv("TRITIER_UAPI")
	if include == "" {
		include = "/usr/include"
	}
	if _, err := os.Stat(filepath.Join(include, "linux/vfio.h")); err != nil {
		t.Skip("no kernel headers: the numbers written down were checked by TestLayoutsAreTheKernels")
	}
	if _, err := os.Stat(filepath.Join(include, "linux/iommufd.h")); err == nil {
		src += "#include <linux/iommufd.h>\n"
		all = append(all, iommufdLayouts()...)
	} else {
		t.Log("these headers have no iommufd: its numbers were checked against those written down only")
	}
	src += "int main(void) {\n"
	for _, l := range all {
		src += fmt.Sprintf("printf(\"%%llu\\n\", (unsigned long long)(%s));\n", l.c)
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/abi.c", []byte(src+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-isystem", include, "-o", dir+"/abi", dir+"/abi.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	out, err := exec.Command(dir + "/abi").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(out))
	if len(got) != len(all) {
		t.Fatalf("%d numbers, want %d", len(got), len(all))
	}
	for i, l := range all {
		if want := got[i]; fmt.Sprint(l.value) != want {
			t.Errorf("%s is %d, the headers say %s", l.c, l.value, want)
		}
	}
	t.Logf("%d numbers agree with the headers in %s", len(all), include)
}
