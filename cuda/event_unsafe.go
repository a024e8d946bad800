package cuda

import "unsafe"

func (e *Event) create(flags uintptr) error {
	return e.ctx.call(SymEventCreate, uintptr(unsafe.Pointer(&e.handle)), flags)
}

func (e *Event) elapsed(start *Event) (ms float32, err error) {
	err = e.ctx.call(SymEventElapsedTime, uintptr(unsafe.Pointer(&ms)), start.handle, e.handle)
	return ms, err
}
