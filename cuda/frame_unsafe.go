package cuda

import (
	"runtime"
	"sync"
	"unsafe"
)

// frame is the memory that one driver call needs: its arguments, and what
// they point to. Frames are pooled, so that the calls that a program makes
// most often allocate nothing.
//
// A frame is always on the heap, which does not move: addresses of its fields
// stay valid while the frame is held. A pointer that is stored in keep is for
// that reason on the heap too (the compiler sees it escape), and alive.
type frame struct {
	args [12]uintptr
	keep [3]unsafe.Pointer
	// pinned: the holder has locked its goroutine to its thread for a run
	// of calls, and current is the context that is current there.
	pinned  bool
	current *Context

	set   [1]uintptr // the argument of cuCtxSetCurrent
	attrs copyAttributes
	index uintptr // attrsIdxs
	fail  uint64  // failIdx

	packed   []byte    // a packed parameter block
	offsets  []int     // where each parameter starts in it
	ends     []int     // and where its bytes end
	pointers []uintptr // their addresses, then those of nothing
	given    int       // of them, parameters of the last launch
}

var frames = sync.Pool{New: func() any { return new(frame) }}

func newFrame() *frame { return frames.Get().(*frame) }

// free gives the frame back. It also is what keeps the frame alive until
// after the call.
func (f *frame) free() {
	f.keep = [3]unsafe.Pointer{}
	frames.Put(f)
}

// run calls a function with the context current, and turns its result into
// an error: errNotReady for work in flight. The caller holds a lock that
// keeps the context from being destroyed.
//
// On a lost context it calls nothing and gives the first error again.
func (c *Context) run(s Symbol, f *frame, n int) error {
	if err := c.lost.Load(); err != nil {
		return c.lostError(s, err)
	}
	return c.runAlways(s, f, n)
}

// runAlways is run, without asking whether the context is lost: what is
// closed on a lost context must be closed all the same.
func (c *Context) runAlways(s Symbol, f *frame, n int) error {
	d := c.driver
	if !d.has[s] {
		return &MissingSymbolError{Symbol: s, Have: d.version}
	}
	// A context is current per thread, so the goroutine must not change its
	// thread between the two calls.
	if !f.pinned {
		runtime.LockOSThread()
	}
	called, r := SymCtxSetCurrent, c.makeCurrent(f)
	if r == Success {
		called, r = s, d.backend.Call(s, f.args[:n])
	}
	if !f.pinned {
		runtime.UnlockOSThread()
	}
	switch r {
	case Success:
		return nil
	case NotReady:
		return errNotReady
	}
	return c.fail(called, r)
}

// makeCurrent makes the context current on the thread, which the calling
// goroutine is locked to.
func (c *Context) makeCurrent(f *frame) Result {
	if f.pinned && f.current == c {
		return Success
	}
	f.set[0] = c.handle
	if r := c.driver.backend.Call(SymCtxSetCurrent, f.set[:]); r != Success {
		return r
	}
	if f.pinned {
		f.current = c
	}
	return Success
}

// call is run for calls whose cost does not matter. As Driver.call, it keeps
// what its pointer arguments name in place.
//
//go:uintptrescapes
func (c *Context) call(s Symbol, args ...uintptr) error {
	f := newFrame()
	defer f.free()
	return c.run(s, f, copy(f.args[:], args))
}

// callAlways is call, for what must be done on a lost context too.
//
//go:uintptrescapes
func (c *Context) callAlways(s Symbol, args ...uintptr) error {
	f := newFrame()
	defer f.free()
	return c.runAlways(s, f, copy(f.args[:], args))
}
