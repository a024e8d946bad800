package cuda

import "github.com/ebitengine/purego"

// callC calls a C function whose arguments and result are words. Unlike purego's
// code for amd64, that for arm64 keeps to its own frame, so that threads which
// have made calls may end.
func callC(fn uintptr, args []uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
