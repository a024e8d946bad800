package cudafake

import (
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/cuda"
)

// call is one call of the driver, with the state that it finds. GPU.mu is
// held while it is handled; handlers that wait release it meanwhile.
type call struct {
	*GPU
	symbol cuda.Symbol
	args   []uintptr
	ctx    *context // the thread's current context, where the call needs one
}

func (c *call) ptr(i int) uintptr { return c.args[i] }
func (c *call) u64(i int) uint64  { return uint64(c.args[i]) }
func (c *call) u32(i int) uint32  { return uint32(c.args[i]) }
func (c *call) i32(i int) int     { return int(int32(uint32(c.args[i]))) }

func (c *call) put32(i int, v uint32) { put32(c.args[i], v) }
func (c *call) put64(i int, v uint64) { put64(c.args[i], v) }

// entry is how a function is called.
type entry struct {
	args   int
	out    []int // arguments that are addresses of memory, which the call uses
	needs  need
	handle func(*call) cuda.Result
}

// need is what a call wants to find.
type need uint8

const (
	nothing     need = iota // works before cuInit
	initialised             // after cuInit
	current                 // with a context that is current and not lost
)

// Call answers one driver call, as cuda.Backend says. Arguments that no
// driver would survive, such as a wrong number of them, are InvalidValue and
// listed in Violations.
func (g *GPU) Call(s cuda.Symbol, args []uintptr) cuda.Result {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults.calls[s]++
	e, ok := entries[s]
	if !ok || !g.Has(s) {
		g.note("%s: called, but this driver (CUDA %d) does not have it", s, g.config.version)
		return cuda.NotFound
	}
	if len(args) != e.args {
		g.note("%s: called with %d arguments, it has %d", s, len(args), e.args)
		return cuda.InvalidValue
	}
	c := &call{GPU: g, symbol: s, args: args}
	if r := c.admit(e.needs); r != cuda.Success {
		return r
	}
	if r, ok := g.faults.take(s); ok {
		return r
	}
	for _, i := range e.out {
		if args[i] < lowest {
			return cuda.InvalidValue
		}
	}
	return c.guarded(e)
}

// guarded handles the call. Memory that an argument names and that is not there
// would end the process in a driver, too: here it is a violation.
func (c *call) guarded(e entry) (r cuda.Result) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			c.note("%s: an argument leads to %s", c.symbol, describe(p))
			r = cuda.InvalidValue
		}
	}()
	for _, i := range e.out {
		touch(c.ptr(i)) // before the call changes anything
	}
	return e.handle(c)
}

// exists says whether all of n bytes of the host's memory can be read; where
// they cannot that is a violation.
func (c *call) exists(a uintptr, n uint64, what string) bool {
	if readable(a, n) {
		return true
	}
	c.note("%s: %s at %#x, %d bytes: no memory, or not all of it", c.symbol, what, a, n)
	return false
}

// admit checks what the call needs to find.
func (c *call) admit(n need) cuda.Result {
	switch {
	case n == nothing:
		return cuda.Success
	case c.closed:
		return cuda.Deinitialized
	case !c.initialised:
		return cuda.NotInitialized
	case n == initialised:
		return cuda.Success
	}
	ctx, ok := object[*context](c.GPU, c.current[unix.Gettid()])
	if !ok {
		return cuda.InvalidContext
	}
	c.ctx = ctx
	return ctx.state()
}

// settle is the result of a call that has waited: the context may have been
// lost, or the GPU closed, meanwhile.
func (c *call) settle() cuda.Result {
	if c.closed {
		return cuda.Deinitialized
	}
	return c.ctx.state()
}

// entries says how each function is called.
var entries = map[cuda.Symbol]entry{
	cuda.SymInit:                        {1, nil, nothing, (*call).init},
	cuda.SymDriverGetVersion:            {1, []int{0}, nothing, (*call).driverVersion},
	cuda.SymGetErrorName:                {2, []int{1}, nothing, (*call).errorName},
	cuda.SymGetErrorString:              {2, []int{1}, nothing, (*call).errorString},
	cuda.SymDeviceGetCount:              {1, []int{0}, initialised, (*call).deviceCount},
	cuda.SymDeviceGet:                   {2, []int{0}, initialised, (*call).deviceGet},
	cuda.SymDeviceGetName:               {3, []int{0}, initialised, (*call).deviceName},
	cuda.SymDeviceGetUUID:               {2, []int{0}, initialised, (*call).deviceUUID},
	cuda.SymDeviceTotalMem:              {2, []int{0}, initialised, (*call).deviceMemory},
	cuda.SymDeviceGetAttribute:          {3, []int{0}, initialised, (*call).deviceAttribute},
	cuda.SymDeviceGetPCIBusID:           {3, []int{0}, initialised, (*call).devicePCI},
	cuda.SymDeviceCanAccessPeer:         {3, []int{0}, initialised, (*call).deviceCanAccessPeer},
	cuda.SymPrimaryCtxRetain:            {2, []int{0}, initialised, (*call).primaryRetain},
	cuda.SymPrimaryCtxRelease:           {1, nil, initialised, (*call).primaryRelease},
	cuda.SymPrimaryCtxGetState:          {3, []int{1, 2}, initialised, (*call).primaryState},
	cuda.SymCtxSetCurrent:               {1, nil, initialised, (*call).setCurrent},
	cuda.SymCtxGetCurrent:               {1, []int{0}, initialised, (*call).getCurrent},
	cuda.SymCtxSynchronize:              {0, nil, current, (*call).synchronize},
	cuda.SymCtxEnablePeerAccess:         {2, nil, current, (*call).enablePeer},
	cuda.SymCtxGetStreamPriorityRange:   {2, nil, current, (*call).priorityRange},
	cuda.SymMemGetInfo:                  {2, []int{0, 1}, current, (*call).memInfo},
	cuda.SymMemAlloc:                    {2, []int{0}, current, (*call).memAlloc},
	cuda.SymMemFree:                     {1, nil, current, (*call).memFree},
	cuda.SymMemHostAlloc:                {3, []int{0}, current, (*call).hostAlloc},
	cuda.SymMemFreeHost:                 {1, nil, current, (*call).hostFree},
	cuda.SymMemHostRegister:             {3, []int{0}, current, (*call).hostRegister},
	cuda.SymMemHostUnregister:           {1, nil, current, (*call).hostUnregister},
	cuda.SymMemHostGetDevicePointer:     {3, []int{0}, current, (*call).hostDevicePointer},
	cuda.SymMemGetHandleForAddressRange: {5, []int{0}, current, (*call).rangeHandle},
	cuda.SymMemcpyHtoDAsync:             {4, nil, current, (*call).copyToDevice},
	cuda.SymMemcpyDtoHAsync:             {4, nil, current, (*call).copyToHost},
	cuda.SymMemcpyDtoDAsync:             {4, nil, current, (*call).copyDevice},
	cuda.SymMemcpyPeerAsync:             {6, nil, current, (*call).copyPeer},
	cuda.SymMemcpyBatchAsync:            {9, []int{0, 1, 2}, current, (*call).copyBatch},
	cuda.SymMemcpyBatchAsyncV2:          {8, []int{0, 1, 2}, current, (*call).copyBatch},
	cuda.SymMemsetD8Async:               {4, nil, current, (*call).memset8},
	cuda.SymMemsetD32Async:              {4, nil, current, (*call).memset32},
	cuda.SymPointerGetAttribute:         {3, []int{0}, initialised, (*call).pointerAttribute},
	cuda.SymStreamCreateWithPriority:    {3, []int{0}, current, (*call).streamCreate},
	cuda.SymStreamDestroy:               {1, nil, current, (*call).streamDestroy},
	cuda.SymStreamQuery:                 {1, nil, current, (*call).streamQuery},
	cuda.SymStreamSynchronize:           {1, nil, current, (*call).streamSynchronize},
	cuda.SymStreamWaitEvent:             {3, nil, current, (*call).streamWaitEvent},
	cuda.SymEventCreate:                 {2, []int{0}, current, (*call).eventCreate},
	cuda.SymEventDestroy:                {1, nil, current, (*call).eventDestroy},
	cuda.SymEventRecord:                 {2, nil, current, (*call).eventRecord},
	cuda.SymEventQuery:                  {1, nil, current, (*call).eventQuery},
	cuda.SymEventElapsedTime:            {3, []int{0}, current, (*call).eventElapsed},
	cuda.SymModuleLoadDataEx:            {5, []int{0, 1}, current, (*call).moduleLoad},
	cuda.SymModuleUnload:                {1, nil, current, (*call).moduleUnload},
	cuda.SymModuleGetFunction:           {3, []int{0, 2}, current, (*call).moduleFunction},
	cuda.SymModuleGetGlobal:             {4, []int{3}, current, (*call).moduleGlobal},
	cuda.SymFuncGetAttribute:            {3, []int{0}, current, (*call).functionAttribute},
	cuda.SymFuncSetAttribute:            {3, nil, current, (*call).functionSet},
	cuda.SymFuncGetParamInfo:            {4, []int{2}, current, (*call).functionParam},
	cuda.SymOccupancyMaxActiveBlocks:    {4, []int{0}, current, (*call).occupancy},
	cuda.SymLaunchKernel:                {11, nil, current, (*call).launch},
	cuda.SymLaunchCooperativeKernel:     {10, nil, current, (*call).launchCooperative},
}
