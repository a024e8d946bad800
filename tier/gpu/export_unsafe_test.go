package gpu

import (
	"sync/atomic"
	"unsafe"
)

// SetBegun, Asked and Passed are words of the report, from a kernel's view: it says that
// it has begun, sees that it is asked to end, and has told how far it is.
func (e *Engine) SetBegun() {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&e.shared.Bytes()[reportAt+reportBegunAt])), 1)
}

func (e *Engine) Asked() bool  { return e.reportWord(reportStopAt) != 0 }
func (e *Engine) Passed() bool { return e.reportWord(reportPassedAt) != 0 }
