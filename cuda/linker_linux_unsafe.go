//go:build linux && !android && (amd64 || arm64)

package cuda

import (
	"errors"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// The dynamic linker's functions, as package purego has them with cgo and
// without. They are called through callC: purego 0.10.2 calls C on amd64 through
// code that writes into the frame of its caller, so that a thread that has
// opened a library that way crashes when it ends, as threads of goroutines do
// that have locked them.
//
//go:linkname dlopenABI0 github.com/ebitengine/purego.dlopenABI0
var dlopenABI0 uintptr

//go:linkname dlsymABI0 github.com/ebitengine/purego.dlsymABI0
var dlsymABI0 uintptr

//go:linkname dlerrorABI0 github.com/ebitengine/purego.dlerrorABI0
var dlerrorABI0 uintptr

// linkerOpen loads a library, or gives the handle of one that is loaded.
func linkerOpen(name string) (handle uintptr, err error) {
	runtime.LockOSThread() // the linker keeps its errors per thread
	defer runtime.UnlockOSThread()
	path := terminated(name)
	handle = callC(dlopenABI0, []uintptr{uintptr(unsafe.Pointer(unsafe.SliceData(path))), purego.RTLD_NOW | purego.RTLD_LOCAL})
	runtime.KeepAlive(path)
	if handle == 0 {
		return 0, linkerError()
	}
	return handle, nil
}

// linkerSymbol is the address of a function of a library, 0 if it exports none
// of that name.
func linkerSymbol(handle uintptr, name string) uintptr {
	symbol := terminated(name)
	at := callC(dlsymABI0, []uintptr{handle, uintptr(unsafe.Pointer(unsafe.SliceData(symbol)))})
	runtime.KeepAlive(symbol)
	return at
}

// terminated is s as a C string.
func terminated(s string) []byte { return append([]byte(s), 0) }

// linkerError is what the linker says of this thread's last failure.
func linkerError() error {
	at := callC(dlerrorABI0, nil)
	if at == 0 {
		return errors.New("the dynamic linker gives no reason")
	}
	return errors.New(cString(*(**byte)(unsafe.Pointer(&at)))) // C memory, which the collector does not move
}
