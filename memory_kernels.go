package tritier

import (
	"errors"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/tier/gpu"
)

// GPU is the context that T1 lies in when the engine is gpu, for kernels that use arrays
// of the Memory; else nil, as after Close. It is the Memory's: valid until Close, and not to
// be closed.
func (m *Memory) GPU() *cuda.Context {
	o, ok := m.eng.(*onDevice)
	if !ok || m.open() != nil {
		return nil
	}
	return o.ctx
}

// AccessError is what a kernel's failed accesses are as an error of batch calls: how
// many failed, and of the first of them the status that array_ref's methods gave and its
// page (array_ref's page_of). A *BatchError that names the page; a *PinError when every
// frame was pinned, with the least that could do; nil when none has failed. It works after
// Close as well, since it asks the engine nothing.
func (m *Memory) AccessError(failed int, page uint64, status uint32) error {
	o, ok := m.eng.(*onDevice)
	if !ok {
		return ErrNoRef
	}
	if failed == 0 {
		return nil
	}
	e := &gpu.AccessError{Failed: failed, Pages: []*gpu.PageError{{Page: page, Err: gpu.Status(status).Err()}}}
	if errors.Is(e, gpu.ErrAllPinned) {
		frames, _, _ := o.cfg.pages()
		e.Needed = frames + 1
	}
	return o.named(e, failed)
}
