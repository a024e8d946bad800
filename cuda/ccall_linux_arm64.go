package cuda

import "github.com/ebitengine/purego"

// callC calls a C function whose arguments and result are words.
func callC(fn uintptr, args []uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
