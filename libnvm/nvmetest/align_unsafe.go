package nvmetest

import (
	"unsafe"

	"github.com/tritier/tritier/libnvm"
)

// aligned reports whether b starts on a page.
func aligned(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%libnvm.PageSize == 0
}
