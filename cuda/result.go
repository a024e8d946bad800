package cuda

import "fmt"

// Result is the driver's CUresult. It is an error, so that
// errors.Is(err, cuda.IllegalAddress) tells results apart.
type Result uint32

// The results that callers tell apart. The driver has more: their names and
// texts come from the driver itself, in Error.
const (
	Success                     Result = 0
	InvalidValue                Result = 1
	OutOfMemory                 Result = 2
	NotInitialized              Result = 3
	Deinitialized               Result = 4
	NoDevice                    Result = 100
	InvalidDevice               Result = 101
	InvalidImage                Result = 200
	InvalidContext              Result = 201
	NoBinaryForGPU              Result = 209
	ECCUncorrectable            Result = 214
	UnsupportedLimit            Result = 215
	InvalidPTX                  Result = 218
	NVLinkUncorrectable         Result = 220
	UnsupportedPTXVersion       Result = 222
	Contained                   Result = 226
	InvalidHandle               Result = 400
	IllegalState                Result = 401
	NotFound                    Result = 500
	NotReady                    Result = 600
	IllegalAddress              Result = 700
	LaunchOutOfResources        Result = 701
	LaunchTimeout               Result = 702
	PeerAccessAlreadyEnabled    Result = 704
	PeerAccessNotEnabled        Result = 705
	PrimaryContextActive        Result = 708
	ContextIsDestroyed          Result = 709
	Assert                      Result = 710
	HostMemoryAlreadyRegistered Result = 712
	HostMemoryNotRegistered     Result = 713
	HardwareStackError          Result = 714
	IllegalInstruction          Result = 715
	MisalignedAddress           Result = 716
	InvalidAddressSpace         Result = 717
	InvalidPC                   Result = 718
	LaunchFailed                Result = 719
	TensorMemoryLeak            Result = 721
	NotPermitted                Result = 800
	NotSupported                Result = 801
	SystemNotReady              Result = 802
	SystemDriverMismatch        Result = 803
	MPSClientTerminated         Result = 810
	ExternalDevice              Result = 911
	Unknown                     Result = 999
)

// resultNames holds the driver's own names of the results above, for a
// Result that is printed where no driver is at hand.
var resultNames = map[Result]string{
	Success:                     "CUDA_SUCCESS",
	InvalidValue:                "CUDA_ERROR_INVALID_VALUE",
	OutOfMemory:                 "CUDA_ERROR_OUT_OF_MEMORY",
	NotInitialized:              "CUDA_ERROR_NOT_INITIALIZED",
	Deinitialized:               "CUDA_ERROR_DEINITIALIZED",
	NoDevice:                    "CUDA_ERROR_NO_DEVICE",
	InvalidDevice:               "CUDA_ERROR_INVALID_DEVICE",
	InvalidImage:                "CUDA_ERROR_INVALID_IMAGE",
	InvalidContext:              "CUDA_ERROR_INVALID_CONTEXT",
	NoBinaryForGPU:              "CUDA_ERROR_NO_BINARY_FOR_GPU",
	ECCUncorrectable:            "CUDA_ERROR_ECC_UNCORRECTABLE",
	UnsupportedLimit:            "CUDA_ERROR_UNSUPPORTED_LIMIT",
	InvalidPTX:                  "CUDA_ERROR_INVALID_PTX",
	NVLinkUncorrectable:         "CUDA_ERROR_NVLINK_UNCORRECTABLE",
	UnsupportedPTXVersion:       "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
	Contained:                   "CUDA_ERROR_CONTAINED",
	InvalidHandle:               "CUDA_ERROR_INVALID_HANDLE",
	IllegalState:                "CUDA_ERROR_ILLEGAL_STATE",
	NotFound:                    "CUDA_ERROR_NOT_FOUND",
	NotReady:                    "CUDA_ERROR_NOT_READY",
	IllegalAddress:              "CUDA_ERROR_ILLEGAL_ADDRESS",
	LaunchOutOfResources:        "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
	LaunchTimeout:               "CUDA_ERROR_LAUNCH_TIMEOUT",
	PeerAccessAlreadyEnabled:    "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
	PeerAccessNotEnabled:        "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
	PrimaryContextActive:        "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE",
	ContextIsDestroyed:          "CUDA_ERROR_CONTEXT_IS_DESTROYED",
	Assert:                      "CUDA_ERROR_ASSERT",
	HostMemoryAlreadyRegistered: "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
	HostMemoryNotRegistered:     "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
	HardwareStackError:          "CUDA_ERROR_HARDWARE_STACK_ERROR",
	IllegalInstruction:          "CUDA_ERROR_ILLEGAL_INSTRUCTION",
	MisalignedAddress:           "CUDA_ERROR_MISALIGNED_ADDRESS",
	InvalidAddressSpace:         "CUDA_ERROR_INVALID_ADDRESS_SPACE",
	InvalidPC:                   "CUDA_ERROR_INVALID_PC",
	LaunchFailed:                "CUDA_ERROR_LAUNCH_FAILED",
	TensorMemoryLeak:            "CUDA_ERROR_TENSOR_MEMORY_LEAK",
	NotPermitted:                "CUDA_ERROR_NOT_PERMITTED",
	NotSupported:                "CUDA_ERROR_NOT_SUPPORTED",
	SystemNotReady:              "CUDA_ERROR_SYSTEM_NOT_READY",
	SystemDriverMismatch:        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
	MPSClientTerminated:         "CUDA_ERROR_MPS_CLIENT_TERMINATED",
	ExternalDevice:              "CUDA_ERROR_EXTERNAL_DEVICE",
	Unknown:                     "CUDA_ERROR_UNKNOWN",
}

// String is the driver's name of the result, such as
// CUDA_ERROR_ILLEGAL_ADDRESS, or its number where this package has no name.
func (r Result) String() string {
	if name, ok := resultNames[r]; ok {
		return name
	}
	return fmt.Sprintf("CUDA error %d", uint32(r))
}

// Error is String: a Result is an error so that errors.Is can compare it.
func (r Result) Error() string { return r.String() }

// Sticky says whether the result means that the context is lost: every later
// call on it fails too, and only a new process gets the GPU back for certain.
func (r Result) Sticky() bool {
	switch r {
	case ECCUncorrectable, NVLinkUncorrectable, Contained, IllegalAddress,
		LaunchTimeout, ContextIsDestroyed, Assert, HardwareStackError,
		IllegalInstruction, MisalignedAddress, InvalidAddressSpace, InvalidPC,
		LaunchFailed, TensorMemoryLeak, MPSClientTerminated, ExternalDevice:
		return true
	}
	return false
}
