package cudafake

import "github.com/tritier/tritier/cuda"

// Results that package cuda has no name for.
const (
	peerAccessUnsupported   cuda.Result = 217
	cooperativeLaunchTooBig cuda.Result = 720
)

// lasting lists the results that lose a context for good. It does not ask
// package cuda, whose own list is under test.
var lasting = map[cuda.Result]bool{
	cuda.ECCUncorrectable: true, cuda.NVLinkUncorrectable: true, cuda.IllegalAddress: true, cuda.LaunchTimeout: true,
	cuda.Assert: true, cuda.HardwareStackError: true, cuda.IllegalInstruction: true, cuda.MisalignedAddress: true,
	cuda.InvalidAddressSpace: true, cuda.InvalidPC: true, cuda.LaunchFailed: true,
}

// resultText holds NUL-terminated strings. They are handed out by address, so
// that they must stay where they are: Go's heap does not move.
type resultText struct{ name, text []byte }

var resultTexts = make(map[cuda.Result]resultText)

func init() {
	for r, t := range map[cuda.Result][2]string{
		cuda.Success:                     {"CUDA_SUCCESS", "no error"},
		cuda.InvalidValue:                {"CUDA_ERROR_INVALID_VALUE", "invalid argument"},
		cuda.OutOfMemory:                 {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
		cuda.NotInitialized:              {"CUDA_ERROR_NOT_INITIALIZED", "not initialised"},
		cuda.Deinitialized:               {"CUDA_ERROR_DEINITIALIZED", "driver is closed"},
		cuda.NoDevice:                    {"CUDA_ERROR_NO_DEVICE", "no device"},
		cuda.InvalidDevice:               {"CUDA_ERROR_INVALID_DEVICE", "invalid device"},
		cuda.InvalidImage:                {"CUDA_ERROR_INVALID_IMAGE", "invalid kernel image"},
		cuda.InvalidContext:              {"CUDA_ERROR_INVALID_CONTEXT", "invalid context"},
		cuda.NoBinaryForGPU:              {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image for the device"},
		cuda.ECCUncorrectable:            {"CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error"},
		cuda.UnsupportedLimit:            {"CUDA_ERROR_UNSUPPORTED_LIMIT", "unsupported limit"},
		peerAccessUnsupported:            {"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access not supported"},
		cuda.InvalidPTX:                  {"CUDA_ERROR_INVALID_PTX", "invalid PTX"},
		cuda.NVLinkUncorrectable:         {"CUDA_ERROR_NVLINK_UNCORRECTABLE", "uncorrectable NVLink error"},
		cuda.UnsupportedPTXVersion:       {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "PTX of an unsupported version"},
		cuda.InvalidHandle:               {"CUDA_ERROR_INVALID_HANDLE", "invalid handle"},
		cuda.IllegalState:                {"CUDA_ERROR_ILLEGAL_STATE", "illegal state"},
		cuda.NotFound:                    {"CUDA_ERROR_NOT_FOUND", "not found"},
		cuda.NotReady:                    {"CUDA_ERROR_NOT_READY", "not ready"},
		cuda.IllegalAddress:              {"CUDA_ERROR_ILLEGAL_ADDRESS", "illegal memory access"},
		cuda.LaunchOutOfResources:        {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "launch takes too many resources"},
		cuda.LaunchTimeout:               {"CUDA_ERROR_LAUNCH_TIMEOUT", "launch timed out"},
		cuda.PeerAccessAlreadyEnabled:    {"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is enabled"},
		cuda.PeerAccessNotEnabled:        {"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access is not enabled"},
		cuda.PrimaryContextActive:        {"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "primary context is active"},
		cuda.ContextIsDestroyed:          {"CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
		cuda.Assert:                      {"CUDA_ERROR_ASSERT", "device-side assertion"},
		cuda.HostMemoryAlreadyRegistered: {"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "memory is registered"},
		cuda.HostMemoryNotRegistered:     {"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "memory is not registered"},
		cuda.HardwareStackError:          {"CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
		cuda.IllegalInstruction:          {"CUDA_ERROR_ILLEGAL_INSTRUCTION", "illegal instruction"},
		cuda.MisalignedAddress:           {"CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
		cuda.InvalidAddressSpace:         {"CUDA_ERROR_INVALID_ADDRESS_SPACE", "invalid address space"},
		cuda.InvalidPC:                   {"CUDA_ERROR_INVALID_PC", "invalid program counter"},
		cuda.LaunchFailed:                {"CUDA_ERROR_LAUNCH_FAILED", "launch failed"},
		cooperativeLaunchTooBig:          {"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks for a cooperative launch"},
		cuda.NotPermitted:                {"CUDA_ERROR_NOT_PERMITTED", "not permitted"},
		cuda.NotSupported:                {"CUDA_ERROR_NOT_SUPPORTED", "not supported"},
		cuda.SystemNotReady:              {"CUDA_ERROR_SYSTEM_NOT_READY", "system is not ready"},
		cuda.SystemDriverMismatch:        {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "driver does not fit the system"},
		cuda.Unknown:                     {"CUDA_ERROR_UNKNOWN", "unknown error"},
	} {
		resultTexts[r] = resultText{append([]byte(t[0]), 0), append([]byte(t[1]), 0)}
	}
}
