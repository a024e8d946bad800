package cuda

// Attribute names a property of a device (CUdevice_attribute).
type Attribute int

// The attributes that this project asks for. Any other number of CUDA's may
// be asked for as well.
const (
	MaxThreadsPerBlock             Attribute = 1
	MaxGridDimX                    Attribute = 5
	MaxSharedMemoryPerBlock        Attribute = 8 // bytes
	WarpSize                       Attribute = 10
	MaxRegistersPerBlock           Attribute = 12
	ClockRate                      Attribute = 13 // kHz
	MultiprocessorCount            Attribute = 16
	Integrated                     Attribute = 18 // shares the host's memory
	CanMapHostMemory               Attribute = 19
	ECCEnabled                     Attribute = 32
	PCIBusID                       Attribute = 33
	PCIDeviceID                    Attribute = 34
	MemoryClock                    Attribute = 36 // kHz
	GlobalMemoryBusWidth           Attribute = 37 // bits
	L2CacheSize                    Attribute = 38 // bytes
	MaxThreadsPerMultiprocessor    Attribute = 39
	AsyncEngineCount               Attribute = 40 // copy engines
	UnifiedAddressing              Attribute = 41
	PCIDomainID                    Attribute = 50
	ComputeCapabilityMajor         Attribute = 75
	ComputeCapabilityMinor         Attribute = 76
	StreamPrioritiesSupported      Attribute = 78
	ManagedMemory                  Attribute = 83
	HostNativeAtomicSupported      Attribute = 86
	PageableMemoryAccess           Attribute = 88
	ConcurrentManagedAccess        Attribute = 89
	CanUseHostPointerForRegistered Attribute = 91
	CooperativeLaunch              Attribute = 95
	MaxSharedMemoryPerBlockOptin   Attribute = 97 // bytes
	CanFlushRemoteWrites           Attribute = 98
	HostRegisterSupported          Attribute = 99
	// GPUDirectRDMAWithCUDAVMMSupported is about memory of the virtual
	// memory calls, GPUDirectRDMASupported about the driver as a whole.
	GPUDirectRDMAWithCUDAVMMSupported Attribute = 110
	ReadOnlyHostRegisterSupported     Attribute = 113
	GPUDirectRDMASupported            Attribute = 116
	CanUse64BitStreamMemOps           Attribute = 122
	DMABufSupported                   Attribute = 124
	NUMAConfig                        Attribute = 130 // of the GPU's own memory; CUDA 12.2
	NUMAID                            Attribute = 131 // of the GPU's own memory; CUDA 12.2
	HostNUMAID                        Attribute = 134 // the nearest host node, -1 without; CUDA 12.2
)

// FunctionAttribute names a property of a kernel (CUfunction_attribute).
type FunctionAttribute int

// The properties of a kernel.
const (
	FunctionMaxThreadsPerBlock FunctionAttribute = 0
	FunctionSharedBytes        FunctionAttribute = 1 // static
	FunctionConstBytes         FunctionAttribute = 2
	FunctionLocalBytes         FunctionAttribute = 3 // per thread
	FunctionRegisters          FunctionAttribute = 4 // per thread
	FunctionPTXVersion         FunctionAttribute = 5 // 70 is compute_70
	FunctionBinaryVersion      FunctionAttribute = 6 // 90 is sm_90
	FunctionMaxDynamicShared   FunctionAttribute = 8 // bytes
)
