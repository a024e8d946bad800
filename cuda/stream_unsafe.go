package cuda

import "unsafe"

func (s *Stream) create(priority int) error {
	return s.ctx.call(SymStreamCreateWithPriority, uintptr(unsafe.Pointer(&s.handle)), streamNonBlocking, uintptr(priority))
}

// StreamPriorities is the range of WithPriority: least is the largest
// number, greatest the smallest. Both are 0 where the device has no priorities.
func (c *Context) StreamPriorities() (least, greatest int, err error) {
	if err := c.acquire("cuda.Context.StreamPriorities"); err != nil {
		return 0, 0, err
	}
	defer c.mu.RUnlock()
	var l, g int32
	err = c.call(SymCtxGetStreamPriorityRange, uintptr(unsafe.Pointer(&l)), uintptr(unsafe.Pointer(&g)))
	return int(l), int(g), about(err, "%s", c.device)
}
