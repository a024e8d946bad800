package cuda

import (
	"sync"
	"unsafe"
)

// maxCArgs is how many arguments the longest of the driver's functions has,
// rounded up to keep the stack aligned.
const maxCArgs = 12

// ccall is a call of a C function. ccallEntry knows its layout.
type ccall struct {
	fn   uintptr // replaced by the result
	args [maxCArgs]uintptr
}

var ccalls = sync.Pool{New: func() any { return new(ccall) }}

// ccallAddress is the address of ccallEntry.
var ccallAddress uintptr

// runtimeCgocall is the runtime's switch to the system stack. purego uses
// the same one, and sets up what it needs where cgo is off.
//
//go:linkname runtimeCgocall runtime.cgocall
func runtimeCgocall(fn uintptr, arg unsafe.Pointer) int32

// callC calls a C function whose arguments and result are words. It differs
// from purego.SyscallN in that it allocates nothing, since a spinning wait
// makes millions of calls a second.
func callC(fn uintptr, args []uintptr) uintptr {
	c := ccalls.Get().(*ccall)
	c.fn = fn
	copy(c.args[:], args)
	runtimeCgocall(ccallAddress, unsafe.Pointer(c))
	r := c.fn
	ccalls.Put(c)
	return r
}
