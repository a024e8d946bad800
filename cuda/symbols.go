package cuda

// Symbol names one function of the driver API, by its exported (versioned) name.
type Symbol int

// The functions that this package uses. A symbol that a driver lacks makes
// only the calls that need it fail, with a *MissingSymbolError.
const (
	SymInit Symbol = iota
	SymDriverGetVersion
	SymGetErrorName
	SymGetErrorString
	SymDeviceGetCount
	SymDeviceGet
	SymDeviceGetName
	SymDeviceGetUUID
	SymDeviceTotalMem
	SymDeviceGetAttribute
	SymDeviceGetPCIBusID
	SymDeviceCanAccessPeer
	SymPrimaryCtxRetain
	SymPrimaryCtxRelease
	SymPrimaryCtxGetState
	SymCtxSetCurrent
	SymCtxGetCurrent
	SymCtxSynchronize
	SymCtxEnablePeerAccess
	SymCtxGetStreamPriorityRange
	SymMemGetInfo
	SymMemAlloc
	SymMemFree
	SymMemHostAlloc
	SymMemFreeHost
	SymMemHostRegister
	SymMemHostUnregister
	SymMemHostGetDevicePointer
	SymMemGetHandleForAddressRange
	SymMemcpyHtoDAsync
	SymMemcpyDtoHAsync
	SymMemcpyDtoDAsync
	SymMemcpyPeerAsync
	SymMemcpyBatchAsync
	SymMemcpyBatchAsyncV2
	SymMemsetD8Async
	SymMemsetD32Async
	SymPointerGetAttribute
	SymStreamCreateWithPriority
	SymStreamDestroy
	SymStreamQuery
	SymStreamSynchronize
	SymStreamWaitEvent
	SymEventCreate
	SymEventDestroy
	SymEventRecord
	SymEventQuery
	SymEventElapsedTime
	SymModuleLoadDataEx
	SymModuleUnload
	SymModuleGetFunction
	SymModuleGetGlobal
	SymFuncGetAttribute
	SymFuncSetAttribute
	SymFuncGetParamInfo
	SymOccupancyMaxActiveBlocks
	SymLaunchKernel
	SymLaunchCooperativeKernel
	numSymbols
)

// symbolNames holds the exported name of each Symbol and the CUDA release
// that brought it, for the error that says a driver is too old.
var symbolNames = [numSymbols]struct{ name, since string }{
	SymInit:                        {"cuInit", "2.0"},
	SymDriverGetVersion:            {"cuDriverGetVersion", "2.2"},
	SymGetErrorName:                {"cuGetErrorName", "6.0"},
	SymGetErrorString:              {"cuGetErrorString", "6.0"},
	SymDeviceGetCount:              {"cuDeviceGetCount", "2.0"},
	SymDeviceGet:                   {"cuDeviceGet", "2.0"},
	SymDeviceGetName:               {"cuDeviceGetName", "2.0"},
	SymDeviceGetUUID:               {"cuDeviceGetUuid", "9.2"},
	SymDeviceTotalMem:              {"cuDeviceTotalMem_v2", "3.2"},
	SymDeviceGetAttribute:          {"cuDeviceGetAttribute", "2.0"},
	SymDeviceGetPCIBusID:           {"cuDeviceGetPCIBusId", "4.1"},
	SymDeviceCanAccessPeer:         {"cuDeviceCanAccessPeer", "4.0"},
	SymPrimaryCtxRetain:            {"cuDevicePrimaryCtxRetain", "7.0"},
	SymPrimaryCtxRelease:           {"cuDevicePrimaryCtxRelease_v2", "11.0"},
	SymPrimaryCtxGetState:          {"cuDevicePrimaryCtxGetState", "7.0"},
	SymCtxSetCurrent:               {"cuCtxSetCurrent", "4.0"},
	SymCtxGetCurrent:               {"cuCtxGetCurrent", "4.0"},
	SymCtxSynchronize:              {"cuCtxSynchronize", "2.0"},
	SymCtxEnablePeerAccess:         {"cuCtxEnablePeerAccess", "4.0"},
	SymCtxGetStreamPriorityRange:   {"cuCtxGetStreamPriorityRange", "5.5"},
	SymMemGetInfo:                  {"cuMemGetInfo_v2", "3.2"},
	SymMemAlloc:                    {"cuMemAlloc_v2", "3.2"},
	SymMemFree:                     {"cuMemFree_v2", "3.2"},
	SymMemHostAlloc:                {"cuMemHostAlloc", "2.2"},
	SymMemFreeHost:                 {"cuMemFreeHost", "2.0"},
	SymMemHostRegister:             {"cuMemHostRegister_v2", "6.5"},
	SymMemHostUnregister:           {"cuMemHostUnregister", "4.0"},
	SymMemHostGetDevicePointer:     {"cuMemHostGetDevicePointer_v2", "3.2"},
	SymMemGetHandleForAddressRange: {"cuMemGetHandleForAddressRange", "11.7"},
	SymMemcpyHtoDAsync:             {"cuMemcpyHtoDAsync_v2", "3.2"},
	SymMemcpyDtoHAsync:             {"cuMemcpyDtoHAsync_v2", "3.2"},
	SymMemcpyDtoDAsync:             {"cuMemcpyDtoDAsync_v2", "3.2"},
	SymMemcpyPeerAsync:             {"cuMemcpyPeerAsync", "4.0"},
	SymMemcpyBatchAsync:            {"cuMemcpyBatchAsync", "12.8"},
	SymMemcpyBatchAsyncV2:          {"cuMemcpyBatchAsync_v2", "13.0"},
	SymMemsetD8Async:               {"cuMemsetD8Async", "3.2"},
	SymMemsetD32Async:              {"cuMemsetD32Async", "3.2"},
	SymPointerGetAttribute:         {"cuPointerGetAttribute", "4.0"},
	SymStreamCreateWithPriority:    {"cuStreamCreateWithPriority", "5.5"},
	SymStreamDestroy:               {"cuStreamDestroy_v2", "4.0"},
	SymStreamQuery:                 {"cuStreamQuery", "2.0"},
	SymStreamSynchronize:           {"cuStreamSynchronize", "2.0"},
	SymStreamWaitEvent:             {"cuStreamWaitEvent", "3.2"},
	SymEventCreate:                 {"cuEventCreate", "2.0"},
	SymEventDestroy:                {"cuEventDestroy_v2", "4.0"},
	SymEventRecord:                 {"cuEventRecord", "2.0"},
	SymEventQuery:                  {"cuEventQuery", "2.0"},
	SymEventElapsedTime:            {"cuEventElapsedTime", "2.0"},
	SymModuleLoadDataEx:            {"cuModuleLoadDataEx", "2.1"},
	SymModuleUnload:                {"cuModuleUnload", "2.0"},
	SymModuleGetFunction:           {"cuModuleGetFunction", "2.0"},
	SymModuleGetGlobal:             {"cuModuleGetGlobal_v2", "3.2"},
	SymFuncGetAttribute:            {"cuFuncGetAttribute", "2.2"},
	SymFuncSetAttribute:            {"cuFuncSetAttribute", "9.0"},
	SymFuncGetParamInfo:            {"cuFuncGetParamInfo", "12.4"},
	SymOccupancyMaxActiveBlocks:    {"cuOccupancyMaxActiveBlocksPerMultiprocessor", "6.5"},
	SymLaunchKernel:                {"cuLaunchKernel", "4.0"},
	SymLaunchCooperativeKernel:     {"cuLaunchCooperativeKernel", "9.0"},
}

// String is the name under which the driver exports the function.
func (s Symbol) String() string {
	if s < 0 || s >= numSymbols {
		return "unknown driver function"
	}
	return symbolNames[s].name
}

// Since is the CUDA release that brought the function, such as "12.8".
func (s Symbol) Since() string {
	if s < 0 || s >= numSymbols {
		return ""
	}
	return symbolNames[s].since
}

// Symbols lists every Symbol, in order.
func Symbols() []Symbol {
	all := make([]Symbol, numSymbols)
	for i := range all {
		all[i] = Symbol(i)
	}
	return all
}

// Backend is what answers the driver's calls: the library, found by dlopen
// (Open), or a software GPU for tests (package cuda/cudafake). Methods are
// called from any thread, at once.
type Backend interface {
	// Has says whether the driver exports the function.
	Has(Symbol) bool
	// Call calls it with the C function's arguments, each widened to a
	// word: integers by value, pointers as addresses. Memory that a pointer
	// argument names stays valid and in place until Call returns. The
	// result is the function's CUresult.
	//
	// Contexts are current per OS thread, as in the driver: the caller has
	// locked its goroutine to its thread.
	Call(s Symbol, args []uintptr) Result
}
